"""Cases of rotary embedding: every pairing and place, tables with one and two sets of speeds."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {
    "bf16": Tolerance(),
    # fp32 angles: a product of position and speed is known to its last bit only, and so is its sine
    "fp32": Tolerance(floor=2e-6),
}

_AT = "day0_kernels.rope"
PAIRS = (
    Pair(
        name="rope",
        reference=f"{_AT}.reference:rope",
        kernel=f"{_AT}.kernel:rope",
        outputs=("y",),
    ),
)

HALF = {"theta": 1e4, "pairing": "half"}
PLAIN = {"theta": 1e4, "pairing": "interleaved"}
YARN = {
    "scaling": "yarn",
    "scaling_args": (("factor", 8.0), ("original_max_position_embeddings", 64)),
}


def _longrope(pairs: int) -> dict[str, Any]:
    """Two sets of speeds; rows from position 16 on take the long one."""
    args = {
        "factor": 4.0,
        "long_factor": tuple(2.0 + 0.7 * i for i in range(pairs)),
        "original_max_position_embeddings": 16,
        "short_factor": tuple(1.0 + 0.1 * i for i in range(pairs)),
    }
    return {"scaling": "longrope", "scaling_args": tuple(args.items())}


def _case(name: str, tokens: int, heads: int, head_dim: int, dims: int, attrs: dict[str, Any],
          tags: str = "", dtype: str = "bf16", **extra: Any) -> Case:  # fmt: skip
    return Case(
        name=name, pair="rope", dtype=dtype, tags=tuple(tags.split()),
        dims={"tokens": tokens, "heads": heads, "head_dim": head_dim, "dims": dims, **extra},
        attrs={**attrs, "num_heads": heads, "dims": dims},
    )  # fmt: skip


CASES = (
    _case("one-token", 1, 1, 16, 16, HALF, "interpret", "fp32"),
    _case("half-part", 5, 3, 20, 12, HALF, "interpret", "fp32", pad=8),
    _case("half-last", 5, 3, 24, 16, {**HALF, "place": "last"}, "interpret", "fp32"),
    _case("interleaved", 5, 3, 16, 16, PLAIN, "interpret", "fp32"),
    _case("interleaved-last", 5, 5, 28, 12, {**PLAIN, "place": "last", "inverse": True},
          "interpret", "fp32"),
    _case("yarn", 6, 2, 32, 32, {**HALF, **YARN}, "interpret", "fp32"),
    _case("longrope", 32, 2, 16, 16, {**HALF, **_longrope(8)}, "interpret", "fp32"),
    _case("learned", 6, 2, 16, 8, PLAIN, "interpret", "fp32", learned=True),
    _case("bf16", 100, 40, 128, 128, HALF),
    _case("bf16-part", 33, 16, 256, 64, {**HALF, "theta": 1e7}, pad=64),
    _case("bf16-interleaved", 100, 64, 192, 64, {**PLAIN, "place": "last"}),
    _case("bf16-one-head", 50, 1, 64, 64, {**PLAIN, **YARN}),
    _case("T1", 1, 32, 128, 128, HALF, "bench big graph"),
    _case("T8192", 8192, 32, 128, 128, HALF, "bench big graph"),
    _case("part-T8192", 8192, 32, 128, 64, HALF, "bench big graph"),
    _case("interleaved-T8192", 8192, 64, 64, 64, PLAIN, "bench big graph"),
)  # fmt: skip


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; the output is NaN."""
    dims, dtype = case.dims, DTYPES[case.dtype]
    tokens, channels = dims["tokens"], dims["heads"] * dims["head_dim"]

    def draw(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(kind)

    first = int(torch.randint(64, (), generator=generator, device=device))
    first = 0 if case.attrs.get("scaling") == "longrope" else first
    result = {
        "x": draw(tokens, channels + dims.get("pad", 0))[:, :channels],
        "y": torch.full((tokens, channels), float("nan"), device=device, dtype=dtype),
        "positions": torch.arange(first, first + tokens, device=device),
        **case.attrs,
    }
    if dims.get("learned"):
        result["log_frequency"] = draw(dims["dims"] // 2, kind=torch.float32) * 0.1
    return result


def work(case: Case) -> Work:
    """x in, y out."""
    dims = case.dims
    elements = dims["tokens"] * dims["heads"] * dims["head_dim"]
    turned = dims["tokens"] * dims["heads"] * dims["dims"]
    return Work(bytes=2 * elements * DTYPES[case.dtype].itemsize, flops=3 * turned)
