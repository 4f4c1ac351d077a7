"""Nothing is pass without evidence: take the evidence away, and the item is unknown again."""

import json
from pathlib import Path
from typing import Any

import pytest

from day0.analysis.analyze import analyze
from day0.analysis.checklist import STAGES, STATUSES, Checklist, Mark, answered, items
from day0.analysis.measured import NOTHING, Measured, read_evidence
from day0.errors import Day0Error
from day0.registry.index import NAMES
from day0.report.analysis_json import to_json

PLANS = ("nearest", "precision", "parallel", "schedule")


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return to_json(analyze("demo", quant="fp8"))


def by_name(found: Checklist) -> dict[str, Mark]:
    return {f"{mark.stage}/{mark.id}": mark for mark in found.marks}


def evidence(folder: Path, metrics: Any, **changes: Any) -> Path:
    path = folder / "run.json"
    data = {
        "schema": "day0.run/1",
        "model": {"id": "demo", "revision": ""},
        "recipe": "fp8",
        "device": "cpu",
        "metrics": metrics,
    }
    path.write_text(json.dumps({**data, **changes}))
    return path


def read(*paths: Path) -> Measured:
    return read_evidence(paths, model="demo", revision="", recipe="fp8")


def test_a_fresh_model_has_measured_nothing(demo: dict[str, Any]) -> None:
    found = answered(demo)
    measured = [mark for mark in found.marks if not mark.proof.startswith("analysis:")]
    assert len(measured) > 30
    assert {mark.status for mark in measured} == {"unknown"}
    assert {mark.stage for mark in found.marks} >= set(STAGES)
    assert {mark.status for mark in found.marks} <= set(STATUSES)
    assert all(mark.evidence for mark in found.marks)


def test_a_plan_that_is_not_made_is_named_and_not_passed(demo: dict[str, Any]) -> None:
    without = {key: value for key, value in demo.items() if key not in PLANS}
    for mark in answered(without).marks:
        key = mark.proof.removeprefix("analysis:").partition(".")[0]
        if key in PLANS:
            assert (mark.status, mark.evidence) == ("unknown", f"this analysis has no {key} yet")


def test_every_pass_loses_its_evidence_with_its_part(demo: dict[str, Any]) -> None:
    """Whatever part of the analysis an item rests on: without it, the item is unknown."""
    passed = [mark for mark in answered(demo).marks if mark.status == "pass"]
    assert len(passed) > 15
    needed = {"graph", "drafts", "caches", "params", "recipe"}  # by the conditions of items
    for key in {mark.proof.removeprefix("analysis:").partition(".")[0] for mark in passed}:
        if key in needed:
            continue
        without = {name: part for name, part in demo.items() if name != key}
        for mark in answered(without).marks:
            if mark.proof.removeprefix("analysis:").partition(".")[0] == key:
                assert mark.status == "unknown", mark


def test_states_are_asked_of_their_own_family(demo: dict[str, Any]) -> None:
    assert by_name(answered(demo))["ops/kda/state-fp32"].evidence == "state fp32"
    narrow = [
        {**row, "format": "bf16"} if row["role"] == "state" else row for row in demo["caches"]
    ]
    found = by_name(answered({**demo, "caches": narrow}))
    assert found["ops/kda/state-fp32"].status == "fail"
    assert found["precision/state-fp32"].status == "fail"
    none = [row for row in demo["caches"] if row["role"] != "state"]
    assert by_name(answered({**demo, "caches": none}))["ops/kda/state-fp32"].status == "unknown"


@pytest.mark.parametrize(
    ("change", "item", "status", "words"),
    [
        ({"config": {"unread_keys": ["gate_rank"]}}, "keys-read", "fail", "gate_rank"),
        ({"findings": [{"code": "odd", "severity": "warning", "message": "m"}]},
         "nothing-open", "fail", "odd: m"),
        ({"findings": [{"code": "odd", "severity": "info", "message": "m"}]},
         "nothing-open", "pass", "no finding"),
        ({"layers": [{"index": 0, "mixer": "unknown", "ffn": "glu"}]},
         "layers-known", "todo", "1 of 1 layers"),
        ({"facts": [{"path": "kda.x", "value": 1, "how": "assumed", "decisive": True}]},
         "facts-settled", "todo", "kda.x = 1"),
        ({"facts": [{"path": "kda.x", "value": 1, "how": "config", "decisive": True}]},
         "drafts-settled", "unknown", "no fact mtp.*"),
    ],
    ids=["keys", "warning", "info", "layers", "facts", "no-fact"],
)  # fmt: skip
def test_what_the_analysis_says(
    demo: dict[str, Any], change: dict[str, Any], item: str, status: str, words: str
) -> None:
    mark = by_name(answered({**demo, **change}))[f"architecture/{item}"]
    assert mark.status == status
    assert words in mark.evidence


