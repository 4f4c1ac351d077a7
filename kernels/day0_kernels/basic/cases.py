"""Cases of the glue that has kernels of its own: gated activations."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

# tanh is made of exponentials, with an absolute error of fp32's last bit
TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=3e-6)}

_AT = "day0_kernels.basic"
PAIRS = tuple(
    Pair(
        name=name,
        reference=f"{_AT}.reference:{name}",
        kernel=f"{_AT}.elementwise:{name}",
        outputs=("y",),
    )
    for name in ("glu", "gate")
)


def _case(name: str, pair: str, tokens: int, channels: int, tags: str = "", dtype: str = "bf16",
          packed: bool = False, **attrs: Any) -> Case:  # fmt: skip
    return Case(
        name=name, pair=pair, dtype=dtype, attrs=attrs, tags=tuple(tags.split()),
        dims={"tokens": tokens, "channels": channels, "packed": packed},
    )  # fmt: skip


CASES = (
    _case("glu-one-row", "glu", 1, 48, "interpret", "fp32", function="silu"),
    _case("glu-wide", "glu", 2, 2100, "interpret", "fp32", packed=True, function="gelu"),
    _case("glu-situ", "glu", 3, 80, "interpret", "fp32", function="situ", beta=4.0,
          linear_beta=25.0),
    _case("glu-swigluoai", "glu", 3, 80, "interpret", "fp32", function="swigluoai", alpha=1.702,
          limit=1.5),
    _case("gate-channels", "gate", 3, 80, "interpret", "fp32", activation="sigmoid"),
    _case("gate-heads", "gate", 3, 5 * 24, "interpret", "fp32", activation="softplus",
          num_heads=5),
    _case("gate-silu", "gate", 2, 40, "interpret", "fp32", activation="silu"),
    _case("gate-none", "gate", 2, 40, "interpret", "fp32", activation="none", num_heads=2),
    _case("glu-bf16", "glu", 100, 1408, packed=True, function="silu", limit=2.0),
    _case("glu-bf16-gelu-tanh", "glu", 33, 2304, function="gelu_tanh"),
    _case("gate-bf16", "gate", 50, 4096, activation="sigmoid"),
    _case("gate-bf16-heads", "gate", 50, 32 * 128, activation="sigmoid", num_heads=32),
    _case("glu-T128", "glu", 128, 4096, "bench big graph", packed=True, function="silu"),
    _case("glu-T8192", "glu", 8192, 4096, "bench big graph", packed=True, function="silu"),
    _case("gate-T8192", "gate", 8192, 4096, "bench big graph", activation="sigmoid"),
)  # fmt: skip


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; the output is NaN. `packed`: gate and up of one tensor."""
    dims, dtype = case.dims, DTYPES[case.dtype]
    tokens, channels = dims["tokens"], dims["channels"]

    def draw(width: int) -> torch.Tensor:
        return torch.randn(tokens, width, generator=generator, device=device).to(dtype)

    y = torch.full((tokens, channels), float("nan"), device=device, dtype=dtype)
    if case.pair == "gate":
        width = case.attrs.get("num_heads") or channels
        return {"x": draw(channels), "gate": draw(width), "y": y, **case.attrs}
    both = draw(2 * channels)
    gate, up = both[:, :channels], both[:, channels:]
    if not dims["packed"]:
        gate, up = gate.contiguous(), up.contiguous()
    return {"gate": gate, "up": up, "y": y, **case.attrs}


def work(case: Case) -> Work:
    """Both inputs in, the output out."""
    dims = case.dims
    elements = dims["tokens"] * dims["channels"]
    width = case.attrs.get("num_heads") or dims["channels"]
    moved = 2 * elements + dims["tokens"] * width
    return Work(bytes=moved * DTYPES[case.dtype].itemsize, flops=6 * elements)
