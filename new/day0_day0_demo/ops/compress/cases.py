"""Cases of compress.

The model's own shapes, and lengths that no tile divides.
"""

from typing import Any

import torch
from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work, load
from day0_kernels.common.made_up import Layout, Page, made_up, work_of

AT = "day0_day0_demo.ops.compress"
TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=1e-6)}
PAIRS = (
    Pair(
        name="compress",
        reference="day0_kernels.compress.reference:compress",
        kernel=f"{AT}.kernel:compress",
        outputs=("tail_entry", "tail_gate", "pooled_entry"),
    ),
)
LAYOUTS = {
    "model-0": Layout(
        rows={
            "x": (64,),
            "gate": (64,),
        },
        outputs={},
        weights={
            "position_bias": (4, 64),
        },
        slots={
            "tail_entry": (3, 64),
            "tail_gate": (3, 64),
        },
        pages={
            "pooled": Page(
                parts={
                    "entry": (64,),
                },
                every=4,
                span=0,
            ),
        },
        attrs={
            "norm": "none",
            "norm_eps": None,
            "overlap": False,
            "rope_dims": 0,
            "rope_pairing": "none",
            "rope_place": "first",
            "rule": "softmax",
            "scaling": None,
            "scaling_args": None,
            "size": 4,
            "theta": None,
            "zero_centered": False,
        },
        wide=("position_bias",),
    ),
}


def _case(
    name: str,
    layout: str,
    lengths: tuple[int, ...],
    starts: tuple[int, ...],
    *tags: str,
    dtype: str = "fp32",
) -> Case:
    """A step in which sequence n brings lengths[n] rows after starts[n] tokens."""
    dims = {"layout": layout, "lengths": lengths, "starts": starts}
    return Case(
        name=name,
        pair="compress",
        dtype=dtype,
        dims=dims,
        tags=tags,
    )


CASES = (
    _case("one-token", "model-0", (1,), (0,), "interpret"),
    _case("ragged", "model-0", (7, 0, 1, 13), (0, 0, 0, 0), "interpret"),
    _case("carried", "model-0", (5, 1, 3), (0, 9, 4), "interpret"),
    _case("model-0", "model-0", (9, 2), (0, 6), "interpret"),
    _case("model-0-bf16", "model-0", (128,), (0,), "bench", dtype="bf16"),
)


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; outputs are NaN."""
    return made_up(
        load(PAIRS[0].reference),
        LAYOUTS[case.dims["layout"]],
        lengths=case.dims["lengths"],
        starts=case.dims["starts"],
        dtype=DTYPES[case.dtype],
        device=device,
        generator=generator,
    )


def work(case: Case) -> Work:
    """Weights and rows once; say more once it is known what the operator does."""
    return work_of(
        LAYOUTS[case.dims["layout"]],
        lengths=case.dims["lengths"],
        dtype=DTYPES[case.dtype],
    )
