"""Plugins for serving engines, against stubs of them: entry point, shape, weight map, caches."""

import inspect
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from day0.analysis.analyze import Analysis, analyze
from day0.analysis.checklist import answered
from day0.ir.weight import Tied, leaves
from day0.report.analysis_json import to_json
from tests.scaffold import invented, packages

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from tests.scaffold.stubs import Registered, engines  # noqa: E402

GROUPS = {"vllm": "vllm.general_plugins", "sglang": "sglang.srt.plugins"}
MODELS = {
    "demo": "demo",
    "kimi-k3": "catalog:moonshotai--kimi-k3",
    "qwen3-next": "catalog:qwen--qwen3-next-80b-a3b-instruct",
    "gpt-oss": "catalog:openai--gpt-oss-20b",
    "deepseek-v4": "catalog:deepseek-ai--deepseek-v4-flash-0731",
    "llama-awq": "catalog:thebloke--llama-2-7b-awq",
}
# Nothing of theirs is without a class of vLLM.
WHOLE = ("kimi-k3", "qwen3-next", "gpt-oss", "llama-awq")


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """A written plugin, importable as long as the fixture lives."""

    engine: str
    folder: Path
    package: str
    analysis: Analysis

    def part(self, name: str) -> Any:
        return import_module(f"{self.package}.{name}")

    @property
    def model(self) -> Any:
        (made,) = (value for name, value in vars(self.part("model")).items()
                   if name.endswith("ForCausalLM"))  # fmt: skip
        return made


@pytest.fixture(scope="module")
def analyses() -> dict[str, Analysis]:
    return {name: analyze(model) for name, model in MODELS.items()}


@pytest.fixture(scope="module")
def plugins(
    analyses: dict[str, Analysis], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Plugin]:
    made = {}
    for name, analysis in analyses.items():
        checklist = answered(to_json(analysis))
        for engine in GROUPS:
            folder = tmp_path_factory.mktemp(f"{name}-{engine}")
            package = packages.written(analysis, checklist, folder / "out", engine)
            made[name, engine] = Plugin(
                engine=engine, folder=folder / "out", package=package.name, analysis=analysis
            )
    return made


@pytest.fixture
def said(plugins: dict[tuple[str, str], Plugin]) -> Iterator[Registered]:
    """With the stubs and all plugins in place; what they register."""
    with pytest.MonkeyPatch.context() as patch:
        said = Registered()
        for name, module in engines(said).items():
            patch.setitem(sys.modules, name, module)
        for plugin in plugins.values():
            patch.syspath_prepend(plugin.folder)
        yield said
        for name in [
            name for name in sys.modules if name.startswith("day0_") and "kernels" not in name
        ]:
            del sys.modules[name]


every = pytest.mark.parametrize(
    "key", [(name, engine) for name in MODELS for engine in GROUPS], ids="-".join
)


@every
def test_the_entry_point_registers(
    plugins: dict[tuple[str, str], Plugin], key: tuple[str, str], said: Registered
) -> None:
    plugin = plugins[key]
    project = tomllib.loads((plugin.folder / "pyproject.toml").read_text())["project"]
    ((group, entries),) = project["entry-points"].items()
    assert group == GROUPS[plugin.engine]
    (target,) = entries.values()
    module, _, name = target.partition(":")
    register = getattr(import_module(module), name)
    register()
    register()  # engines call it in every process, and more than once
    assert set(said.models) == set(plugin.analysis.spec.architectures)
    for found in said.models.values():
        if plugin.engine == "vllm":
            place, _, found = found.partition(":")
            assert place == f"{plugin.package}.model"
            assert found == plugin.model.__name__
        else:
            assert found is plugin.model is plugin.part("model").EntryClass
    kept = "kda" in {op.family for op in plugin.analysis.model.graphs["main"].ops}
    assert len(said.linear) == (plugin.engine == "sglang" and kept)
    for spec in said.linear:
        assert spec.arch_names == list(plugin.analysis.spec.architectures)
        assert spec.config_class is plugin.part("config").Config


