"""Cases of latent attention over pages: decode rows, several rows a sequence, selections."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work
from day0_kernels.common.paged import in_pages

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=1e-6)}
_AT = "day0_kernels.mla"
PAIRS = (
    Pair(name="paged", reference=f"{_AT}.paged:mla_paged", kernel=f"{_AT}.decode:mla_paged",
         outputs=("y",)),
)  # fmt: skip


def _case(name: str, lengths: tuple[int, ...], heads: int, tags: str = "", dtype: str = "bf16",
          rows: int = 1, nope: int = 128, rope: int = 64, value: int = 128, latent: int = 512,
          page: int = 64, window: int = 0, selected: int = 0,
          sink: bool = False) -> Case:  # fmt: skip
    """`rows` of every sequence, its last ones."""
    return Case(
        name=name, pair="paged", dtype=dtype, tags=tuple(tags.split()),
        dims={"lengths": lengths, "rows": rows, "page": page, "sink": sink},
        attrs={"num_heads": heads, "nope_dim": nope, "rope_dim": rope, "value_dim": value,
               "latent_dim": latent, "scale": (nope + rope) ** -0.5, "window": window,
               "num_selected": selected},
    )  # fmt: skip


_TINY: dict[str, Any] = {"nope": 12, "rope": 16, "value": 20, "latent": 32, "page": 16}
CASES = (
    _case("small", (5, 17, 1, 40), 3, "interpret", "fp32", **_TINY),
    _case("split", (300, 130), 2, "interpret", "fp32", **_TINY),
    _case("no-rope", (33, 64), 2, "interpret", "fp32", **_TINY | {"rope": 0}),
    _case("rows", (40, 9), 5, "interpret", "fp32", rows=4, **_TINY),
    _case("window", (40, 9), 2, "interpret", "fp32", rows=2, window=7, **_TINY),
    _case("sink", (40, 3), 2, "interpret", "fp32", sink=True, **_TINY),
    _case("selected", (70, 20, 3), 3, "interpret", "fp32", rows=2, selected=24, **_TINY),
    _case("selected-sink", (70, 1), 3, "interpret", "fp32", selected=24, sink=True, **_TINY),
    _case("bf16", (1000, 17, 128), 32),
    _case("bf16-no-rope", (1000, 17, 128), 32, rope=0, nope=192),
    _case("bf16-heads-128", (700, 65), 128, rows=2),
    _case("bf16-selected", (3000, 2500, 100), 64, selected=2048),
    _case("B32-32K", (32768,) * 32, 128, "bench big graph"),
    _case("B1-128K", (131072,), 128, "bench big graph"),
    _case("B32-1K-H32", (1024,) * 32, 32, "bench big graph"),
    *(
        _case(f"sparse-B{batch}-H{heads}", (32768,) * batch, heads, "bench big graph",
              selected=2048)
        for batch in (1, 32, 128)
        for heads in (64, 128)
    ),
)  # fmt: skip


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry; pages shuffled, what is not an entry holds NaN."""
    dims, attrs, dtype = case.dims, case.attrs, DTYPES[case.dtype]
    heads, latent = attrs["num_heads"], attrs["latent_dim"]
    lengths = dims["lengths"]
    counts = [min(dims["rows"], length) for length in lengths]
    rows, entries = sum(counts), sum(lengths)
    big = "big" in case.tags

    def draw(*shape: int, factor: float = 1.0) -> torch.Tensor:
        values = torch.randn(shape, generator=generator, device=device,
                             dtype=dtype if big else torch.float32)  # fmt: skip
        return (values * factor).to(dtype)

    # rope and latent in one buffer: the same pages for both
    both = draw(entries, latent + attrs["rope_dim"])
    pages, table = in_pages(both, list(lengths), dims["page"], generator)
    positions = torch.cat([torch.arange(n - c, n) for n, c in zip(lengths, counts, strict=True)])
    positions = positions.to(device)
    seq = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(counts)).to(device)
    given = {
        "q": draw(rows, heads * (attrs["nope_dim"] + attrs["rope_dim"])),
        "w_uk": draw(heads * attrs["nope_dim"], latent, factor=latent**-0.5),
        "w_uv": draw(heads * attrs["value_dim"], latent, factor=latent**-0.5),
        "latent_pages": pages[..., :latent],
        "table": table,
        "positions": positions,
        "seq": seq,
        "y": torch.full((rows, heads * attrs["value_dim"]), float("nan"), device=device,
                        dtype=dtype),
        "k_rope_pages": pages[..., latent:] if attrs["rope_dim"] else None,
        "sink": draw(heads) if dims["sink"] else None,
        "selected": None,
        **attrs,
    }  # fmt: skip
    if attrs["num_selected"]:
        given["selected"] = _selected(positions, attrs["num_selected"], generator)
    return given


def _selected(positions: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """[T, count] distinct entries that each row sees, -1 where there are no more."""
    found = torch.full((len(positions), count), -1, dtype=torch.int32, device=positions.device)
    for row, position in enumerate(positions.tolist()):
        order = torch.randperm(position + 1, generator=generator, device=positions.device)
        found[row, : min(count, position + 1)] = order[:count].int()
    return found


def work(case: Case) -> Work:
    """Entries and both weights read once, rows in and out; products of the absorbed form."""
    dims, attrs = case.dims, case.attrs
    n, r, dr = attrs["num_heads"], attrs["latent_dim"], attrs["rope_dim"]
    rows = sum(min(dims["rows"], length) for length in dims["lengths"])
    limit = attrs["num_selected"] or attrs["window"] or max(dims["lengths"])
    entries = sum(min(length, limit) for length in dims["lengths"])
    wide = attrs["nope_dim"] + attrs["value_dim"]
    moved = entries * (r + dr) + n * r * wide + rows * n * (wide + dr)
    flops = 2 * n * dims["rows"] * entries * (2 * r + dr) + 2 * rows * n * r * wide
    return Work(bytes=moved * DTYPES[case.dtype].itemsize, flops=flops, unit="bf16")
