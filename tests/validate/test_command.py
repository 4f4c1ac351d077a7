"""`day0 validate` from end to end: files, exit codes, bounds, a baseline, evidence, complaints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from day0.report import html, markdown
from day0.report.parts import Plot, Table
from day0.report.validation_page import validation_page
from day0_kernels import index as kernel_index
from tests import tiny as tinies
from tests.runtime.commands import Command, Done, command
from tests.validate.mutants_state import MUTANTS

__all__ = ["command"]
pytestmark = [pytest.mark.hf, pytest.mark.slow]
GRID = ("--grid", "batch=1,2;input=5,9;output=3", "--repeats", "2")
QUICK = ("--backend", "reference", "--max-context", "60", *GRID)
Tiny = Callable[..., tinies.TinyCheckpoint]


@pytest.fixture(scope="module")
def folder(tiny: Tiny) -> Path:
    return tiny("llama").folder


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first whole report lies for the tests after it."""
    return tmp_path_factory.mktemp("report")


@pytest.fixture
def report(reports: Path, folder: Path, command: Command) -> Path:
    if not (reports / "report.json").exists():
        done = command("validate", folder, *QUICK, "--quant", "fp8", "--out", reports, "--seed", 3)
        assert done.code == 0, done
        assert done.complaint == ()
    return reports / "report.json"


def refused(done: Done, code: int, words: str, hint: str = "") -> None:
    assert done.code == code, done
    assert done.out == ""
    assert done.complaint[0].startswith("error: ")
    assert words in done.complaint[0]
    assert done.complaint[1].startswith("hint: ")
    assert hint in done.complaint[1]
    assert len(done.complaint) == 2


def test_the_report(report: Path, folder: Path) -> None:
    data = json.loads(report.read_text())
    assert data["schema"] == "day0.report/1"
    assert data["verdict"] == {"status": "pass", "cells": [], "lengths": [], "bounds": []}
    status = {cell["id"]: cell["status"] for cell in data["cells"]}
    assert {name for name, word in status.items() if word == "skip"} == {
        "implementations", "graph", "streams"
    }  # fmt: skip
    assert all("GPU" in c["detail"] or "reference" in c["detail"] or "stream" in c["detail"]
               for c in data["cells"] if c["status"] == "skip")  # fmt: skip
    assert [row["point"] for row in data["grid"]] == [
        "b1-i5-o3", "b2-i5-o3", "b1-i9-o3", "b2-i9-o3"
    ]  # fmt: skip
    assert all(row["failed"] == 0 for row in data["grid"])
    metrics = {row["name"]: row for row in data["metrics"]}
    assert metrics["cells_failed"]["value"] == 0
    assert metrics["jit_compiles_after_ready"]["value"] == 0
    assert metrics["kl_fp8"]["value"] > 0
    assert metrics["tpot_ms@b2-i9-o3"]["value"] > 0
    lengths = [row["tokens"] for row in data["lengths"]]
    assert {15, 16, 17, 60} <= set(lengths)
    assert lengths == sorted(lengths)
    assert data["command"].startswith("day0 validate ")
    assert "--seed 3" in data["command"]
    assert data["environment"]["versions"]["torch"]


def test_the_page_says_what_the_json_says(report: Path) -> None:
    data = json.loads(report.read_text())
    page = validation_page(data)
    parts = [part for section in page.sections for part in section.parts]
    matrix = next(part for part in parts if isinstance(part, Table) and part.name == "matrix")
    assert [row[1].text for row in matrix.rows] == [cell["id"] for cell in data["cells"]]
    tones = {"pass": "good", "fail": "bad", "skip": "dim"}
    assert [row[0].tone for row in matrix.rows] == [tones[c["status"]] for c in data["cells"]]
    plots = {part.name: part for part in parts if isinstance(part, Plot)}
    assert {"latency", "ttft"} <= plots.keys()
    points = [point for series in plots["ttft"].series for point in series.points]
    figures = {(float(row["input"]), row["figures"]["median_ttft_ms"]) for row in data["grid"]}
    assert set(points) == figures
    for name, text in (("report.md", markdown.render(page)), ("report.html", html.render(page))):
        assert (report.parent / name).read_text() == text
        for cell in data["cells"]:
            assert cell["id"] in text