@every
def test_the_class_has_the_engines_shape(
    plugins: dict[tuple[str, str], Plugin], key: tuple[str, str], said: Registered
) -> None:
    plugin = plugins[key]
    made = plugin.model

    def names(method: str) -> list[str]:
        return list(inspect.signature(getattr(made, method)).parameters)

    first = ["self", "input_ids", "positions"]
    if plugin.engine == "vllm":
        kinds = inspect.signature(made.__init__).parameters
        assert kinds["vllm_config"].kind is inspect.Parameter.KEYWORD_ONLY
        assert kinds["prefix"].default == ""
        assert names("forward") == [*first, "intermediate_tensors", "inputs_embeds"]
        assert names("embed_input_ids") == ["self", "input_ids"]
        assert names("compute_logits") == ["self", "hidden_states"]
        bases = [base.__name__ for base in made.__mro__]
        hybrid = any(cache.role == "state" for cache in plugin.analysis.model.caches.values())
        assert ("IsHybrid" in bases, "HasInnerState" in bases) == (hybrid, hybrid)
        assert hasattr(made, "get_mamba_state_copy_func") == hybrid
        config = SimpleNamespace(model_config=SimpleNamespace(hf_config=SimpleNamespace(a=1)))
        model = made(vllm_config=config)
        empty = model.make_empty_intermediate_tensors(3, torch.float32, torch.device("cpu"))
        assert empty["hidden_states"].shape[0] == 3
    else:
        assert names("__init__") == ["self", "config", "quant_config", "prefix"]
        assert names("forward") == [*first, "forward_batch", "inputs_embeds", "pp_proxy_tensors"]
        model = made(SimpleNamespace())
    assert isinstance(model, torch.nn.Module)
    with pytest.raises(NotImplementedError, match=r"model\.py"):
        model.forward(*[None] * (2 + (plugin.engine == "sglang")))


@every
def test_every_tensor_finds_its_parameters(
    plugins: dict[tuple[str, str], Plugin], key: tuple[str, str], said: Registered
) -> None:
    """The map, asked for every tensor of the Graph, gives the weights that the Graph makes."""
    plugin = plugins[key]
    model = plugin.analysis.model
    wanted: dict[str, set[str]] = {}
    for weight in model.weights.values():
        for source in (weight.source, *weight.padding):
            for leaf, count in leaves(source):
                for name in [part for _, part in leaf.parts] or [leaf.name]:
                    for e in {0, max(0, count - 1)}:
                        wanted.setdefault(name.replace("{e}", str(e)), set()).add(weight.name)
    placed: list[tuple[str, str]] = []

    class Filled(plugin.model):  # type: ignore[name-defined]
        def __init__(self) -> None:
            pass

        def place(self, parameter: str, how: str, name: str, tensor: Any) -> None:
            placed.append((name, parameter))

    loaded = Filled().load_weights((name, None) for name in wanted)
    found: dict[str, set[str]] = {}
    for name, parameter in placed:
        found.setdefault(name, set()).add(parameter)
    assert found == wanted
    untied = {name for name, weight in model.weights.items() if not isinstance(weight.source, Tied)}
    assert loaded == untied
    with pytest.raises(KeyError):
        plugin.part("weights").parameters("model.layers.0.nobody.knows.me")


def test_how_a_fused_tensor_is_taken_apart(
    plugins: dict[tuple[str, str], Plugin], said: Registered
) -> None:
    weights = plugins["gpt-oss", "vllm"].part("weights")
    name = "model.layers.7.block_sparse_moe.experts.gate_up_proj"
    assert dict(weights.parameters(name)) == {
        "layers.7.ffn.gate": "0:1 of every 2 along dim 2; dims in the order 0, 2, 1",
        "layers.7.ffn.up": "1:2 of every 2 along dim 2; dims in the order 0, 2, 1",
    }


@pytest.mark.parametrize("name", WHOLE)
def test_cache_specs_hold_the_bytes_of_the_analysis(
    plugins: dict[tuple[str, str], Plugin], name: str, said: Registered
) -> None:
    plugin = plugins[name, "vllm"]
    caches, totals = plugin.part("caches"), plugin.analysis.cache_totals
    layers = range(len(plugin.analysis.spec.layers))
    specs = [spec for n in layers for spec in caches.attention_specs(n, block_size=16).values()]
    growing = [spec for spec in specs if not hasattr(spec, "sliding_window")]
    drafts = sum(  # which have caches of their own, and stand in no layer of the trunk
        cache.elements * 2
        for cache in plugin.analysis.model.caches.values()
        if cache.layer not in layers and cache.growth == "per-token"
    )
    held = sum(spec.page_size_bytes for spec in growing) // 16
    assert held == totals.kv_bytes_per_token + totals.index_bytes_per_token - drafts
    windows = sum(
        spec.page_size_bytes // 16 * spec.sliding_window for spec in specs if spec not in growing
    )
    assert windows == totals.window_bytes_per_sequence
    if name in ("kimi-k3", "qwen3-next"):
        states = [caches.state_spec(n, block_size=16) for n in layers]
        held = sum(spec.page_size_bytes for spec in states if spec)
        assert held == totals.state_bytes_per_sequence
        four = [caches.state_spec(n, block_size=16, ranks=4) for n in layers]
        assert sum(spec.page_size_bytes for spec in four if spec) * 4 == held
        with pytest.raises(ValueError, match="cannot be split over 7 ranks"):
            caches.state_spec(0, block_size=16, ranks=7)


