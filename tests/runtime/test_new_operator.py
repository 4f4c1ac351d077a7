"""A mixer that nobody has heard of, from the first analysis to `reuse` (issue 7, done-when 2)."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.corpus import ROOT
from tests.scaffold import fillings, invented

pytestmark = pytest.mark.slow
IDS = [3, 14, 15, 9, 26, 53, 58]
OP = Path("day0_unheard_of", "ops", "unheard_of_mixer")


def called(*command: str | Path, cwd: Path = ROOT, path: str = "", code: int = 0) -> str:
    """stdout of a Python process that finds this checkout first."""
    done = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "kernels"), path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def judged(folder: Path, *options: str | Path, path: str = "") -> dict[str, Any]:
    """The row of the inventory for what mixes layers 0 and 2, and the proof's status."""
    out = called("day0", "analyze", folder, "--quant", "fp32", "--format", "json", *options,
                 path=path)  # fmt: skip
    data = json.loads(out)
    (row,) = [row for row in data["inventory"] if row["layers"] == [0, 2] and row["params"] > 7000]
    return {**row, "proof": data["proof"]["status"]}


def outcome(text: str) -> set[str]:
    """Of pytest -q -rA: "PASSED test_parity[x]", ..."""
    lines = [line.partition(" - ")[0] for line in text.splitlines()]
    return {
        f"{word} {name.partition('::')[2]}"
        for word, _, name in (line.partition(" ") for line in lines)
        if word in ("PASSED", "FAILED", "ERROR", "SKIPPED")
    }


def compared(package: Path, *options: str, code: int) -> str:
    return called("pytest", "-q", "-rA", "-p", "no:cacheprovider", *options, cwd=package, code=code)


