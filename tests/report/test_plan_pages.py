"""Plans on the terminal and on the page: figures of the JSON, in the right rows."""

import io

import pytest
from rich.console import Console

from day0.analysis.analyze import analyze
from day0.report import markdown
from day0.report.numbers import gib
from day0.report.plans import PLANS, render
from tests.field_cases.asking import analysis, small
from tests.report.pages import KIMI_K3, column, page_of, report_of, table

GLM = "catalog:zai-org--glm-5.2"


def shown(name: str, *plans: str, **options: object) -> str:
    found = analyze(name, **options)  # pyright: ignore[reportArgumentType]
    console = Console(file=io.StringIO(), width=120, markup=False, color_system=None)
    console.print(render(found, plans or tuple(PLANS)))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_nearest_in_the_terminal() -> None:
    text = shown(KIMI_K3, "nearest")
    assert "against moonshotai--kimi-linear-48b-a3b-instruct:" in text
    assert "meaning   latent MoE" in text
    assert "   11.920  moonshotai--kimi-linear-48b-a3b-instruct" in text


def test_memory_in_the_terminal() -> None:
    text = shown(GLM, "memory", quant="fp8", gpu="h200", num_gpus=8)
    (longest,) = [line.split() for line in text.splitlines() if line.strip().startswith("longest")]
    assert longest[1] == "1,048,576"
    assert int(longest[3].replace(",", "")) > 100_000
    assert "does not fit" not in text
    assert "does not fit" in shown(GLM, "memory", gpu="h200", num_gpus=1)


def test_cost_in_the_terminal() -> None:
    text = shown(GLM, "cost", gpu="h200")
    lines = [line for line in text.splitlines() if line.strip().startswith("experts")]
    assert len(lines) == 3
    assert all(line.split()[-1] == "weights" for line in lines)
    assert "prefill of 4,096 tokens" in text


def test_precision_and_quant_in_the_terminal() -> None:
    text = shown(GLM, "precision", "quant", quant="fp8")
    assert "bf16 -> fp8_b128" in text
    assert "longest context at batch 1 on 8 x h200: does not fit -> 1,048,576 tokens" in text
    assert "amplified by top-k" in text
    assert "FP8 units; scales are applied to the sums" in text


@pytest.mark.parametrize("name", list(PLANS))
def test_a_plan_of_a_model_nobody_knows_says_so_or_says_little(name: str) -> None:
    console = Console(file=io.StringIO(), width=60, markup=False, color_system=None)
    console.print(render(analysis(small(model_type="new", strange_size=7)), (name,)))
    file = console.file
    assert isinstance(file, io.StringIO)
    lines = file.getvalue().splitlines()
    assert lines[2] == f"Plan: {name}"
    assert len(lines) > 3
    assert max(map(len, lines)) <= 60


def test_the_page_has_a_row_for_every_known_model_and_decision() -> None:
    page, report = page_of(KIMI_K3), report_of(KIMI_K3)
    assert [cell.text for cell in column(table(page, "nearest"), "known model")] == [
        row["name"] for row in report["nearest"]
    ]
    decided = table(page, "precision")
    assert [cell.text for cell in column(decided, "runs")] == [
        row["runs"] for row in report["precision"]["rows"]
    ]
    assert [cell.value for cell in column(decided, "number")] == [
        row["count"] for row in report["precision"]["rows"]
    ]


def test_what_does_not_fit_is_told_without_colours() -> None:
    page, report = page_of(KIMI_K3), report_of(KIMI_K3)
    (way,) = report["memory"]["fits"]["ways"]
    assert not any(cell["fits"] for cell in way["cells"])
    first = column(table(page, "fits-0"), "batch 1")
    assert first[0].text == f"{gib(way['cells'][0]['bytes'])} (no)"
    assert first[-1].text == "none"
    assert "(no)" in markdown.render(page)


def test_shares_of_a_step_add_up() -> None:
    page = page_of(GLM)
    for name in ("prefill", "decode", "decode_batch_64"):
        shares = [cell.value or 0.0 for cell in column(table(page, f"roofline-{name}"), "share")]
        assert sum(shares) == pytest.approx(1)
        assert shares == sorted(shares, reverse=True)
