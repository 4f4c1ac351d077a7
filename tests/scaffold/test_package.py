"""What is written for real models and invented ones: sound sources, and tests of which exactly one
an operator fails at first, naming the file to fill in."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from day0.analysis.analyze import Analysis, analyze
from day0.analysis.checklist import answered
from day0.analysis.worklist import WorkList, worklist
from day0.passes.choose import BUILT_IN
from day0.report.analysis_json import to_json
from day0.scaffold.layouts import Layout, odd
from day0.scaffold.package import package_files
from day0.scaffold.signature import signature
from tests import checklists
from tests.corpus import ROOT
from tests.scaffold import packages

pytest.importorskip("torch")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "kernels")))}


@dataclass(frozen=True, kw_only=True)
class Made:
    """A written scaffold: its `folder` and its `package` inside."""

    folder: Path
    package: Path
    work: WorkList
    analysis: Analysis

    @property
    def ops(self) -> list[str]:
        return [operator.stem for operator in self.work.operators]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Made]]:
    root = tmp_path_factory.mktemp("scaffolds")
    result = {}
    for name in packages.MODELS:
        analysis, checklist = packages.found(name, root / f"{name}.model")
        if not worklist(analysis).operators:
            continue  # every operator of it has a kernel by now
        package = packages.written(analysis, checklist, root / name)
        result[name] = Made(
            folder=root / name, package=package, work=worklist(analysis), analysis=analysis
        )
    return result


def called(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_linters_have_nothing_to_say(made: dict[str, Made]) -> None:
    root = made["invented"].folder.parent
    for command in (("ruff", "check", "--no-cache"), ("ruff", "format", "--no-cache", "--check")):
        done = called(*command, *(str(one.folder) for one in made.values()), cwd=root)
        assert done.returncode == 0, done.stdout


def test_pyright_has_nothing_to_say(made: dict[str, Made], tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    root = made["invented"].folder.parent
    folders = [str(one.folder) for one in made.values()]
    config = {
        **tomllib.loads((made["invented"].folder / "pyproject.toml").read_text())["tool"][
            "pyright"
        ],
        "include": [str(one.package) for one in made.values()],
        "extraPaths": [str(ROOT), str(ROOT / "kernels"), *folders],
    }
    path = tmp_path / "pyrightconfig.json"
    path.write_text(json.dumps(config))
    done = called("pyright", "--pythonpath", sys.executable, "-p", str(path), cwd=root)
    assert done.returncode == 0, done.stdout


# The invented one is run, and filled in, by tests/runtime/test_new_operator.py.
@pytest.mark.parametrize("name", ["strange", "minimax-m3", "deepseek-v4"])
def test_one_test_an_operator_fails(made: dict[str, Made], name: str) -> None:
    if name not in made:
        pytest.skip("every operator of it has a kernel by now")
    one = made[name]
    done = called("pytest", "-q", "-rA", "-p", "no:cacheprovider", cwd=one.folder)
    assert done.returncode == 1, done.stdout + done.stderr
    words = [line.split(" - ")[0].split() for line in done.stdout.splitlines()]
    outcome = [
        (word[0], word[1].partition("::")[2])
        for word in words
        if len(word) == 2 and word[0] in ("PASSED", "FAILED", "ERROR", "SKIPPED")
    ]
    assert {test for word, test in outcome if word == "FAILED"} == {
        f"test_parity[{op}]" for op in one.ops
    }
    assert sum(word == "PASSED" for word, _ in outcome) == 3 * len(one.ops) + len(one.work.blocks)
    assert {word for word, _ in outcome} == {"PASSED", "FAILED"}
    for operator in one.work.operators:
        first = "kernel.py" if operator.family else "reference.py"
        assert f"in {one.package / 'ops' / operator.stem / first}" in done.stdout
    # Untouched: a test that fails leaves no evidence behind.
    assert not list(one.folder.rglob("parity.json"))


def test_every_case_can_be_passed(made: dict[str, Made], tmp_path: Path) -> None:
    """By the definitions themselves, put in the kernels' places; then everything is reuse."""
    if "deepseek-v4" not in made:
        pytest.skip("every operator of it has a kernel by now")
    folder = shutil.copytree(made["deepseek-v4"].folder, tmp_path / "filled")
    ops = sorted(path.parent for path in folder.glob("day0_*/ops/*/kernel.py"))
    for op in ops:
        (op / "kernel.py").write_text((op / "reference.py").read_text())
    done = called("pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert done.returncode == 0, done.stdout
    assert all((op / "parity.json").is_file() for op in ops)
    model = made["deepseek-v4"].analysis.id
    done = called("day0", "analyze", model, "--plugin", str(folder), "--format", "json", cwd=ROOT)
    rows = json.loads(done.stdout)["inventory"]
    impls = {row["impl"] for row in rows}
    for op in ops:
        assert any(f".ops.{op.name}.kernel:" in impl for impl in impls)
    assert {row["verdict"] for row in rows} == {"reuse"}


def test_who_is_new(made: dict[str, Made]) -> None:
    """By the registry's judgement, whatever that is today, and not by a list of ours."""
    for one in made.values():
        judged = {
            entry.family
            for entry in one.analysis.entries
            if entry.verdict.status != "reuse" and entry.family not in (*BUILT_IN, "unknown")
        }
        assert {operator.family for operator in one.work.operators if operator.family} == judged
        assert {path.parent.name for path in one.package.glob("ops/*/kernel.py")} == set(one.ops)
    assert made["invented"].ops == ["unheard_of_mixer"]
    assert [block.slot for block in made["strange"].work.blocks] == ["mixer", "ffn"]


def test_a_known_family_takes_the_definitions_arguments() -> None:
    found = signature("day0_kernels.basic.reference:linear")
    assert [(one.name, one.default, one.keyword_only) for one in found] == [
        ("x", "", False), ("weight", "", False), ("y", "", False), ("bias", "None", False),
        ("groups", "1", True),
    ]  # fmt: skip
    with pytest.raises(LookupError, match="defines no function nothing"):
        signature("day0_kernels.basic.reference:nothing")


def test_sizes_that_are_too_much_for_a_cpu_shrink_with_their_attributes() -> None:
    large = Layout(
        rows={"x": (32768,)},
        outputs={"y": (8192,)},
        weights={"weight": (8192, 4096)},
        attrs={"groups": 8, "relu": True, "limit": 7, "scale": 0.5},
    )
    small = odd(large)
    assert (large.is_small, small.is_small) == (False, True)
    groups = small.attrs["groups"]
    rows, inner = small.weights["weight"]
    assert groups % 2 == inner % 2 == 1
    assert (small.rows["x"], small.outputs["y"]) == ((groups * inner,), (rows,))
    assert rows % groups == 0
    assert {**small.attrs, "groups": 8} == large.attrs


def test_no_format_is_claimed_that_no_case_shows(made: dict[str, Made]) -> None:
    if "minimax-m3" not in made:
        pytest.skip("every operator of it has a kernel for fp8 by now")
    one, seen = made["minimax-m3"], 0
    for operator in (operator for operator in one.work.operators if operator.family):
        shapes = [entry.shapes for entry in operator.entries]
        specs = [spec for each in shapes for spec in each.weights.values()]
        specs += [spec for each in shapes for parts in each.caches.values() for spec in parts]
        folder = one.package / "ops" / operator.stem
        (found,) = re.findall(
            r"formats=(\{\}|\{.*?\n    \}),", (folder / "family.py").read_text(), re.DOTALL
        )
        claims = ast.literal_eval(found)
        assert {name for names in claims.values() for name in names} <= {"fp32", "bf16", "fp16"}
        for narrow in {spec.format for spec in specs if spec.format.startswith("fp8")}:
            seen += 1
            assert narrow in (folder / "README.md").read_text()
    assert seen


def test_an_operators_checklist_is_sound(made: dict[str, Made]) -> None:
    paths = [path for one in made.values() for path in one.package.glob("ops/*/checklist.yaml")]
    assert len(paths) == 4  # of the families that have none in checklists/ops
    for path in paths:
        content = yaml.safe_load(path.read_text())
        assert checklists.complaints(Path("ops", f"{path.parent.name}.yaml"), content, ROOT) == []


def test_what_is_read_of_the_checkpoint(made: dict[str, Made]) -> None:
    one = made["strange"]
    source = (one.package / "words.py").read_text()
    tables = {
        node.target.id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
    }
    assert tables["UNREAD"] == ("decay_gate_rank", "in.lambda", "half \ud800")
    (mlp,) = [table for op, table in tables["TENSORS"].items() if op.endswith("_mlp")]
    assert sorted(mlp.values()) == [
        ("mlp.blocks.{e}.class-2.weight", (3, 24, 40)),
        ("mlp.blocks.{e}.in.weight", (3, 40, 24)),
        ("mlp.positions.weight", (24,)),
        ("mlp.y", (3, 24)),
    ]
    assert all(name.isidentifier() and name not in ("y", "positions") for name in mlp)


@pytest.mark.parametrize("name", ["invented", "strange"])
def test_the_checklist_is_the_models(made: dict[str, Made], name: str) -> None:
    one = made[name]
    text = (one.folder / "checklist.md").read_text()
    marks = answered(to_json(one.analysis)).marks
    ticked = re.findall(r"^- \[(x| )\] \*\*(\w+)\*\*", text, re.MULTILINE)
    assert len(ticked) == len(marks) > 60
    assert [status for _, status in ticked] == [mark.status for mark in marks]
    assert all((tick == "x") == (status == "pass") for tick, status in ticked)


def test_facts_that_are_assumed_can_be_stated(made: dict[str, Made]) -> None:
    one = made["invented"]
    text = (one.folder / "facts.yaml").read_text()
    assert yaml.safe_load(text) is None
    lines = [line.removeprefix("# ") for line in text.splitlines() if re.match(r"# \S+: ", line)]
    stated = yaml.safe_load("\n".join(lines))
    assert stated == {fact.path: fact.value for fact in one.analysis.assumed}
    assert "gqa.rope_pairing" in stated


def test_the_same_analysis_gives_the_same_files(made: dict[str, Made]) -> None:
    one = made["strange"]
    analysis = analyze(one.analysis.id, quant="fp32")
    files = package_files(analysis, worklist(analysis), answered(to_json(analysis)))
    assert {name: (one.folder / name).read_text() for name in files} == files