def plain_logits(weights: dict[str, torch.Tensor], ids: list[int]) -> torch.Tensor:
    """The last row's logits of the invented model, written down without day0."""

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weights[name]

    def heads(x: torch.Tensor, name: str, count: int) -> torch.Tensor:
        return (x @ weights[name].T).unflatten(-1, (count, -1)).transpose(0, 1)  # [h, t, d]

    def turned(x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        turns = torch.arange(half, dtype=x.dtype) * (-2.0 / x.shape[-1])
        angle = torch.arange(x.shape[1], dtype=x.dtype).unsqueeze(-1) * 10000.0**turns
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    def mixed(x: torch.Tensor, at: str) -> torch.Tensor:
        """As a masked sum over all pairs: another form than the definition's recurrence."""
        q, k, v, gate = (
            heads(x, f"{at}{name}.weight", invented.HEADS)
            for name in ("q_proj", "k_proj", "v_proj", "value_gate")
        )
        apart = torch.arange(len(x)).view(-1, 1) - torch.arange(len(x))
        decay = weights[f"{at}decay"].sigmoid().view(-1, 1, 1) ** apart.clamp(min=0)
        y = ((q @ k.mT) * decay).tril() @ (v * gate.sigmoid())
        return y.transpose(0, 1).flatten(1) @ weights[f"{at}o_proj.weight"].T

    def attended(x: torch.Tensor, at: str) -> torch.Tensor:
        q, k, v = (heads(x, f"{at}{n}_proj.weight", h) for n, h in (("q", 6), ("k", 2), ("v", 2)))
        k, v = turned(k).repeat_interleave(3, 0), v.repeat_interleave(3, 0)
        scores = turned(q) @ k.mT * 4**-0.5
        hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        y = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
        return y.transpose(0, 1).flatten(1) @ weights[f"{at}o_proj.weight"].T

    x = weights["model.embed_tokens.weight"][ids]
    for layer in range(3):
        at = f"model.layers.{layer}."
        inner = norm(x, f"{at}input_layernorm.weight")
        x = x + (attended(inner, f"{at}self_attn.") if layer == 1 else mixed(inner, f"{at}mixer."))
        inner = norm(x, f"{at}post_attention_layernorm.weight")
        up = inner @ weights[f"{at}mlp.up_proj.weight"].T
        gate = torch.nn.functional.silu(inner @ weights[f"{at}mlp.gate_proj.weight"].T)
        x = x + (gate * up) @ weights[f"{at}mlp.down_proj.weight"].T
    return norm(x[-1], "model.norm.weight") @ weights["model.embed_tokens.weight"].T


def test_from_unheard_of_to_reuse(tmp_path: Path, seed: int) -> None:
    model = invented.write(tmp_path / "model", seed)
    package = tmp_path / "package"

    # Nobody knows it: new, with the right tensors, and nothing runs it.
    found = judged(model)
    assert (found["family"], found["verdict"], found["proof"]) == ("unknown", "new", "incomplete")
    dims = sorted(tuple(spec["dims"]) for spec in found["weights"].values())
    assert dims == sorted(invented.MIXER.values())
    called("day0", "run", model, "--quant", "fp32", code=4)

    # The scaffold explains its tensors; one test an operator fails, and names the file.
    called("day0", "scaffold", model, "--quant", "fp32", "--out", package)
    found = judged(model, "--plugin", package)
    assert (found["family"], found["verdict"], found["proof"]) == (
        "unheard_of_mixer", "new", "proved",
    )  # fmt: skip
    assert "reference exists" not in found["reasons"]
    first = compared(package, code=1)
    failed = {line for line in outcome(first) if not line.startswith("PASSED")}
    known = sorted(path.name for path in (package / OP).parent.iterdir() if path.is_dir())
    assert failed == {f"FAILED test_parity[{name}]" for name in known}
    assert f"write the definition in {package / OP / 'reference.py'}" in first
    assert len(outcome(first)) > 3 * len(known)

    # Ten lines: the definition exists, the model generates, and its logits are right.
    reference = package / OP / "reference.py"
    reference.write_text(fillings.fill_reference(reference.read_text()))
    found = judged(model, "--plugin", package)
    assert (found["verdict"], "reference exists" in found["reasons"]) == ("new", True)
    out = called("day0", "scaffold", model, "--quant", "fp32", "--plugin", package, "--out",
                 tmp_path / "again")  # fmt: skip
    assert "what is new is there to be finished: unheard_of_mixer" in out
    ids = tmp_path / "ids.jsonl"
    ids.write_text(json.dumps({"ids": IDS}) + "\n")
    out = called("day0", "run", model, "--plugin", package, "--backend", "reference", "--quant",
                 "fp32", "--prompts", ids, "--max-new-tokens", "4", "--format", "json")  # fmt: skip
    data = json.loads(out)
    rows = [row for row in data["implementations"] if row["family"] == "unheard_of_mixer"]
    assert [(row["impl"], row["count"]) for row in rows] == [("reference", 2)]
    weights = {k: v.double() for k, v in load_file(model / "model.safetensors").items()}
    said = list(IDS)
    for token in data["outputs"][0]["ids"]:
        logits = plain_logits(weights, said)
        assert logits[token] >= logits.max() - 1e-4
        said.append(token)
    assert len(said) == len(IDS) + 4

    # A kernel whose cases pass: reuse, from the folder and installed, until a source changes.
    kernel = package / OP / "kernel.py"
    kernel.write_text(fillings.fill_kernel(kernel.read_text()))
    assert judged(model, "--plugin", package)["verdict"] == "new"
    assert outcome(compared(package, "-k", "unheard_of_mixer", code=0)) >= {
        "PASSED test_parity[unheard_of_mixer]"
    }
    found = judged(model, "--plugin", package)
    assert found["verdict"] == "reuse"
    assert found["impl"] == "triton:day0_unheard_of.ops.unheard_of_mixer.kernel:unheard_of_mixer"
    site = installed(package, tmp_path)
    assert judged(model, "--plugin", "unheard_of", path=str(site))["verdict"] == "reuse"
    kernel.write_text(kernel.read_text().replace("b_s * kept", "b_s / kept"))
    assert judged(model, "--plugin", package)["verdict"] == "new"
    assert f"write the kernel in {kernel}" in compared(package, "-k", "test_parity[unheard", code=1)

    # What was written stays, also when the scaffold is written again.
    again = called("day0", "scaffold", model, "--quant", "fp32", "--out", package)
    assert re.match(r"0 files written, \d+ unchanged, 2 kept though they differ", again)
    assert "b_s / kept" in kernel.read_text()


def installed(package: Path, folder: Path) -> Path:
    """The package's wheel, unpacked where an installer would put it."""
    pytest.importorskip("hatchling")
    called("hatchling", "build", "-t", "wheel", "-d", folder / "dist", cwd=package)
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"
