"""Cases of the attention residual."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=1e-6)}
_AT = "day0_kernels.attn_residual"
PAIRS = (
    Pair(name="mix", reference=f"{_AT}.reference:attn_residual",
         kernel=f"{_AT}.mix:attn_residual", outputs=("y",)),
)  # fmt: skip


def _case(name: str, tokens: int, width: int, sources: int, tags: str = "", dtype: str = "bf16",
          **attrs: Any) -> Case:  # fmt: skip
    return Case(
        name=name, pair="mix", dtype=dtype, tags=tuple(tags.split()),
        dims={"tokens": tokens, "width": width, "sources": sources},
        attrs={"eps": 1e-6, "scale": 1.0, "normed_values": False} | attrs,
    )  # fmt: skip


CASES = (
    _case("one-source", 3, 48, 1, "interpret", "fp32"),
    _case("few-tokens", 5, 300, 5, "interpret", "fp32", scale=0.1),
    _case("normed", 4, 130, 3, "interpret", "fp32", normed_values=True),
    _case("many-tokens", 300, 40, 3, "interpret", "fp32"),
    _case("many-normed", 290, 40, 4, "interpret", "fp32", normed_values=True, scale=0.3),
    _case("bf16", 50, 2304, 9),
    _case("bf16-many", 500, 7168, 9),
    _case("bf16-normed", 300, 4096, 6, normed_values=True, scale=4096**-0.5),
    *(
        _case(f"T{tokens}-D{width}", tokens, width, 9, "bench big" + (" graph" * (tokens < 1000)))
        for tokens in (1, 128, 8192)
        for width in (2304, 7168)
    ),
)


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry; sources of very different sizes, as blocks are."""
    dims, dtype = case.dims, DTYPES[case.dtype]
    tokens, width = dims["tokens"], dims["width"]

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32)

    return {
        "x": [
            (draw(tokens, width + 16) * 3.0**number).to(dtype)[:, :width]
            for number in range(dims["sources"])
        ],
        "query": draw(width) * 3 * width**-0.5,
        "y": torch.full((tokens, width), float("nan"), device=device, dtype=dtype),
        **case.attrs,
    }


def work(case: Case) -> Work:
    """Every source in, one row out."""
    dims = case.dims
    elements = dims["tokens"] * dims["width"]
    size = DTYPES[case.dtype].itemsize
    return Work(bytes=(dims["sources"] + 1) * elements * size, flops=6 * dims["sources"] * elements)