@pytest.mark.parametrize(
    ("status", "marked"),
    [
        ("proved", "pass"),
        ("incomplete", "fail"),
        ("contradicted", "fail"),
        ("no-headers", "unknown"),
    ],
)
def test_proof(demo: dict[str, Any], status: str, marked: str) -> None:
    wrong = {**demo["proof"], "status": status, "missing": ["model.norm.weight"]}
    found = by_name(answered({**demo, "proof": wrong}))
    assert found["architecture/tensors-proved"].status == marked
    # whose the missing tensor is, the proof does not say
    assert found["ops/kda/padding"].status == ("pass" if status == "proved" else "unknown")


def test_operators(demo: dict[str, Any]) -> None:
    def judged(verdict: str, *reasons: str) -> dict[str, Mark]:
        rows = [{**r, "verdict": verdict, "reasons": list(reasons)} for r in demo["inventory"]]
        return by_name(answered({**demo, "inventory": rows}))

    assert judged("reuse")["operators/operators-exist"].status == "pass"
    new = judged("new", "reference exists")
    assert new["operators/operators-exist"].status == "todo"
    assert new["operators/operators-defined"].status == "pass"
    assert new["precision/formats-taken"].status == "unknown"
    assert judged("new")["operators/operators-defined"].status == "todo"
    assert judged("quant-rework", "w as fp8")["precision/formats-taken"].status == "todo"


def with_ops(demo: dict[str, Any], family: str, **changes: Any) -> dict[str, Any]:
    """The demo with other words in its operators of one family, the drafts' too."""

    def changed(graph: dict[str, Any]) -> dict[str, Any]:
        ops = [{**op, **changes} if op["family"] == family else op for op in graph["ops"]]
        return {**graph, "ops": ops}

    drafts = {name: changed(graph) for name, graph in demo["drafts"].items()}
    return {**demo, "graph": changed(demo["graph"]), "drafts": drafts}


def test_two_uses_of_one_cache_fail(demo: dict[str, Any]) -> None:
    assert by_name(answered(demo))["ops/compress/tail"].status == "pass"
    one = {"slot": "tail", "cache": "layers.3.mixer.indexer.keys", "mode": "rw"}
    found = by_name(answered(with_ops(demo, "compress", caches=[one, {**one, "slot": "pooled"}])))
    assert found["ops/compress/tail"].status == "fail"
    found = by_name(answered(with_ops(demo, "compress", caches=[one])))
    assert found["ops/compress/tail"].status == "unknown"


def test_an_attribute_is_settled_by_what_it_rests_on(demo: dict[str, Any]) -> None:
    mark = by_name(answered(demo))["ops/compress/pooling"]
    assert (mark.status, "rule='softmax'" in mark.evidence) == ("pass", True)
    guess = {"path": "indexer.pool", "value": "softmax", "how": "assumed", "decisive": True}
    rests = with_ops({**demo, "facts": [guess]}, "compress", because=["indexer.pool"])
    mark = by_name(answered(rests))["ops/compress/pooling"]
    assert (mark.status, "indexer.pool = 'softmax'" in mark.evidence) == ("todo", True)
    bare = by_name(answered(with_ops(demo, "compress", attrs={})))["ops/compress/pooling"]
    assert bare.status == "unknown"


def test_a_slot_is_taken_by_all_and_a_weight_proved(demo: dict[str, Any]) -> None:
    mark = by_name(answered(demo))["ops/sparse_mla/selection"]
    assert (mark.status, "layers.3.mixer.indexer" in mark.evidence) == ("pass", True)
    none = by_name(answered(with_ops(demo, "sparse_mla", inputs={})))
    assert none["ops/sparse_mla/selection"].status == "todo"
    sink = {"id": "layers.0.mixer", "family": "shared_kv", "attrs": {}, "caches": [],
            "because": [], "inputs": {}, "weights": {"sink": "layers.0.sink"}}  # fmt: skip
    found = {**demo, "graph": {**demo["graph"], "ops": [*demo["graph"]["ops"], sink]}}
    assert by_name(answered(found))["ops/shared_kv/sink"].status == "pass"
    bare = {**found, "proof": {**demo["proof"], "status": "no-headers"}}
    assert by_name(answered(bare))["ops/shared_kv/sink"].status == "unknown"


def test_figures_are_filled_in_and_judged(demo: dict[str, Any], tmp_path: Path) -> None:
    path = evidence(tmp_path, {"jit_compiles_after_ready": 0, "launches_per_layer": 11.5,
                               "tpot_ms": 3.0, "graph_capture_s": None})  # fmt: skip
    found = by_name(answered(demo, read(path)))
    late = found["compilation/nothing-late"]
    assert (late.status, late.evidence) == (
        "pass",
        "jit_compiles_after_ready 0 (run.json, cpu), at most 0",
    )
    assert found["scheduling/few-launches"].status == "fail"
    assert found["validation/next-token"].status == "unknown"
    assert "no bound is stated" in found["validation/next-token"].evidence
    assert found["assets/scheduling-graphs"].evidence == "graph_capture_s is not measured"
    path.unlink()
    again = by_name(answered(demo, NOTHING))
    assert again["compilation/nothing-late"].status == "unknown"


