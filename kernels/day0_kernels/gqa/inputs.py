"""Inputs of the cases of grouped-query attention, over all entries and over selected blocks."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Work
from day0_kernels.common.paged import also_in_pages, in_pages

FP8, TILE = torch.float8_e4m3fn, 128
CODE_SIZE = 100.0  # typical size of a code of an FP8 cache


def step_of(case: Case, device: str) -> dict[str, torch.Tensor]:
    """The last `rows` rows of every sequence (0: all of them)."""
    lengths, rows = case.dims["lengths"], case.dims["rows"]
    counts = [min(rows or length, length) for length in lengths]
    positions = [torch.arange(n - c, n) for n, c in zip(lengths, counts, strict=True)]
    seq = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(counts))
    return {
        "cu_seqlens": torch.tensor([0, *counts]).cumsum(0).to(device),
        "positions": torch.cat(positions).to(device),
        "seq": seq.to(device),
    }


def selection(positions: torch.Tensor, lists: int, count: int, block: int,
              generator: torch.Generator) -> torch.Tensor:  # fmt: skip
    """[T, lists * count] distinct blocks up to each row's own, -1 where there are no more,
    shuffled."""
    device = positions.device
    found = torch.full((len(positions), lists, count), -1, dtype=torch.int32, device=device)
    for row, position in enumerate(positions.tolist()):
        for one in range(lists):
            order = torch.randperm(position // block + 1, generator=generator, device=device)
            order = order[:count]
            place = torch.randperm(count, generator=generator, device=device)[: len(order)]
            found[row, one, place] = order.int()
    return found.flatten(1)


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`: shuffled pages in which what is no entry is NaN; y is NaN.

    A cache that fell out of all windows has no page: its table entry is 0.
    """
    dims, attrs, step = case.dims, case.attrs, step_of(case, device)
    dtype, lengths, size = DTYPES[case.dtype], list(dims["lengths"]), dims["page"]
    heads, groups = attrs["num_heads"], attrs["num_kv_heads"]

    def draw(*shape: int) -> torch.Tensor:
        first = dtype if "big" in case.tags else torch.float32
        values = torch.randn(shape, generator=generator, device=device, dtype=first)
        return values.to(dtype)

    given: dict[str, Any] = dict(attrs)
    table: torch.Tensor | None = None

    def place(values: torch.Tensor) -> torch.Tensor:
        nonlocal table
        if table is None:
            pages, table = in_pages(values, lengths, size, generator)
            return pages
        return also_in_pages(values, table, lengths, size)

    for part, dim in (("key", attrs["head_dim"]), ("value", attrs["value_dim"])):
        values = draw(sum(lengths), groups * dim)
        if dims["fp8"]:
            values = (values.float() * CODE_SIZE).clamp(-448, 448).to(FP8)
            tiles = groups * -(-dim // TILE)
            scales = torch.rand((sum(lengths), tiles), generator=generator, device=device) + 0.5
            given[f"{part}_scale_pages"] = place(scales / CODE_SIZE)
        given[f"{part}_pages"] = place(values)
    assert table is not None
    for row, length in enumerate(lengths if attrs.get("window") else ()):
        first = length - min(dims["rows"] or length, length) + 1 - attrs["window"]
        table[row, : max(first, 0) // size] = 0
    rows = len(step["positions"])
    if dims["selected"]:
        given["selected"] = selection(
            step["positions"], attrs["num_lists"], attrs["num_selected"], attrs["block"], generator
        )
    return {
        **given,
        **step,
        "table": table,
        "q": draw(rows, heads * attrs["head_dim"]),
        "sink": draw(heads) if dims["sink"] else None,
        "y": torch.full((rows, heads * attrs["value_dim"]), float("nan"), device=device,
                        dtype=dtype),
    }  # fmt: skip


def work(case: Case) -> Work:
    """Entries read once for every sequence, rows in and out; two products an entry seen."""
    dims, attrs = case.dims, case.attrs
    heads, groups = attrs["num_heads"], attrs["num_kv_heads"]
    wide = attrs["head_dim"] + attrs["value_dim"]
    size = DTYPES[case.dtype].itemsize
    limit = attrs.get("window") or 0
    if dims["selected"]:
        limit = attrs["num_selected"] * attrs["block"]
    seen, touched, rows = 0, 0, 0
    for length in dims["lengths"]:
        count = min(dims["rows"] or length, length)
        each = [min(place, limit or place) for place in range(length - count + 1, length + 1)]
        seen += sum(each)
        rows += count
        # a window moves with its row; what selections share is not known, their least is one's
        touched += min(length, limit + count - 1) if attrs.get("window") else each[-1]
    entry = groups * wide * size
    if dims["fp8"]:
        tiles = sum(-(-attrs[name] // TILE) for name in ("head_dim", "value_dim"))
        entry = groups * (wide + 4 * tiles)
    moved = touched * entry + rows * heads * wide * size
    return Work(bytes=moved, flops=2 * heads * wide * seen, unit="bf16")


def case(name: str, lengths: tuple[int, ...], heads: tuple[int, int], tags: str = "",
         dtype: str = "bf16", rows: int = 1, dim: int = 128, value: int = 0, page: int = 16,
         window: int = 0, cap: float | None = None, sink: bool = False, fp8: bool = False,
         selected: int = 0, block: int = 1, lists: int = 1) -> Case:  # fmt: skip
    """`rows` of every sequence, its last ones (0: all); `heads` (of queries, of keys)."""
    attrs: dict[str, Any] = {
        "num_heads": heads[0], "num_kv_heads": heads[1], "head_dim": dim,
        "value_dim": value or dim, "scale": dim**-0.5,
    }  # fmt: skip
    if selected:
        attrs |= {"num_selected": selected, "block": block, "num_lists": lists}
    else:
        attrs |= {"window": window, "softcap": cap}
    return Case(
        name=name, pair="paged", dtype=dtype, tags=tuple(tags.split()), attrs=attrs,
        dims={"lengths": lengths, "rows": rows, "page": page, "sink": sink, "fp8": fp8,
              "selected": selected},
    )  # fmt: skip