def test_kimi_k3_has_24_latent_layers_and_69_states(
    plugins: dict[tuple[str, str], Plugin], said: Registered
) -> None:
    caches = plugins["kimi-k3", "sglang"].part("caches")
    assert (len(caches.ATTENTION_LAYERS), len(caches.STATE_LAYERS)) == (24, 69)
    config = plugins["kimi-k3", "sglang"].part("config").Config()
    assert sorted([*config.linear_layer_ids, *config.full_attention_layer_ids]) == list(range(93))
    model = plugins["kimi-k3", "vllm"].model
    ranks = SimpleNamespace(parallel_config=SimpleNamespace(tensor_parallel_size=8))
    assert model.get_mamba_state_shape_from_config(ranks)[-1] == (12, 128, 128)
    assert model.get_mamba_state_dtype_from_config(ranks)[-1] is torch.float32


def test_what_crosses_between_stages(
    plugins: dict[tuple[str, str], Plugin], said: Registered
) -> None:
    """A plain stream is one tensor; hyper-connections widen it, residual blocks add to it."""
    carried = {name: plugins[name, "vllm"].part("model").CARRIED for name in MODELS}
    assert carried["qwen3-next"] == {"hidden_states": (2048,)}
    assert carried["deepseek-v4"]["hidden_states"] == (4 * 4096,)
    # 8 stored blocks of Kimi-K3 and the one that is being summed, at most.
    assert set(carried["kimi-k3"].values()) == {(7168,)}
    assert 8 <= len(carried["kimi-k3"]) <= 9


def test_what_has_no_class_is_said(plugins: dict[tuple[str, str], Plugin]) -> None:
    for (name, _), plugin in plugins.items():
        readme = (plugin.folder / "README.md").read_text()
        assert "**Not loaded in an engine.**" in readme
        assert ("Caches without a class" in readme) == (name not in WHOLE)
    readme = (plugins["deepseek-v4", "vllm"].folder / "README.md").read_text()
    assert "| `mixer.entries.pooled` | 2, 4" in readme
    assert "one entry for 128 tokens" in readme


@every
def test_operators_are_the_graphs(
    plugins: dict[tuple[str, str], Plugin], key: tuple[str, str], said: Registered
) -> None:
    plugin = plugins[key]
    operators = plugin.part("operators").operators
    for layer in range(len(plugin.analysis.spec.layers)):
        ops = [op for op in plugin.analysis.model.graphs["main"].ops if op.layer == layer]
        assert [family for _, family in operators(layer)] == [op.family for op in ops]
        assert [op.id for op in ops] == [f"layers.{layer}.{name}" for name, _ in operators(layer)]


@pytest.mark.parametrize("engine", GROUPS)
def test_linters_have_nothing_to_say(
    plugins: dict[tuple[str, str], Plugin], engine: str, tmp_path: Path
) -> None:
    """Of an awkward checkpoint's plugin neither."""
    analysis = analyze(str(invented.write(tmp_path / "model", 3, *invented.strange())))
    packages.written(analysis, answered(to_json(analysis)), tmp_path / "out", engine)
    folders = [str(plugin.folder) for (_, name), plugin in plugins.items() if name == engine]
    for command in (("check", "--no-cache"), ("format", "--no-cache", "--check")):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *folders, tmp_path / "out"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


def test_an_unknown_mixer_has_a_plugin_too(tmp_path: Path) -> None:
    analysis = analyze(str(invented.write(tmp_path / "model", 3)), quant="fp32")
    checklist = answered(to_json(analysis))
    package = packages.written(analysis, checklist, tmp_path / "out", "vllm")
    assert "`unheard_of_mixer` (new)" in (tmp_path / "out" / "README.md").read_text()
    assert "layers.{0}.mixer.mixer.decay" in (package / "weights.py").read_text()
