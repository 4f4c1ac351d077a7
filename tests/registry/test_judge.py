"""The judge, on a registry made for the test: reuse, quant-rework, new, with the reasons."""

from dataclasses import replace

import pytest

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Impl, Shapes, number, word
from day0.registry.judge import judge

FAST = Impl(
    backend="triton",
    entry="kernels.toy:toy",
    formats={"weight": ("bf16",), "state": ("fp32",)},
    attrs={"kind": ("a",)},
    limits=lambda s: () if s.attrs["size"] in (64, 128) else (f"size {s.attrs['size']}",),
    min_capability=(9, 0),
    parity="toy/plain",
)
REFERENCE = Impl(backend="reference", entry="kernels.toy.reference:toy")
TOY = Family(
    name="toy",
    what="a family for this test",
    inputs=("x",),
    weights=("weight",),
    caches=("state",),
    outputs=("y",),
    attrs={"kind": word("a", "b"), "size": number()},
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 0.0,
    impls=(REFERENCE, FAST),
)


def op(kind: str = "a", size: int = 64, weight: str = "bf16", state: str = "fp32") -> Shapes:
    return Shapes(
        inputs={"x": TensorSpec(dims=("T", 4))},
        weights={"weight": TensorSpec(dims=(4, 4), format=weight)},
        caches={"state": (TensorSpec(dims=(4,), format=state),)},
        attrs={"kind": kind, "size": size},
    )


def test_reuse_names_the_implementation():
    verdict = judge(TOY, op())
    assert (verdict.status, verdict.impl) == ("reuse", "triton:kernels.toy:toy")
    assert verdict.reasons == ()


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (op(weight="fp8_b128"), "weight stored as fp8_b128 (takes bf16)"),
        (op(state="bf16"), "state cached as bf16 (takes fp32)"),
    ],
    ids=["weight", "cache"],
)
def test_only_formats_refused_is_quant_rework(shapes, text):
    verdict = judge(TOY, shapes)
    assert verdict.status == "quant-rework"
    assert any(text in reason for reason in verdict.reasons)


@pytest.mark.parametrize(
    ("shapes", "texts"),
    [
        (op(kind="b"), ["kind='b' (takes 'a')"]),
        (op(size=96), ["size 96"]),
        (op(kind="b", size=96, weight="mxfp4"), ["kind='b'", "size 96", "stored as mxfp4"]),
    ],
    ids=["attribute", "size", "all-at-once"],
)
def test_a_refused_attribute_is_new_with_all_reasons(shapes, texts):
    verdict = judge(TOY, shapes)
    assert verdict.status == "new"
    for text in (*texts, "reference exists"):
        assert any(text in reason for reason in verdict.reasons), text


def test_a_reference_alone_is_new():
    verdict = judge(replace(TOY, impls=(REFERENCE,)), op())
    assert (verdict.status, verdict.reasons) == ("new", ("reference exists",))


def test_a_kernel_without_a_parity_case_is_not_trusted():
    bare = replace(TOY, impls=(replace(FAST, parity=""),))
    verdict = judge(bare, op())
    assert verdict.status == "new"
    assert "no passing parity case" in verdict.reasons[0]


def test_capability_is_asked_of_the_stated_gpu():
    assert judge(TOY, op(), capability=(8, 0)).status == "new"
    assert judge(TOY, op(), capability=(9, 0)).status == "reuse"
