"""The parallel plan as a terminal and a page show it, and the exit codes that follow from it."""

import io
import json
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from day0.analysis.analyze import analyze
from day0.cli.app import app
from day0.errors import Day0Error
from day0.report.analysis_json import to_json
from day0.report.parts import Pairs, Section, Table, Words
from day0.report.plans import chosen, render
from day0.report.sections.parallel import MOST, parallel
from tests.field_cases.asking import analysis, small

LLAMA = "catalog:meta-llama--meta-llama-3.1-8b"
KIMI_K3 = "catalog:moonshotai--kimi-k3"


def text_of(model: str, gpu: str, count: int, quant: str = "bf16") -> str:
    console = Console(file=io.StringIO(), width=120, markup=False, emoji=False, color_system=None)
    console.print(render(analyze(model, quant=quant, gpu=gpu, num_gpus=count), ("parallel",)))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def section(model: str, gpu: str, count: int) -> tuple[dict[str, Any], Section]:
    report = to_json(analyze(model, gpu=gpu, num_gpus=count))
    return report["parallel"], parallel(report)


def tables(shown: Section) -> dict[str, Table]:
    return {part.name: part for part in shown.parts if isinstance(part, Table)}


def test_the_terminal_names_what_is_recommended_and_what_is_illegal() -> None:
    shown = text_of(LLAMA, "h200", 4)
    plan, _ = section(LLAMA, "h200", 4)
    latency, throughput = plan["recommended"]["latency"], plan["recommended"]["throughput"]
    assert f"for latency {latency}, for throughput {throughput}" in shown
    assert "legal TP, recipe bf16: 1, 2, 4, 8, 16, 32" in shown
    assert "every split of these GPUs is legal" in shown
    wide = text_of(KIMI_K3, "h200", 16, "fp8")
    assert "neither one GPU nor 16 have room for it" in wide
    assert "no legal split fits; 32 of them have room" in wide
    flat = " ".join(wide.split())
    assert "33792/16 = 2112 is no multiple of 128" in flat


def test_the_page_shows_every_mesh_with_its_bytes() -> None:
    plan, shown = section(LLAMA, "h100", 8)
    rows = tables(shown)
    assert {row[0].text for row in rows["meshes"].rows} == {one["mesh"] for one in plan["legal"]}
    totals = {row[0].text: row[2].value for row in rows["meshes"].rows}
    assert totals == {one["mesh"]: one["memory"]["total_bytes"] for one in plan["legal"]}
    speeds = [row[-1].value or 0 for row in rows["meshes"].rows]
    assert speeds == sorted(speeds, reverse=True)
    named = {row[0].text for row in rows["recommended"].rows}
    assert named == set(plan["recommended"].values())
    assert len(rows["balance"].rows) == 3
    assert "state_passing" not in rows


def test_the_page_says_why_not_and_what_it_stands_on() -> None:
    plan, shown = section(KIMI_K3, "h200", 40)
    illegal = tables(shown)["illegal"].rows
    assert illegal[0][1].text.startswith(plan["illegal"][0]["reasons"][0])
    assert len(illegal) == len(plan["illegal"])
    (head,) = [part for part in shown.parts if isinstance(part, Pairs)]
    facts = dict(head.rows)
    assert facts["for latency"].text == "nothing fits"
    assert facts["GPUs needed"].text == f"{plan['gpus_needed']} of them have room"
    # room for the weights alone is not room for a rank's share and all that comes beside it
    assert facts["checkpoint as stored"].text == "5.559 TB fits into 40 GPUs, not one"
    words = [part.text for part in shown.parts if isinstance(part, Words)]
    assert "50% of the matrix rate" in words[-1]
    assert {row[0].text for row in tables(shown)["state_passing"].rows} == {"69 kda"}


def test_a_long_table_is_cut_and_says_so() -> None:
    plan, shown = section(LLAMA, "h200", 64)
    assert len(plan["legal"]) > MOST
    table = tables(shown)["meshes"]
    assert len(table.rows) == MOST
    assert table.caption.endswith(f"({MOST} of {len(plan['legal'])}; the JSON has all)")
    best = plan["recommended"]["throughput"]
    assert table.rows[0][0].text == best


def test_unknown_operators_are_told_on_the_page() -> None:
    report = to_json(analysis(small(model_type="nobody_knows", strange=1)))
    assert report["parallel"]["recommended"] == {"latency": None, "throughput": None}
    first = next(part for part in parallel(report).parts if isinstance(part, Words))
    assert first.text.startswith(f"What {report['parallel']['unknown_ops']} unknown operators")


def test_a_plan_that_nobody_makes_is_refused() -> None:
    assert chosen(["parallel", "parallel"]) == ("parallel",)
    with pytest.raises(Day0Error, match="--plan is 'paralel'; it must be one of") as caught:
        chosen(["paralel"])
    assert caught.value.hint == "day0 analyze MODEL --plan parallel"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--gpu", "h20"], 0),
        (["--gpu", "h20", "--strict"], 3),
        (["--gpu", "h200", "--num-gpus", "64"], 0),
        (["--gpu", "h2000"], 2),
        (["--num-gpus", "0"], 2),
    ],
)
def test_exit_codes(arguments: list[str], code: int) -> None:
    """3 where nothing fits, only for a machine that was named and only with --strict."""
    result = CliRunner().invoke(app, ["analyze", KIMI_K3, "--plan", "parallel", *arguments])
    found = getattr(result.exception, "exit_code", result.exit_code)
    assert found == code, result.output


def test_strict_alone_judges_no_machine() -> None:
    """Nobody named one: the model does not fit eight H200, and that is no fault of the call."""
    result = CliRunner().invoke(app, ["analyze", KIMI_K3, "--strict", "--format", "json"])
    assert not json.loads(result.stdout)["parallel"]["fits"]
    assert getattr(result.exception, "exit_code", None) != 3
    assert result.exit_code in (0, 1)