def test_a_fault_exits_1_and_is_in_the_files(
    folder: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant = next(m for m in MUTANTS if m.name == "padded row writes a live page")
    from day0.runtime.opening import open_model

    mutant.switch(monkeypatch, open_model(str(folder), quant="fp32"))
    out = tmp_path / "report"
    done = command("validate", folder, "--cell", "padding", "--out", out)
    assert done.code == 1
    assert "FAIL: cells padding" in done.out
    assert str(out / "report.html") in done.out
    data = json.loads((out / "report.json").read_text())
    (cell,) = data["cells"]
    assert (cell["status"], cell["family"], cell["layer"]) == ("fail", "gqa", 0)
    assert data["verdict"]["cells"] == ["padding"]
    assert "layer 0, gqa" in (out / "report.md").read_text()


def test_bounds_decide(folder: Path, command: Command, tmp_path: Path) -> None:
    bounds = tmp_path / "bounds.yaml"
    speed = ("validate", folder, *QUICK, "--only", "speed", "--bounds", bounds, "--format", "json")
    bounds.write_text("tpot_ms@b2-i9-o3: 1000000\noutput_throughput: 0.0001\n")
    done = command(*speed)
    assert done.code == 0, done
    assert done.data["cells"] == []
    bounds.write_text("tpot_ms@b2-i9-o3: 0.00001\noutput_throughput: 1000000000000\n")
    done = command(*speed)
    assert done.code == 1
    assert done.data["verdict"]["bounds"] == ["output_throughput", "tpot_ms@b2-i9-o3"]
    bounds.write_text("tpot_ms@b7-i9-o3: 1\n")
    refused(command(*speed), 2, "b7-i9-o3, which this call does not measure", "measured are")
    bounds.write_text("tpto_ms: 1\n")
    refused(command(*speed), 2, "names 'tpto_ms'", "write lines such as")


def test_a_baseline_marks_what_is_worse(
    report: Path, folder: Path, command: Command, tmp_path: Path
) -> None:
    earlier = json.loads(report.read_text())
    for row in earlier["metrics"]:
        row["spread"] = 0.0
        if row["name"] == "ttft_ms@b1-i9-o3":
            row["value"] /= 1000
        if row["name"] == "tpot_ms@b1-i9-o3":
            row["value"] *= 1000
        if row["name"] == "output_throughput@b1-i9-o3":
            row["value"] *= 1000
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps(earlier))
    options = ("--only", "speed", "--quant", "fp8", "--baseline", path, "--format", "json")
    done = command("validate", folder, *QUICK, *options)
    assert done.code == 0
    worse = {row["name"] for row in done.data["baseline"] if row["regression"]}
    assert {"ttft_ms@b1-i9-o3", "output_throughput@b1-i9-o3"} <= worse
    assert "tpot_ms@b1-i9-o3" not in worse
    page = validation_page(done.data)
    assert any(section.id == "baseline" for section in page.sections)
    refused(command("validate", folder, *QUICK, "--baseline", path), 2, "recipe 'fp8'")


def test_the_report_is_evidence(report: Path, folder: Path, command: Command) -> None:
    done = command(
        "checklist", folder, "--quant", "fp8", "--evidence", report, "--format", "json"
    )  # fmt: skip
    rows = {row["id"]: row for row in done.data["checklist"]}
    assert rows["state"]["status"] == "pass"
    assert "cells_failed 0 (report.json" in rows["state"]["evidence"]
    assert rows["nothing-late"]["status"] == "pass"


@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        (("--cell", "decoding"), "--cell is 'decoding'", "--cell decode"),
        (("--cell", "oracle"), "needs to know which", "--oracle transformers"),
        (("--only", "everything"), "--only is 'everything'", "--only cells"),
        (("--oracle", "vllm"), "--oracle is 'vllm'", "--oracle transformers"),
        (("--oracle", "transformers", "--dummy"), "made-up weights", "without --dummy"),
        (("--oracle", "transformers", "--layers", "2"), "leaves layers out", "--oracle"),
        (("--max-context", "20"), "--max-context is 20", "--max-context 4096"),
        (("--grid", "batch=1"), "--grid is 'batch=1'", "input=128"),
        (("--load", "often"), "--load is 'often'", "poisson:4"),
        (("--check-layers", "99"), "--check-layers is 99", "--check-layers 4"),
        (("--out", "/dev/null/report"), "cannot be written to", "a folder"),
        (("--format", "xml"), "--format is 'xml'", "--format json"),
        (("--baseline", "nowhere.json"), "nowhere.json cannot be read", "report.json"),
    ],
)  # fmt: skip
def test_what_a_call_gets_wrong(
    options: tuple[str, ...], words: str, hint: str, folder: Path, command: Command
) -> None:
    refused(command("validate", folder, *options), 2, words, hint)


def test_points_beyond_the_context_do_not_fit(folder: Path, command: Command) -> None:
    grid = "batch=1;input=100000;output=8"
    refused(command("validate", folder, "--grid", grid), 3, "the model states 128", "--grid")


def test_an_oracle_that_is_not_installed(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from day0.validate import oracle

    def gone(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(oracle, "import_module", gone)
    done = command("validate", folder, "--oracle", "transformers", "--only", "cells")
    refused(done, 2, "which is not installed", "pip install")


def test_an_operator_that_nothing_runs(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(kernel_index.REFERENCES, "gqa")
    refused(command("validate", folder), 4, "no implementation runs gqa", "day0 scaffold")


def test_an_oracle_for_the_command(folder: Path, command: Command) -> None:
    done = command("validate", folder, "--cell", "causal", "--oracle", "transformers")
    assert done.code == 0, done
    assert "LlamaForCausalLM of transformers" in done.out
    assert "pass: nothing fails" in done.out
