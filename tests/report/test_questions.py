"""What a serving engineer asks, answered from the text of the HTML alone.

The answers are worked out here from the JSON, and have to be readable in the page's words.
"""

import re
from typing import Any

import pytest

from day0.report import html
from day0.report.numbers import count, gib, percent, spans
from tests.report.pages import page_of, report_of
from tests.report.test_html import Reader

FIVE = (
    "catalog:moonshotai--kimi-k3",
    "catalog:zai-org--glm-5.3-flash",
    "catalog:deepseek-ai--deepseek-v3.2",
    "catalog:qwen--qwen3-next-80b-a3b-instruct",
    "catalog:meta-llama--llama-3.1-8b-instruct",
)


@pytest.fixture(scope="module", params=FIVE)
def asked(request: pytest.FixtureRequest) -> tuple[dict[str, Any], str]:
    """A report and its page as text, words one space apart."""
    reader = Reader()
    reader.feed(html.render(page_of(request.param)))
    return report_of(request.param), " ".join(" ".join(reader.text).split())


def test_how_large_is_it(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    params, stored = report["params"], report["bytes"]["checkpoint"]
    assert f"Parameters {count(params['total'])} {count(params['active'])} active" in text
    assert f"Checkpoint {gib(stored)}" in text
    assert f"checkpoint bytes {stored:,}" in text


def test_how_much_memory_at_128k_and_batch_8(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    (row,) = [row for row in report["memory"]["sequence"] if row["tokens"] == 131_072]
    assert re.search(rf"128K {gib(row['bytes'])} {gib(8 * row['bytes'])} ", text)
    assert gib(report["bytes"]["checkpoint"] + 8 * row["bytes"]) in text


def test_what_does_a_further_token_cost(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    assert f"each further token adds {report['kv_bytes_per_token']:,.10g} B" in text
    assert f"keeps {report['state_bytes_per_sequence']:,} B of states" in text


def test_what_is_new_and_why(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    new = [entry for entry in report["inventory"] if entry["verdict"] == "new"]
    assert f"New operators {len(new)} of {len(report['inventory'])} distinct" in text
    section = text[text.index(" What is new ", 400) : text.index(" layers of ")]
    for entry in new:
        assert entry["family"] in section
        assert all(reason in section for reason in entry["reasons"])
    if not new:
        assert "every distinct operator has an optimised implementation" in section
    else:
        assert percent(report["new_fraction"]["flops"]) in section


def test_which_layers_are_of_which_kind(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    kinds: dict[tuple[str, str], list[int]] = {}
    for layer in report["layers"]:
        kinds.setdefault((layer["mixer"], layer["ffn"]), []).append(layer["index"])
    for (mixer, ffn), layers in kinds.items():
        assert f"{mixer} {ffn} {len(layers)} {spans(layers)}" in text


def test_what_bounds_a_decode_step(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    cost = report["cost"]["decode_128k"]
    words = (count(cost["flops_per_token"]), gib(cost["weight_bytes_per_token"]),
             gib(cost["cache_bytes_per_token"]))  # fmt: skip
    assert f"decode at 128K tokens {' '.join(words)}" in text


def test_can_it_be_trusted(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    assert f"Tensor proof {report['proof']['status']}" in text
    for fact in report["semantics"]["assumed"]:
        assert f"{fact['path']} {fact['value']} assumed" in text
    for finding in report["findings"]:
        assert " ".join(finding["message"].split()) in text


def test_where_does_a_number_come_from(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    for fact in report["facts"]:
        source = " ".join(fact["source"].split())
        assert f"{fact['how']} {source}" in text, fact["path"]


def test_which_known_model_is_nearest_and_what_differs(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    first = report["nearest"][0]
    assert f"The nearest known model is {first['name']}, at {first['distance']:.3f}" in text
    for kind in ("differences", "constants", "sizes"):
        assert all(" ".join(said.split()) in text for said in first[kind])


def test_what_fits_on_eight_gpus_and_how_long_a_context(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    plan = report["memory"]["fits"]
    assert f"{plan['num_gpus']} x {plan['gpu']} have room for {gib(plan['room_bytes'])}" in text
    for way in plan["ways"]:
        longest = " ".join(
            f"{row['tokens']:,} tokens" if row["tokens"] else "none" for row in way["longest"]
        )
        assert f"longest that fits {longest}" in text
        assert f"at least {way['gpus_needed']} x {plan['gpu']}" in text


def test_what_bounds_each_operator_of_a_step(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    for step in report["cost"]["roofline"]["steps"]:
        for op in step["ops"]:
            assert f"{percent(op['share'])} {op['bound']}" in text
        assert f"{step['seconds'] * 1e3:,.3f} ms of one h200" in text


def test_what_happens_to_precision(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    plan = report["precision"]
    for row in plan["rows"]:
        assert f"{row['action']} {row['why']}" in text
        assert row["risk"] in text
    assert f"stored as {gib(plan['weight_bytes']['before'])}" in text


def test_does_it_speculate(asked: tuple[dict[str, Any], str]) -> None:
    report, text = asked
    for name, draft in report["drafts"].items():
        assert f"draft {name} {len(draft['ops'])} operators" in text
    told = re.search(r"draft \w+ [\d,]+ operators", text) is not None
    assert told == bool(report["drafts"])
