"""Cases of the short convolution."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=1e-6)}

_AT = "day0_kernels.short_conv"
PAIRS = (
    Pair(
        name="prefill",
        reference=f"{_AT}.reference:short_conv_prefill",
        kernel=f"{_AT}.prefill:short_conv_prefill",
        outputs=("y", "tail"),
    ),
    Pair(
        name="decode",
        reference=f"{_AT}.reference:short_conv_decode",
        kernel=f"{_AT}.decode:short_conv_decode",
        outputs=("y", "tail"),
    ),
)


def _case(name: str, pair: str, tags: str = "", dtype: str = "bf16", activation: str = "silu",
          **dims: Any) -> Case:  # fmt: skip
    return Case(name=name, pair=pair, dtype=dtype, dims=dims, attrs={"activation": activation},
                tags=tuple(tags.split()))  # fmt: skip


CASES = (
    _case("one-token", "prefill", "interpret", "fp32", lengths=(1,), channels=20, width=4),
    _case("ragged", "prefill", "interpret", "fp32", lengths=(35, 0, 1, 2, 3, 32), channels=70,
          width=4, carried=(0, 2, 3)),
    _case("width2-none", "prefill", "interpret", "fp32", "none", lengths=(5, 40), channels=64,
          width=2, carried=(1,)),
    _case("width3-strided", "prefill", "interpret", "fp32", lengths=(40, 2), channels=30, width=3,
          carried=(0, 1), pad=6),
    _case("decode-small", "decode", "interpret", "fp32", lengths=(1,) * 3, channels=70, width=4,
          carried=(0, 2)),
    _case("decode-width2", "decode", "interpret", "fp32", "none", lengths=(1,) * 2, channels=30,
          width=2, carried=(1,)),
    _case("bf16-ragged", "prefill", lengths=(300, 0, 1, 2, 64), channels=3000, width=4,
          carried=(0, 2, 3)),
    _case("bf16-width3", "prefill", lengths=(100, 7), channels=512, width=3, carried=(1,)),
    _case("decode-bf16", "decode", lengths=(1,) * 5, channels=1000, width=4, carried=(0, 2)),
    _case("decode-bf16-many", "decode", lengths=(1,) * 130, channels=12288, width=4,
          carried=(0, 2, 129)),
    *(_case(f"T{t}", "prefill", "bench big", lengths=(t,), channels=12288, width=4)
      for t in (8192, 32768)),
    *(_case(f"decode-B{b}", "decode", "bench big graph", lengths=(1,) * b, channels=12288, width=4,
            carried=tuple(range(b))) for b in (1, 32, 128, 256)),
)  # fmt: skip


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; outputs and unread tails are NaN."""
    dims, dtype = case.dims, DTYPES[case.dtype]
    lengths, channels, width = dims["lengths"], dims["channels"], dims["width"]
    tokens, sequences, carried = sum(lengths), len(lengths), dims.get("carried", ())

    def draw(*shape: int, kind: torch.dtype = dtype) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(kind)

    def whole(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    slots = sequences + 2
    order = torch.randperm(slots - 1, generator=generator, device=device)[:sequences] + 1
    tail = torch.full((slots, width - 1, channels), float("nan"), device=device, dtype=dtype)
    for i in carried:
        tail[order[i]] = draw(width - 1, channels)
    result = {
        "x": draw(tokens, channels + dims.get("pad", 0))[:, :channels],
        "weight": draw(channels, 1, width, kind=torch.float32) * 0.5,
        "tail": tail,
        "y": torch.full((tokens, channels), float("nan"), device=device, dtype=dtype),
        "slot": order.to(torch.int32),
        "start": whole([9 if i in carried else 0 for i in range(sequences)]),
        **case.attrs,
    }
    if case.pair == "prefill":
        result["cu_seqlens"] = whole([sum(lengths[:i]) for i in range(sequences + 1)])
    return result


def work(case: Case) -> Work:
    """x in, y out, tails in (where carried) and out, the taps once."""
    dims, size = case.dims, DTYPES[case.dtype].itemsize
    tokens, channels, width = sum(dims["lengths"]), dims["channels"], dims["width"]
    tails = len(dims.get("carried", ())) + len(dims["lengths"])
    moved = channels * size * (2 * tokens + (width - 1) * tails) + channels * width * 4
    return Work(bytes=moved, flops=tokens * channels * 2 * width)
