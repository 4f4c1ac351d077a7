"""Cases of the indexers. Queries, keys and weights are small whole numbers, so that every score is
exact in any order of summing: the same numbers must come out, ties included. Timed ones are normal.
"""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work
from day0_kernels.common.paged import also_in_pages, in_pages
from day0_kernels.mla.inputs import step_of
from day0_kernels.quant.reference import MX_GROUP

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance()}
_AT = "day0_kernels.indexer"
PAIRS = (
    Pair(name="paged", reference=f"{_AT}.paged:indexer_paged",
         kernel=f"{_AT}.best:indexer_paged", outputs=("selected",)),
)  # fmt: skip
FP8 = torch.float8_e4m3fn
LARGEST = 7  # 64 heads of 128 channels stay below 2^24
MX_LARGEST = 2  # FP8 products are summed in 14 bits


def case(name: str, lengths: tuple[int, ...], tags: str = "", dtype: str = "bf16", *,
         rows: int = 1, heads: int = 64, dim: int = 128, top_k: int = 2048, page: int = 64,
         scales: str = "", weights: bool = True, largest: int = LARGEST,
         **attrs: Any) -> Case:  # fmt: skip
    """`rows` of every sequence, its last ones; pages hold `page` entries. `scales` "mx" (one for 32
    channels) or "row": keys in E4M3."""
    dims = {"lengths": lengths, "rows": rows, "page": page, "scales": scales, "weights": weights,
            "largest": largest}  # fmt: skip
    return Case(
        name=name, pair="paged", dtype=dtype, tags=tuple(tags.split()), dims=dims,
        attrs={"num_heads": heads, "head_dim": dim, "top_k": top_k, "scale": 2.0**-6, **attrs},
    )  # fmt: skip


_TINY: dict[str, Any] = {
    "tags": "interpret", "dtype": "fp32", "heads": 4, "dim": 16, "top_k": 20, "page": 16,
}  # fmt: skip
_MX = _TINY | {"dim": 128, "largest": MX_LARGEST}
_POOLED = {"pool": "softmax", "block": 4, "tail": True, "page": 4}
_MEAN = {"pool": "mean", "block": 4, "tail": True, "weights": False}
_MAX = {"pool": "max", "block": 8, "unit": "block", "relu": False, "weights": False,
        "local_blocks": 1}  # fmt: skip
_SIZES = tuple((batch, context) for batch in (1, 32, 128) for context in (32768, 131072))
_DECODE = tuple(
    case(f"{kind}-B{batch}-ctx{context >> 10}K-H{heads}", (context,) * batch, "bench big graph",
         heads=heads, scales="mx" if kind == "mx" else "")
    for kind in ("mx", "bf16")
    for batch, context in _SIZES
    for heads in (64, 32)
)  # fmt: skip
_PREFILL = tuple(
    case(f"{kind}-T{rows}-Tk{context >> 10}K-H{heads}", (context,), "bench big", rows=rows,
         heads=heads, scales="mx" if kind == "mx" else "")
    for kind in ("mx", "bf16")
    for rows in (2048, 8192)
    for context in (32768, 131072)
    for heads in (64, 32)
)  # fmt: skip
CASES = (
    case("small", (70, 20, 3), rows=2, **_TINY),
    case("rows", (90, 33), rows=9, **_TINY),
    case("ties", (300, 40), rows=3, largest=1, **_TINY),
    case("candidates", (2500, 1024, 1025, 7), rows=2, largest=3, **_TINY),
    case("pooled", (90, 33, 2), rows=9, **_TINY | _POOLED | {"top_k": 23}),
    case("pool-numbers", (90, 33), rows=5, **_TINY | {"pool": "softmax", "block": 4,
         "unit": "block"}),
    case("mean", (70, 20), rows=3, **_TINY | _MEAN | {"top_k": 23}),
    case("max", (150, 20, 7), rows=3, num_lists=4, **_TINY | _MAX | {"top_k": 5}),
    case("max-shared", (150, 20), rows=3, num_lists=2, **_TINY | _MAX | {"top_k": 5}),
    case("mx-tiny", (300, 40), rows=3, scales="mx", **_MX),
    case("mx-tiny-pooled", (300, 40), rows=3, scales="mx", **_MX | _POOLED | {"top_k": 23}),
    case("mx-tiny-rows", (150,), rows=40, scales="mx", **_MX),
    case("fp8-tiny", (300, 40), rows=3, scales="row", **_MX),
    case("bf16", (3000, 2500, 100), rows=3, top_k=512),
    case("bf16-candidates", (20000, 9000, 8193, 5), top_k=2048, heads=32, rows=2, page=128),
    case("bf16-rows", (6000,), top_k=1024, rows=200),
    case("bf16-pooled", (9000, 77), top_k=2048 + 3, rows=5, pool="softmax", block=4, tail=True,
         page=16, heads=32),
    case("bf16-mean", (9000, 77), top_k=2048 + 15, rows=5, heads=16, page=4, pool="mean", block=16,
         tail=True, weights=False),
    case("bf16-max", (9000, 77), top_k=16, rows=5, heads=4, num_lists=4, pool="max", block=128,
         unit="block", relu=False, weights=False, local_blocks=1, page=128),
    case("mx", (3000, 2500, 100), rows=3, top_k=512, scales="mx", largest=MX_LARGEST),
    case("mx-rows", (6000, 70), top_k=1024, rows=200, scales="mx", largest=MX_LARGEST, heads=32),
    case("fp8-rows", (6000, 70), top_k=1024, rows=20, scales="row", largest=MX_LARGEST),
    *_DECODE,
    *(case(f"mx-B32-ctx128K-H64-rows{rows}", (131072,) * 32, "bench big graph", rows=rows,
           scales="mx")
      for rows in (2, 4)),
    *_PREFILL,
)  # fmt: skip


