"""The scheduling plan in JSON, on the page and in the terminal says the same."""

import json

from rich.console import Console

from day0.analysis.analyze import analyze
from day0.report import passes as passes_view
from day0.report import plan_schedule
from day0.report.plan_schedule import short
from tests.report.pages import page_of, report_of, table

KIMI = "catalog:moonshotai--kimi-linear-48b-a3b-instruct"


def said(renderable) -> str:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(renderable)
    return console.export_text()


def test_the_json_is_plain_and_has_both_keys() -> None:
    report = json.loads(json.dumps(report_of(KIMI), allow_nan=False))
    plan = report["schedule"]
    decode = next(phase for phase in plan["phases"] if phase["phase"] == "decode")
    assert decode["captured"] is True
    assert decode["lanes"] == 2
    assert decode["critical_us"] <= decode["scheduled_us"] < decode["serial_us"]
    assert {row["pass"] for row in report["passes"]} >= {"layout", "fuse", "streams"}
    side = [row["ops"] for row in report["passes"] if row["pass"] == "streams"]
    assert len(side) == 2  # prefill and decode
    assert all(len(ops) == len(set(ops)) > 0 for ops in side)
    assert plan["decode_sizes"][0] == 1
    assert plan["prefill_rows"][-1] == 8192


def test_the_page_has_the_figures_of_the_json() -> None:
    page, plan = page_of(KIMI), report_of(KIMI)["schedule"]
    phases = table(page, "schedule.phases")
    assert [row[0].text for row in phases.rows] == ["prefill", "decode"]
    assert [row[6].value for row in phases.rows] == [p["scheduled_us"] for p in plan["phases"]]
    blocks = table(page, "schedule.blocks")
    assert [row[5].value for row in blocks.rows] == [b["serial_us"] for b in plan["blocks"]]
    groups = table(page, "schedule.groups")
    assert any("ffn.experts" in row[2].text and "ffn.shared" in row[3].text for row in groups.rows)
    assert len(table(page, "schedule.warm_up").rows) == len(plan["warm_up"])


def test_the_terminal_shows_the_same() -> None:
    analysis, plan = analyze(KIMI), report_of(KIMI)["schedule"]
    text = said(plan_schedule.render(analysis))
    decode = plan["phases"][1]
    assert f"{decode['launches']:,} launches" in text
    assert f"{decode['scheduled_us'] / 1e3:,.2f} ms in lanes" in text
    assert "the whole step is captured" in text
    assert "ffn.router, ffn.route, ffn.experts  |  ffn.shared" in text
    text = said(passes_view.render(analysis))
    steps = next(row["count"] for row in report_of(KIMI)["passes"]
                 if (row["pass"], row["phase"]) == ("fuse", "decode"))  # fmt: skip
    fuse = next(line for line in text.splitlines() if line.startswith("fuse"))
    assert fuse.split()[2] == str(steps)


def test_short_names_keep_the_ends() -> None:
    assert short("layers.3.mixer.q_proj+layers.3.mixer.k_proj+layers.3.mixer.v_proj") == (
        "mixer.q_proj..mixer.v_proj"
    )
    assert short("layers.12.ffn.act") == "ffn.act"
    assert short("head") == "head"
