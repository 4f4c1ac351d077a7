"""The proof on hand-made models: what is claimed, left, partly used, or of another kind."""

from dataclasses import replace

import pytest

from day0.analysis.proof import _used_share, prove
from day0.checkpoint.headers import Headers, TensorHeader
from day0.ir.graph import Graph, Group, Model
from day0.ir.op import Op
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Leaf, Pick, Stack, Weight, dims_of

EMPTY = Graph(rows=(), inputs=(), outputs=(), values={}, ops=())
SIZES = {"F32": 4, "BF16": 2, "I64": 8}


def headers(**tensors: tuple[str, tuple[int, ...]]) -> Headers:
    found = {}
    for key, (dtype, shape) in tensors.items():
        name = key.replace("__", ".")
        size = SIZES[dtype]
        for dim in shape:
            size *= dim
        found[name] = TensorHeader(dtype, shape, 0, size, "one")
    return Headers(tensors=found, shards=("one",))


def model(*sources, groups=()) -> Model:
    weights = {
        f"w{i}": Weight(
            name=f"w{i}",
            spec=TensorSpec(dims=dims_of(source)),
            role="dense",
            source=source,
            padding=padding,
        )
        for i, (source, padding) in enumerate(sources)
    }
    return Model(spec=None, graphs={"main": EMPTY}, weights=weights, caches={}, groups=groups)


def leaf(name: str, *dims: int, format: str = "fp32") -> Leaf:
    return Leaf(name=name, dims=dims, format=format)


def rows(of: Leaf, period: int, start: int, stop: int) -> Pick:
    return Pick(of=of, dim=0, period=period, start=start, stop=stop)


A = leaf("a.weight", 6, 4)


def test_all_matched_is_proved():
    proof = prove(model((A, ())), headers(a__weight=("F32", (6, 4))))
    assert (proof.status, proof.expected, proof.matched) == ("proved", 1, 1)
    assert proof.findings == ()


def test_rows_of_two_weights_cover_a_fused_tensor():
    both = model((rows(A, 3, 0, 1), ()), (rows(A, 3, 1, 3), ()))
    assert prove(both, headers(a__weight=("F32", (6, 4)))).status == "proved"


def test_unused_rows_are_unexplained():
    half = model((rows(A, 6, 0, 3), ()))
    proof = prove(half, headers(a__weight=("F32", (6, 4))))
    assert proof.status == "incomplete"
    assert proof.unexplained_bytes == 48
    assert [finding.code for finding in proof.findings] == ["partly_used"]


def test_named_padding_counts_as_used():
    padded = model((rows(A, 6, 0, 3), (rows(A, 6, 3, 6),)))
    assert prove(padded, headers(a__weight=("F32", (6, 4)))).status == "proved"


@pytest.mark.parametrize(
    ("tensors", "code", "status"),
    [
        ({}, "missing_tensor", "incomplete"),
        ({"a__weight": ("F32", (6, 4)), "b": ("F32", (2,))}, "unexpected_tensor", "incomplete"),
        ({"a__weight": ("F32", (4, 6))}, "shape_mismatch", "contradicted"),
        ({"a__weight": ("I64", (6, 4))}, "dtype_mismatch", "contradicted"),
    ],
    ids=["missing", "unexpected", "shape", "dtype"],
)
def test_one_fault_is_one_finding(tensors, code, status):
    proof = prove(model((A, ())), headers(**tensors))
    assert [finding.code for finding in proof.findings] == [code]
    assert proof.status == status


def test_a_dropped_expert_is_named():
    each = leaf("e.{e}.w", 3, 4)
    kept = {f"e__{i}__w": ("F32", (3, 4)) for i in range(8) if i != 5}
    proof = prove(model((Stack(of=each, count=8), ())), headers(**kept))
    assert proof.missing == ("e.5.w",)
    assert [finding.code for finding in proof.findings] == ["missing_tensor"]