def _every(case: Case) -> int:
    return case.attrs["block"] if case.attrs.get("pool") in ("softmax", "mean") else 1


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; `selected` is poisoned."""
    dims, attrs, step = case.dims, case.attrs, step_of(case, device)
    dtype, rows = DTYPES[case.dtype], len(step["positions"])
    heads, dim, largest = attrs["num_heads"], attrs["head_dim"], dims["largest"]
    lengths = [length // _every(case) for length in dims["lengths"]]

    def draw(*shape: int, least: int = -largest) -> torch.Tensor:
        if "big" in case.tags:
            return torch.randn(shape, generator=generator, device=device, dtype=dtype)
        values = torch.randint(least, largest + 1, shape, generator=generator, device=device)
        return values.to(dtype)

    width = attrs.get("num_lists", 1) * attrs["top_k"]
    keys = _keys(case, draw, lengths, device, generator)
    return {
        "q": draw(rows, heads * dim),
        **keys,
        **step,
        "selected": torch.full((rows, width), 1 << 30, dtype=torch.int32, device=device),
        "head_weights": draw(rows, heads, least=-1).clamp(max=3) if dims["weights"] else None,
        **attrs,
    }


def _keys(case: Case, draw: Any, lengths: list[int], device: str,
          generator: torch.Generator) -> dict[str, Any]:  # fmt: skip
    """Pages of keys; scales are powers of two near 1."""
    size, total, dim = case.dims["page"], sum(lengths), case.attrs["head_dim"]
    if not case.dims["scales"]:
        pages, table = in_pages(draw(total, dim), lengths, size, generator)
        return {"entry_pages": pages, "table": table, "entry_scale_pages": None}
    codes = torch.empty(total, dim, dtype=FP8, device=device)
    for at in range(0, total, 1 << 20):
        part = codes[at : at + (1 << 20)]
        part.copy_(draw(*part.shape) * (64 if "big" in case.tags else 1))
    groups = dim // MX_GROUP if case.dims["scales"] == "mx" else 1
    scale = torch.randint(126, 129, (total, groups), generator=generator, device=device).byte()
    if groups == 1:
        scale = torch.exp2(scale - 127.0)
    pages, table = in_pages(codes.view(torch.uint8), lengths, size, generator)
    return {
        "entry_pages": pages.view(FP8),
        "table": table,
        "entry_scale_pages": also_in_pages(scale, table, lengths, size),
    }


def work(case: Case) -> Work:
    """Entries and queries read once, numbers written once; a product per head and entry seen."""
    dims, attrs, every = case.dims, case.attrs, _every(case)
    heads, dim, size = attrs["num_heads"], attrs["head_dim"], DTYPES[case.dtype].itemsize
    seen = [
        (length - back) // every
        for length in dims["lengths"]
        for back in range(min(dims["rows"], length))
    ]
    entry = dim + 4 if dims["scales"] else dim * size
    moved = sum(length // every for length in dims["lengths"]) * entry
    moved += len(seen) * (heads * (dim + 1) * size + attrs.get("num_lists", 1) * attrs["top_k"] * 4)
    unit = "fp8" if dims["scales"] else ("fp32" if case.dtype == "fp32" else "bf16")
    return Work(bytes=moved, flops=2 * heads * dim * sum(seen), unit=unit)
