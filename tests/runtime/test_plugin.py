"""--plugin DIR: a feed-forward that day0 does not know, taught by a folder."""

from pathlib import Path

import pytest
import torch

import day0
from day0.errors import Day0Error
from day0.models import plugin
from day0.registry import index as families
from tests.plugins import forgotten
from tests.runtime.commands import Command, change_weights, command, demo_copy

__all__ = ["command", "forgotten"]
IDS = [3, 14, 15, 92, 65, 35, 89, 79]
PLUGIN = '''
"""The demo's dense feed-forward under other names and as one operator."""

import torch
from dataclasses import dataclass

from day0.mechanisms.spec import Mechanism
from day0.registry.family import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Swish:
    width: int


def swish_net(x, left, right, back, y):
    """y = (silu(x left') * (x right')) back'."""
    inner = torch.nn.functional.silu(x.float() @ left.float().T) * (x.float() @ right.float().T)
    y.copy_(inner @ back.float().T)


def flow(spec, b, x, at, flow):
    at = at.child("mlp")
    shapes = {"left": (spec.width, b.width(x)), "right": (spec.width, b.width(x)),
              "back": (b.width(x), spec.width)}
    weights = {name: b.weight(name, at.leaf(f"{name}.weight", dims), role="dense")
               for name, dims in shapes.items()}
    return b.op("swish_net", "swish", {"x": x}, weights)["y"]


FAMILY = Family(
    name="swish_net",
    what="a gated feed-forward in one",
    inputs=("x",),
    outputs=("y",),
    weights=("left", "right", "back"),
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 2.0 * (s.size("left") + s.size("right") + s.size("back")),
)
SWISH = Mechanism(
    stem="swish_net",
    spec=Swish,
    sees=lambda layer: layer.at.child("mlp").has("left.weight"),
    says=lambda layer: False,
    read=lambda layer: Swish(width=layer.at.child("mlp").dim(0, "left.weight")),
    flow=flow,
)


def register(registry):
    registry.family(FAMILY)
    registry.reference("swish_net", swish_net)
    registry.ffn(SWISH)
'''


def write(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "plugin.py").write_text(text)
    return folder


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    """The demo, its dense feed-forward stored under names that nobody knows."""
    folder = demo_copy(tmp_path / "strange")
    names = {"gate_proj": "left", "up_proj": "right", "down_proj": "back"}

    def rename(tensors: dict[str, torch.Tensor]) -> None:
        for old, new in names.items():
            tensor = tensors.pop(f"model.layers.0.mlp.{old}.weight")
            tensors[f"model.layers.0.mlp.{new}.weight"] = tensor

    change_weights(folder, rename)
    return folder


def test_a_plugin_teaches_a_feed_forward(strange: Path, tmp_path: Path) -> None:
    with pytest.raises(Day0Error, match=r"model\.layers\.0\.mlp"):
        day0.load(str(strange), quant="fp32", device="cpu")
    taught = write(tmp_path / "taught", PLUGIN)
    loaded = day0.load(str(strange), quant="fp32", device="cpu", plugin=taught)
    assert ("swish_net", "reference", ("fp32",), 1) in loaded.implementations
    known = day0.load("demo", quant="fp32", device="cpu")
    torch.testing.assert_close(loaded.logits(IDS), known.logits(IDS), rtol=1e-4, atol=1e-4)
    # once a process: the folder may be named again
    day0.load(str(strange), quant="fp32", device="cpu", plugin=taught)


