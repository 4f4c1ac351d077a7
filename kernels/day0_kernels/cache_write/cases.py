"""Cases of the cache write: shuffled pages, ragged sequences, rows that are not kept."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance()}
_AT = "day0_kernels.cache_write"
PAIRS = (
    Pair(name="write", reference=f"{_AT}.reference:cache_write",
         kernel=f"{_AT}.kernel:cache_write", outputs=("pages",)),
    Pair(name="both", reference=f"{_AT}.reference:cache_write",
         kernel=f"{_AT}.kernel:cache_write", outputs=("pages", "pages_1")),
)  # fmt: skip


def _case(name: str, starts: tuple[int, ...], lengths: tuple[int, ...], width: int, tags: str = "",
          dtype: str = "bf16", page: int = 64, lost: int = 0, more: int = 0) -> Case:  # fmt: skip
    """`lost`: leading pages of every sequence that it has no more; `more` channels of a second
    part."""
    return Case(
        name=name, pair="both" if more else "write", dtype=dtype, tags=tuple(tags.split()),
        dims={"starts": starts, "lengths": lengths, "width": width, "page": page, "lost": lost,
              "more": more},
    )  # fmt: skip


CASES = (
    _case("ragged", (0, 5, 31), (7, 1, 40), 24, "interpret", "fp32", page=16),
    _case("empty-sequence", (3, 0), (0, 4), 1030, "interpret", "fp32", page=16),
    _case("window", (40, 9), (2, 30), 24, "interpret", "fp32", page=16, lost=1),
    _case("keys-values", (40, 9), (2, 30), 24, "interpret", "fp32", page=16, lost=1, more=1040),
    _case("bf16", (0, 100), (130, 1), 576),
    _case("bf16-keys-values", (0, 100), (130, 1), 1024, more=1024),
    _case("decode-B128", tuple(range(128)), (1,) * 128, 576, "bench big graph"),
    _case("prefill-8192", (0,), (8192,), 576, "bench big"),
    _case("keys-values-B128", tuple(range(128)), (1,) * 128, 1024, "bench big graph", more=1024),
    _case("keys-values-8192", (0,), (8192,), 1024, "bench big", more=1024),
)


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry; the pages are full of noise that must survive."""
    dims, dtype = case.dims, DTYPES[case.dtype]
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

    second = {}
    if dims["more"]:
        second["x_1"] = draw(len(seq), dims["more"])
        second["pages_1"] = draw(sum(widths) + 1, dims["page"], dims["more"])
    return {
        "x": draw(len(seq), dims["width"] + 8)[:, : dims["width"]],
        "pages": draw(sum(widths) + 1, dims["page"], dims["width"]),
        **second,
        "table": table,
        "positions": positions.to(device),
        "seq": seq,
    }


def work(case: Case) -> Work:
    """Every row read and written once."""
    width = case.dims["width"] + case.dims["more"]
    moved = 2 * sum(case.dims["lengths"]) * width * DTYPES[case.dtype].itemsize
    return Work(bytes=moved, flops=0)
