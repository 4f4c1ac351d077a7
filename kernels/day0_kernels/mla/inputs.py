"""Inputs of the cases of latent attention, dense and over a selection."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Work
from day0_kernels.common.paged import in_pages

FP8, TILE = torch.float8_e4m3fn, 128
VECTOR_BYTES = 16
CODE_SIZE = 100.0  # typical size of a code of the FP8 cache


def step_of(case: Case, device: str) -> dict[str, torch.Tensor]:
    """`positions` and `seq` of the last `rows` rows of every sequence."""
    lengths, rows = case.dims["lengths"], case.dims["rows"]
    counts = [min(rows, length) for length in lengths]
    positions = torch.cat([torch.arange(n - c, n) for n, c in zip(lengths, counts, strict=True)])
    seq = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(counts))
    return {"positions": positions.to(device), "seq": seq.to(device)}


def drawing(case: Case, device: str, generator: torch.Generator) -> Any:
    """A function that draws tensors of a shape in the case's dtype."""
    dtype = DTYPES[case.dtype]

    def draw(*shape: int, factor: float = 1.0) -> torch.Tensor:
        first = dtype if "big" in case.tags else torch.float32
        values = torch.randn(shape, generator=generator, device=device, dtype=first)
        return (values * factor).to(dtype)

    return draw


def cache(case: Case, latent: int, rope: int, device: str, generator: torch.Generator,
          draw: Any) -> dict[str, torch.Tensor | None]:  # fmt: skip
    """Parts of the cache as views of one buffer, in shuffled pages; what is no entry is NaN.

    FP8: a row of bytes [codes | fp32 scales | rope], each part at a multiple of 16 bytes.
    """
    lengths, size, entries = case.dims["lengths"], case.dims["page"], sum(case.dims["lengths"])
    if not case.dims["fp8"]:
        # rope and latent in one buffer: the same pages for both
        pages, table = in_pages(draw(entries, latent + rope), list(lengths), size, generator)
        return {
            "latent_pages": pages[..., :latent],
            "table": table,
            "k_rope_pages": pages[..., latent:] if rope else None,
            "latent_scale_pages": None,
        }
    tiles = latent // TILE
    first = up(latent + 4 * tiles)
    rows = torch.full(
        (entries, up(first + rope * DTYPES[case.dtype].itemsize)), 255, dtype=torch.uint8,
        device=device,
    )  # fmt: skip
    codes = (draw(entries, latent) * CODE_SIZE).clamp(-448, 448)
    rows[:, :latent] = codes.to(FP8).view(torch.uint8)
    scale = torch.rand((entries, tiles), generator=generator, device=device) + 0.5
    rows[:, latent : latent + 4 * tiles] = (scale / CODE_SIZE).view(torch.uint8)
    if rope:
        rows[:, first : first + rope * DTYPES[case.dtype].itemsize] = draw(entries, rope).view(
            torch.uint8
        )
    pages, table = in_pages(rows, list(lengths), size, generator)
    wide = pages[..., first:].view(DTYPES[case.dtype])[..., :rope] if rope else None
    return {
        "latent_pages": pages[..., :latent].view(FP8),
        "table": table,
        "k_rope_pages": wide,
        "latent_scale_pages": pages[..., latent : latent + 4 * tiles].view(torch.float32),
    }


def up(count: int) -> int:
    """`count` bytes, rounded up to whole vectors."""
    return -(-count // VECTOR_BYTES) * VECTOR_BYTES


def selection(positions: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """[T, count] distinct entries that each row sees, -1 where there are no more, shuffled."""
    device = positions.device
    found = torch.full((len(positions), count), -1, dtype=torch.int32, device=device)
    for row, position in enumerate(positions.tolist()):
        order = torch.randperm(position + 1, generator=generator, device=device)[:count]
        place = torch.randperm(count, generator=generator, device=device)[: len(order)]
        found[row, place] = order.int()
    return found


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; outputs are NaN."""
    dims, draw, step = case.dims, drawing(case, device, generator), step_of(case, device)
    heads, latent, rope = dims["heads"], dims["latent"], dims["rope"]
    rows = len(step["positions"])

    def blank(*shape: int) -> torch.Tensor:
        return torch.full(shape, float("nan"), device=device, dtype=DTYPES[case.dtype])

    given: dict[str, Any] = {
        **step,
        **cache(case, latent, rope, device, generator, draw),
        "sink": draw(heads) if dims["sink"] else None,
        **case.attrs,
    }
    if dims["selected"]:
        given["selected"] = selection(step["positions"], dims["selected"], generator)
    if case.pair == "core":
        q_latent = draw(rows, heads, latent)
        half = dims["fp8"] and case.dtype == "bf16"
        given["q_latent"] = q_latent.half() if half else q_latent
        given["q_rope"] = draw(rows, heads, rope) if rope else None
        given["mixed"] = blank(rows, heads, latent)
        return given
    nope, value = case.attrs["nope_dim"], case.attrs["value_dim"]
    return {
        **given,
        "q": draw(rows, heads * (nope + rope)),
        "w_uk": draw(heads * nope, latent, factor=latent**-0.5),
        "w_uv": draw(heads * value, latent, factor=latent**-0.5),
        "y": blank(rows, heads * value),
    }


def work(case: Case) -> Work:
    """Entries (and both weights) read once, rows in and out; products of the absorbed form."""
    dims, attrs = case.dims, case.attrs
    n, r, dr = dims["heads"], dims["latent"], dims["rope"]
    size = DTYPES[case.dtype].itemsize
    seen = [
        min(length - back, dims["selected"] or attrs.get("window") or length)
        for length in dims["lengths"]
        for back in range(min(dims["rows"], length))
    ]
    # rows of a sequence share what they read; a selection's least is its longest row
    touched = sum(min(length, dims["selected"] or attrs.get("window") or length)
                  for length in dims["lengths"])  # fmt: skip
    entry = r + 4 * r // TILE + size * dr if dims["fp8"] else size * (r + dr)
    flops = 2 * n * sum(seen) * (2 * r + dr)
    moved = touched * entry
    if case.pair == "core":
        return Work(bytes=moved + len(seen) * n * (2 * r + dr) * size, flops=flops, unit="bf16")
    wide = attrs["nope_dim"] + attrs["value_dim"]
    moved += (n * r * wide + len(seen) * n * (wide + dr)) * size
    return Work(bytes=moved, flops=flops + 2 * len(seen) * n * r * wide, unit="bf16")


def case(name: str, pair: str, lengths: tuple[int, ...], heads: int, tags: str = "",
         dtype: str = "bf16", rows: int = 1, nope: int = 128, rope: int = 64, value: int = 128,
         latent: int = 512, page: int = 64, window: int = 0, selected: int = 0,
         sink: bool = False, fp8: bool = False) -> Case:  # fmt: skip
    """`rows` of every sequence, its last ones, over an FP8 cache or one of `dtype`."""
    dims = {"lengths": lengths, "rows": rows, "page": page, "sink": sink, "fp8": fp8,
            "heads": heads, "latent": latent, "rope": rope, "selected": selected}  # fmt: skip
    attrs: dict[str, Any] = {"scale": (nope + rope) ** -0.5}
    if not selected:
        attrs["window"] = window
    if pair != "core":
        attrs |= {"num_heads": heads, "nope_dim": nope, "rope_dim": rope, "value_dim": value,
                  "latent_dim": latent}  # fmt: skip
        if selected:
            attrs["num_selected"] = selected
    return Case(name=name, pair=pair, dtype=dtype, tags=tuple(tags.split()), dims=dims, attrs=attrs)