def test_both_commands_take_it(command: Command, strange: Path, tmp_path: Path) -> None:
    taught = write(tmp_path / "taught", PLUGIN)
    done = command("analyze", strange, "--plugin", taught, "--format", "json")
    assert done.data["proof"]["status"] == "proved"
    (entry,) = [e for e in done.data["inventory"] if e["family"] == "swish_net"]
    assert (entry["verdict"], entry["reasons"]) == ("new", ["reference exists"])
    done = command("run", strange, "--plugin", taught, "--max-new-tokens", "2", "--format", "json")
    ran = {"family": "swish_net", "impl": "reference", "formats": ["bf16"], "count": 1}
    assert ran in done.data["implementations"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (None, "has no plugin.py"),
        ("x = 1", r"defines no function register\(registry\)"),
        ("def register(registry:", "cannot be imported"),
        ("import a_module_that_is_not_there", "cannot be imported"),
        ("def register(registry): registry.family(7)", "Family is needed, not int"),
        ("def register(registry): registry.mixer('kda')", "Mechanism is needed, not str"),
        ("def register(registry): registry.reference('kda', 7)", "is a function, not int"),
        ("def register(registry): registry.implementation('kda', 7)", "Impl is needed"),
        ("from pathlib import Path\ndef register(r): r.checklist(Path('x'))", "no checklist x"),
        ("def register(registry): registry.reference('kdaa', print)", "no operator family 'kdaa'"),
        (PLUGIN.replace('name="swish_net"', 'name="kda"'), "'kda' exists already"),
        (PLUGIN.replace('stem="swish_net"', 'stem="glu"'), "'glu' exists already"),
    ],
    ids=["no-file", "no-register", "syntax", "import", "no-family", "no-mechanism", "no-function",
         "no-impl", "no-checklist",
         "unknown-family", "family-taken", "stem-taken"],
)  # fmt: skip
def test_a_bad_plugin_is_an_error(
    command: Command, tmp_path: Path, text: str | None, error: str
) -> None:
    folder = tmp_path / "bad"
    if text is not None:
        write(folder, text)
    done = command("run", "--plugin", folder)
    assert done.code == 2
    assert len(done.complaint) == 2
    assert done.complaint[1].startswith("hint: ")
    with pytest.raises(Day0Error, match=error):
        plugin.load_plugin(folder)


def test_a_mistake_in_its_own_code_keeps_its_traceback(tmp_path: Path) -> None:
    folder = write(tmp_path / "wrong", "def register(registry):\n    1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        plugin.load_plugin(folder)


def test_modules_beside_it_can_be_imported(tmp_path: Path) -> None:
    folder = write(tmp_path / "two", "from beside_the_plugin import register\n")
    (folder / "beside_the_plugin.py").write_text(
        "def kda(): pass\ndef register(registry): registry.reference('kda', kda)\n"
    )
    plugin.load_plugin(folder)
    assert dict(families.added_references()) == {"kda": "beside_the_plugin:kda"}


def test_a_kernel_for_a_family_that_there_is(tmp_path: Path) -> None:
    """It is asked first, counts with its parity case alone, and changes no other family."""
    folder = write(
        tmp_path / "faster",
        "from day0.registry.family import Impl\n"
        "def register(registry):\n"
        "    registry.implementation('softcap', Impl(backend='triton', entry='x:y'))\n"
        "    registry.implementation('gqa', Impl(backend='triton', entry='x:z', parity='x/y'))\n",
    )
    before = families.family("gqa").impls, families.family("mla")
    plugin.load_plugin(folder)
    assert families.family("gqa").impls[0].entry == "x:z"
    assert families.family("gqa").impls[1:] == before[0]
    assert families.family("mla") is before[1]
    assert families.exists("gqa")
    assert dict(families.added_references()) == {}


def test_an_installed_plugin_goes_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "softer.py").write_text(
        "def softcap(): pass\ndef register(registry): registry.reference('softcap', softcap)\n"
    )
    info = tmp_path / "softer-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: softer\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[day0.plugins]\nsoft = softer:register\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Day0Error, match=r"no installed plugin \(there are: .*soft"):
        plugin.load_plugin(Path("hard"))
    plugin.load_plugin(Path("soft"))
    assert dict(families.added_references()) == {"softcap": "softer:softcap"}
