"""Cases of the attention residual."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {"bf16": Tolerance(), "fp32": Tolerance(floor=1e-6)}
_AT = "day0_kernels.attn_residual"
PAIRS = (
    Pair(name="mix", reference=f"{_AT}.reference:attn_residual",
         kernel=f"{_AT}.mix:attn_residual", outputs=("y",)),
    Pair(name="blocks", reference=f"{_AT}.reference:attn_residual_blocks",
         kernel=f"{_AT}.two_phase:attn_residual_blocks", outputs=("mixed", "lse")),
    Pair(name="merge", reference=f"{_AT}.reference:attn_residual_merge",
         kernel=f"{_AT}.two_phase:attn_residual_merge", outputs=("y",)),
    Pair(name="merge-sum", reference=f"{_AT}.reference:attn_residual_merge",
         kernel=f"{_AT}.two_phase:attn_residual_merge", outputs=("y", "residual_out")),
)  # fmt: skip


def _case(name: str, tokens: int, width: int, sources: int, tags: str = "", dtype: str = "bf16",
          pair: str = "mix", queries: int = 0, adds: bool = False, norms: bool = False,
          **attrs: Any) -> Case:  # fmt: skip
    """`queries` of a block; `adds`, `norms`: phase 2 with the sum before and the norm after it."""
    dims = {"tokens": tokens, "width": width, "sources": sources, "queries": queries}
    return Case(
        name=name, pair=pair, dtype=dtype, tags=tuple(tags.split()),
        dims=dims | {"adds": adds, "norms": norms},
        attrs={"eps": 1e-6, "scale": 1.0, "normed_values": False} | attrs,
    )  # fmt: skip


def _blocks(name: str, tokens: int, width: int, sources: int, queries: int, tags: str = "",
            dtype: str = "bf16", **attrs: Any) -> Case:  # fmt: skip
    return _case(name, tokens, width, sources, tags, dtype, "blocks", queries, **attrs)


def _merge(name: str, tokens: int, width: int, queries: int, tags: str = "", dtype: str = "bf16",
           adds: bool = True, norms: bool = True, **attrs: Any) -> Case:  # fmt: skip
    more = {"number": queries - 1, "norm_eps": 1e-5 if norms else 0.0} | attrs
    pair = "merge-sum" if adds else "merge"
    return _case(name, tokens, width, 1, tags, dtype, pair, queries, adds, norms, **more)


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
    _blocks("blocks-one-query", 3, 48, 2, 1, "interpret", "fp32"),
    _blocks("blocks-scaled", 5, 300, 3, 4, "interpret", "fp32", scale=0.1),
    _blocks("blocks-normed", 2, 130, 5, 3, "interpret", "fp32", normed_values=True),
    _blocks("blocks-many-tokens", 150, 40, 2, 3, "interpret", "fp32"),
    _blocks("blocks-bf16", 50, 2304, 8, 17),
    _blocks("blocks-bf16-wide", 3, 7168, 16, 5, scale=0.3),
    _merge("merge-alone", 3, 48, 2, "interpret", "fp32", adds=False, norms=False),
    _merge("merge-sum", 4, 130, 3, "interpret", "fp32", norms=False, number=0),
    _merge("merge-norm", 4, 300, 3, "interpret", "fp32", adds=False, scale=0.1, number=1),
    _merge("merge-all-normed", 5, 96, 4, "interpret", "fp32", normed_values=True),
    _merge("merge-bf16", 50, 2304, 17),
    _merge("merge-bf16-wide", 130, 7168, 3, scale=0.3),
    *(
        case
        for tokens in (1, 128)
        for width in (2304, 7168)
        for case in (
            _blocks(f"blocks-T{tokens}-D{width}", tokens, width, 8, 17, "bench big graph"),
            _merge(f"merge-T{tokens}-D{width}", tokens, width, 17, "bench big graph"),
        )
    ),
)


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry; sources of very different sizes, as blocks are."""
    dims, dtype = case.dims, DTYPES[case.dtype]
    tokens, width = dims["tokens"], dims["width"]

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32)

    def empty(*shape: int, of: torch.dtype = dtype) -> torch.Tensor:
        return torch.full(shape, float("nan"), device=device, dtype=of)

    def query() -> torch.Tensor:
        return draw(width) * 3 * width**-0.5

    queries = dims["queries"]
    if case.pair.startswith("merge"):
        found = {
            "x": draw(tokens, width + 16).to(dtype)[:, :width],
            "mixed": draw(tokens, queries * width).to(dtype),
            "lse": draw(tokens, queries),
            "query": query(),
            "y": empty(tokens, width),
        }
        if dims["adds"]:
            found |= {
                "residual": draw(tokens, width).to(dtype),
                "residual_out": empty(tokens, width),
            }
        if dims["norms"]:
            found["norm_weight"] = draw(width).to(dtype)
        return {**found, **case.attrs}
    sources = [
        (draw(tokens, width + 16) * 3.0**number).to(dtype)[:, :width]
        for number in range(dims["sources"])
    ]
    if case.pair == "blocks":
        return {
            "x": sources,
            "query": [query() for _ in range(queries)],
            "mixed": empty(tokens, queries * width),
            "lse": empty(tokens, queries, of=torch.float32),
            **case.attrs,
        }
    return {"x": sources, "query": query(), "y": empty(tokens, width), **case.attrs}


def work(case: Case) -> Work:
    """Every source in, one row out; of phase 1 one for every query; of phase 2 both terms and what
    phase 1 mixed in, the sum and the result out."""
    dims = case.dims
    elements = dims["tokens"] * dims["width"]
    size = DTYPES[case.dtype].itemsize
    rows, flops = dims["sources"] + 1, 6 * dims["sources"]
    if case.pair == "blocks":
        rows, flops = dims["sources"] + dims["queries"], 4 * dims["sources"] * (1 + dims["queries"])
    if case.pair.startswith("merge"):
        rows, flops = 3 + 2 * dims["adds"], 14
    return Work(bytes=rows * elements * size, flops=flops * elements)
