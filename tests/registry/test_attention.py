"""Who takes grouped-query attention, and what is refused with which reason."""

import pytest

from day0.ir.tensor import TensorSpec
from day0.registry.family import Shapes
from day0.registry.index import family
from day0.registry.judge import judge

TORCH = "library:day0_kernels.gqa.gathered:gqa_gathered"
PAGED = "triton:day0_kernels.gqa.attention:gqa_paged"


def op(name: str = "gqa", *, kv: str = "bf16", sink: bool = False, **attrs) -> Shapes:
    sizes = {"num_heads": 8, "num_kv_heads": 2, "head_dim": 64, "value_dim": 64, "scale": 0.1}
    done = family(name).complete(sizes | attrs)
    parts = [TensorSpec(dims=(2, done[dim]), format=kv) for dim in ("head_dim", "value_dim")]
    return Shapes(
        inputs={"q": TensorSpec(dims=("T", 8 * done["head_dim"]))},
        weights={"sink": TensorSpec(dims=(8,))} if sink else {},
        caches={"kv": tuple(parts)},
        attrs=done,
    )


@pytest.mark.parametrize(
    ("shapes", "impl"),
    [
        (op(), f"{TORCH} + {PAGED}"),
        (op(window=128), PAGED),
        (op(softcap=50.0), PAGED),
        (op(sink=True), PAGED),
        (op(value_dim=48), PAGED),
        (op(kv="fp32"), PAGED),
        (op(kv="fp8_t128"), PAGED),
        (op(kv="fp8_t128", head_dim=256, value_dim=256), PAGED),
    ],
)
def test_who_takes_it(shapes, impl):
    verdict = judge(family("gqa"), shapes, capability=(9, 0))
    assert (verdict.status, verdict.impl) == ("reuse", impl)


@pytest.mark.parametrize(
    ("shapes", "status", "reason"),
    [
        (op(head_dim=512), "new", "head_dim 512 (takes up to 256)"),
        (op(kv="fp8_t128", head_dim=192), "new", "head_dim 192 in fp8_t128"),
        (op(kv="mxfp8"), "quant-rework", "kv cached as mxfp8"),
    ],
)
def test_what_is_refused(shapes, status, reason):
    verdict = judge(family("gqa"), shapes, capability=(9, 0))
    assert verdict.status == status
    assert any(reason in one for one in verdict.reasons)


def test_lists_that_cut_key_heads_are_refused():
    whole = op("sparse_gqa", num_selected=16, num_lists=2)
    cut = op("sparse_gqa", num_selected=16, num_lists=4)
    assert judge(family("sparse_gqa"), whole, capability=(9, 0)).status == "reuse"
    verdict = judge(family("sparse_gqa"), cut, capability=(9, 0))
    assert verdict.status == "new"
    assert any("4 lists for 2 key heads" in reason for reason in verdict.reasons)
