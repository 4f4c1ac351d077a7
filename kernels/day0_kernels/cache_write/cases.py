"""Cases of the cache write: shuffled pages, ragged sequences, rows that are not kept."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work
from day0_kernels.quant.reference import FP8, MX_GROUP, TILE

TOLERANCE = {
    "bf16": Tolerance(),
    "fp32": Tolerance(),
    # An element between two FP8 values to within fp32 rounding may go either way, see quant/cases.
    "fp8": Tolerance(factor=2.0, peak=6.0, floor=1.2e-2),
}
_AT = "day0_kernels.cache_write"
PAIRS = (
    Pair(name="write", reference=f"{_AT}.reference:cache_write",
         kernel=f"{_AT}.kernel:cache_write", outputs=("pages",)),
    Pair(name="both", reference=f"{_AT}.reference:cache_write",
         kernel=f"{_AT}.kernel:cache_write", outputs=("pages", "pages_1")),
    Pair(name="quantised", reference=f"{_AT}.reference:cache_write_quantised",
         kernel=f"{_AT}.quantised:cache_write_quantised", outputs=("pages", "scale_pages")),
)  # fmt: skip


def _case(name: str, starts: tuple[int, ...], lengths: tuple[int, ...], width: int, tags: str = "",
          dtype: str = "bf16", page: int = 64, lost: int = 0, more: int = 0, heads: int = 1,
          mx: bool = False) -> Case:  # fmt: skip
    """`lost`: leading pages of every sequence that it has no more; `more` channels of a second
    part. FP8: `heads` of `width` channels, tiles of 128 or `mx`."""
    quantised = dtype == "fp8"
    pair = "quantised" if quantised else "both" if more else "write"
    return Case(
        name=name, pair=pair, dtype=dtype, tags=tuple(tags.split()),
        attrs={"width": width} if quantised else {},
        dims={"starts": starts, "lengths": lengths, "width": width, "page": page, "lost": lost,
              "more": more, "heads": heads, "mx": mx},
    )  # fmt: skip


CASES = (
    _case("ragged", (0, 5, 31), (7, 1, 40), 24, "interpret", "fp32", page=16),
    _case("empty-sequence", (3, 0), (0, 4), 1030, "interpret", "fp32", page=16),
    _case("window", (40, 9), (2, 30), 24, "interpret", "fp32", page=16, lost=1),
    _case("keys-values", (40, 9), (2, 30), 24, "interpret", "fp32", page=16, lost=1, more=1040),
    _case("fp8-tile", (0, 5), (7, 20), 272, "interpret", "fp8", page=16),
    _case("fp8-heads", (30, 2), (3, 9), 144, "interpret", "fp8", page=16, lost=1, heads=3),
    _case("fp8-mx", (0, 40), (7, 1), 80, "interpret", "fp8", page=16, heads=2, mx=True),
    _case("fp8-bf16", (0, 100), (130, 1), 512, dtype="fp8"),
    _case("fp8-mx-bf16", (0, 100), (130, 1), 128, dtype="fp8", mx=True),
    _case("fp8-decode-B128", tuple(range(128)), (1,) * 128, 512, "bench big graph", "fp8"),
    _case(
        "fp8-mx-decode-B128", tuple(range(128)), (1,) * 128, 128, "bench big graph", "fp8", mx=True
    ),
    _case("fp8-prefill-8192", (0,), (8192,), 512, "bench big", "fp8"),
    _case("bf16", (0, 100), (130, 1), 576),
    _case("bf16-keys-values", (0, 100), (130, 1), 1024, more=1024),
    _case("decode-B128", tuple(range(128)), (1,) * 128, 576, "bench big graph"),
    _case("prefill-8192", (0,), (8192,), 576, "bench big"),
    _case("keys-values-B128", tuple(range(128)), (1,) * 128, 1024, "bench big graph", more=1024),
    _case("keys-values-8192", (0,), (8192,), 1024, "bench big", more=1024),
)


def row_dtype(case: Case) -> torch.dtype:
    """The dtype of x: with FP8 pages bf16, but fp32 for the interpreter."""
    if case.dtype == "fp8":
        return torch.float32 if "interpret" in case.tags else torch.bfloat16
    return DTYPES[case.dtype]


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry; the pages are full of noise that must survive."""
    dims, dtype = case.dims, row_dtype(case)
    ends = [s + n for s, n in zip(dims["starts"], dims["lengths"], strict=True)]
    widths = [-(-end // dims["page"]) for end in ends]
    numbers = torch.randperm(sum(widths), generator=generator, device=device) + 1
    table = torch.zeros(len(ends), max(widths), dtype=torch.int64, device=device)
    for row, pages in enumerate(numbers.split(widths)):
        table[row, : len(pages)] = pages
    table[:, : dims["lost"]] = 0
    lengths = torch.tensor(dims["lengths"], device=device)
    seq = torch.repeat_interleave(torch.arange(len(ends), device=device), lengths)
    positions = torch.cat([torch.arange(s, e) for s, e in zip(dims["starts"], ends, strict=True)])

    def draw(*shape: int) -> torch.Tensor:
        values = torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
        return values.to(dtype)

    channels, lead = dims["heads"] * dims["width"], (sum(widths) + 1, dims["page"])
    given: dict[str, Any] = {"pages": draw(*lead, channels)}
    if case.pair == "quantised":
        tiles = dims["heads"] * -(-dims["width"] // (MX_GROUP if dims["mx"] else TILE))
        scales = torch.rand(*lead, tiles, generator=generator, device=device)
        given = {
            "pages": given["pages"].to(FP8),
            "scale_pages": (scales * 200).to(torch.uint8) if dims["mx"] else scales,
            **case.attrs,
        }
    if dims["more"]:
        given["x_1"] = draw(len(seq), dims["more"])
        given["pages_1"] = draw(*lead, dims["more"])
    return {
        **given,
        "x": draw(len(seq), channels + 8)[:, :channels],
        "table": table,
        "positions": positions.to(device),
        "seq": seq,
    }


def work(case: Case) -> Work:
    """Every row read and written once."""
    dims, size = case.dims, row_dtype(case).itemsize
    channels = dims["heads"] * dims["width"] + dims["more"]
    written = channels * size
    if case.pair == "quantised":
        written = channels + (channels // MX_GROUP if dims["mx"] else 4 * channels // TILE)
    return Work(bytes=sum(dims["lengths"]) * (channels * size + written), flops=0)