def test_a_report_brings_its_bounds(demo: dict[str, Any], tmp_path: Path) -> None:
    rows = [
        {"name": "tpot_ms", "value": 3.0, "bound": 5.0},
        {"name": "warm_ttft_ms", "value": float("nan"), "bound": 5.0},
        {"name": "experts.gate_up.rel_rms@form-clamped", "value": 0.5, "bound": 0.01},
    ]
    found = by_name(answered(demo, read(evidence(tmp_path, rows, schema="day0.report/1"))))
    assert found["validation/next-token"].status == "pass"
    assert found["validation/first-token"].status == "fail"
    assert found["ops/experts/clamp"].status == "fail"


def test_tests_that_passed_count_in_every_form(demo: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"

    def marked(*outcomes: str) -> str:
        cases = "".join(
            f'<testcase classname="tests.kernels.test_parity" name="test_parity[{n}]">{inner}'
            "</testcase>"
            for n, inner in enumerate(outcomes)
        )
        path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        return by_name(answered(demo, read(path)))["operators/parity"].status

    skipped, failed = '<skipped message="no GPU"/>', '<failure message="m"/>'
    assert marked("", "") == "pass"
    assert marked("", skipped) == "pass"
    assert marked("", failed) == "fail"
    assert marked(skipped) == "unknown"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"id": "other", "revision": ""}}, "model 'other'; it must be of 'demo'"),
        ({"model": {"id": "demo", "revision": "abc"}}, "revision 'abc'"),
        ({"recipe": "bf16"}, "recipe 'bf16'; it must be of 'fp8'"),
        ({"schema": "day0.analysis/1"}, "schema 'day0.analysis/1'"),
    ],
)
def test_evidence_of_another_thing_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(Day0Error, match="--evidence") as error:
        read(evidence(tmp_path, {}, **changes))
    assert words in error.value.message


@pytest.mark.parametrize("text", ["{", "[1]", "<testsuites>", "\0"])
def test_evidence_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(Day0Error, match="--evidence"):
        read(path)
    with pytest.raises(Day0Error, match="cannot be read"):
        read(tmp_path)


def test_conditions(demo: dict[str, Any]) -> None:
    fp8, bf16 = answered(demo), answered({**demo, "recipe": "bf16"})
    assert "precision/high-roles" in by_name(fp8)
    assert "precision/high-roles" in bf16.left_out
    assert "assets/operator-attention" in fp8.left_out  # no gqa in the demo
    assert not any(name.startswith("ops/gqa") for name in by_name(fp8))
    without = answered({**demo, "drafts": {}})
    assert "assets/generation-drafts" in set(without.left_out) & set(by_name(fp8))


def test_every_shipped_family_can_be_answered(demo: dict[str, Any]) -> None:
    """Also for the families that the demo lacks: an op of each is put into the graph."""
    ops = [{"id": f"layers.0.{name}", "family": name, "attrs": {}, "caches": [], "because": [],
            "inputs": {}, "weights": {}} for name in NAMES]  # fmt: skip
    found = answered({**demo, "graph": {**demo["graph"], "ops": ops}})
    assert len(found.marks) + len(found.left_out) == len(items(frozenset(NAMES)))


def test_plans_answer_their_items() -> None:
    """Formats: decided for all, and taken by the units of one GPU and not of the other."""
    for gpu, status in (("h200", "pass"), ("a100", "todo")):
        marks = by_name(answered(to_json(analyze("demo", quant="fp8", gpu=gpu))))
        assert marks["precision/units-take"].status == status
        assert "fp8_b128" in marks["precision/units-take"].evidence
        plan = marks["precision/plan"]
        assert (plan.status, plan.evidence.split(" weights")[0]) == ("pass", "249 of 249")
    nearest = marks["architecture/nearest-compared"]
    assert nearest.status == "todo"
    assert "read against" in nearest.evidence
    same = by_name(answered(to_json(analyze("catalog:zai-org--glm-5.3-fp8"))))
    assert same["architecture/nearest-compared"].status == "pass"


def test_a_decision_without_a_reason_fails(demo: dict[str, Any]) -> None:
    plan = demo["precision"]
    bare = {**plan, "rows": [{**plan["rows"][0], "why": ""}, *plan["rows"][1:]]}
    fewer = {**plan, "decided": plan["decided"] - 1}
    for changed in (bare, fewer):
        found = by_name(answered({**demo, "precision": changed}))
        assert found["precision/plan"].status == "fail"