def test_one_deviating_dtype_among_equals_is_named():
    each = leaf("e.{e}.w", 3, 4)
    made = {f"e__{i}__w": ("BF16" if i == 5 else "F32", (3, 4)) for i in range(8)}
    proof = prove(model((Stack(of=each, count=8), ())), headers(**made))
    assert proof.status == "contradicted"
    assert any("e.5.w is BF16" in item for item in proof.dtype)


def test_a_renamed_tensor_is_told_once():
    found = headers(layers__0__other__weight=("F32", (6, 4)))
    proof = prove(model((leaf("layers.0.mlp.weight", 6, 4), ())), found)
    assert [finding.code for finding in proof.findings] == ["renamed_tensors"]
    assert proof.status == "incomplete"


def test_groups_explain_without_executing():
    group = Group(name="visual", role="tower", tensors=("b",), params=2, bytes=8)
    found = headers(a__weight=("F32", (6, 4)), b=("F32", (2,)))
    proof = prove(model((A, ()), groups=(group,)), found)
    assert (proof.status, proof.opaque_bytes, proof.unexplained_bytes) == ("proved", 8, 0)


def test_without_headers_nothing_is_claimed():
    proof = prove(model((A, ())), None)
    assert (proof.status, proof.expected, proof.matched) == ("no-headers", 1, 0)


def test_an_expression_of_other_dims_than_its_op_has():
    wrong = Weight(name="w", spec=TensorSpec(dims=(4, 6)), role="dense", source=A)
    changed = Model(spec=None, graphs={"main": EMPTY}, weights={"w": wrong}, caches={})
    proof = prove(changed, headers(a__weight=("F32", (6, 4))))
    assert proof.status == "contradicted"
    assert proof.shape == ("w comes out as [6, 4], expected [4, 6]",)


def running(family: str, slot: str, source: Leaf) -> Model:
    """A model of one op with one weight."""
    op = Op(id="op", family=family, layer=0, inputs=(), outputs=(), weights=((slot, "w0"),),
            caches=(), attrs=(), because=())  # fmt: skip
    graph = Graph(rows=(), inputs=(), outputs=(), values={}, ops=(op,))
    return replace(model((source, ())), graphs={"main": graph})


@pytest.mark.parametrize(
    ("family", "slot", "dtype", "status"),
    [
        ("linear", "weight", "BF16", "proved"),
        ("linear", "weight", "I64", "contradicted"),
        ("moe_route", "table", "I64", "proved"),
        ("moe_route", "table", "F32", "contradicted"),
        ("moe_route", "bias", "I64", "contradicted"),
    ],
    ids=lambda value: value,
)
def test_real_and_whole_numbers_stand_where_they_are_read(family, slot, dtype, status):
    source = leaf("a.weight", 6, 4, format={"BF16": "bf16", "I64": "int64", "F32": "fp32"}[dtype])
    proof = prove(running(family, slot, source), headers(a__weight=(dtype, (6, 4))))
    assert proof.status == status
    assert len(proof.dtype) == (status == "contradicted")


def test_what_an_unknown_operator_holds_is_explained_by_nothing():
    proof = prove(running("unknown", "w0", A), headers(a__weight=("F32", (6, 4))))
    assert (proof.status, proof.unexpected, proof.unexplained_bytes) == (
        "incomplete", ("a.weight",), 96,
    )  # fmt: skip
    assert [finding.code for finding in proof.findings] == ["unexpected_tensor"]


@pytest.mark.parametrize(
    ("spans", "share"),
    [
        ([(6, 0, 6)], 1.0),
        ([(6, 0, 2), (6, 1, 3)], 0.5),
        ([(3, 0, 1), (6, 0, 3)], 4 / 6),
        ([(2, 0, 1), (3, 0, 1)], 4 / 6),
        ([(10**12, 0, 10**12 // 4)], 0.25),
    ],
    ids=["whole", "overlap", "nested", "crossed", "huge"],
)
def test_the_used_share_of_a_tensor(spans, share):
    whole = 10**12 if spans[0][0] == 10**12 else 6
    picked = [(rows(leaf("a", whole), *span),) for span in spans]
    assert _used_share(leaf("a", whole), picked) == pytest.approx(share)
