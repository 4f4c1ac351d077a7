"""Cases of the hyper-connections: every variant read, both kinds written."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work

TOLERANCE = {
    # post and mix are fp32, and the matrix unit truncates where it adds: 2.8e-7 measured
    "bf16": Tolerance(floor=5e-7),
    "fp32": Tolerance(floor=3e-6),
}
_AT = "day0_kernels.hyper_connection"
PAIRS = (
    *(
        Pair(name=name, reference=f"{_AT}.reference:hyper_connection",
             kernel=f"{_AT}.read:hyper_connection", outputs=outputs)
        for name, outputs in (("sinkhorn", ("y", "post", "mix")), ("identity", ("y", "post")),
                              ("head", ("y",)))
    ),
    Pair(name="write", reference=f"{_AT}.reference:hyper_write",
         kernel=f"{_AT}.write:hyper_write", outputs=("y",)),
)  # fmt: skip


def _case(name: str, pair: str, tokens: int, width: int, streams: int = 4, tags: str = "",
          dtype: str = "bf16", mix: bool = True) -> Case:  # fmt: skip
    attrs: dict[str, Any] = {"num_streams": streams}
    if pair != "write":
        attrs |= {"variant": pair, "eps": 1e-6, "norm_eps": 1e-6, "magnitude": 2.0,
                  "iterations": 20 if pair == "sinkhorn" else 0}  # fmt: skip
    return Case(
        name=name, pair=pair, dtype=dtype, tags=tuple(tags.split()), attrs=attrs,
        dims={"tokens": tokens, "width": width, "mix": mix},
    )  # fmt: skip


CASES = (
    _case("sinkhorn", "sinkhorn", 5, 72, 4, "interpret", "fp32"),
    _case("sinkhorn-3", "sinkhorn", 18, 200, 3, "interpret", "fp32"),
    _case("identity", "identity", 7, 40, 4, "interpret", "fp32"),
    _case("head", "head", 3, 300, 2, "interpret", "fp32"),
    _case("write", "write", 5, 72, 4, "interpret", "fp32"),
    _case("write-plain", "write", 5, 1100, 3, "interpret", "fp32", mix=False),
    _case("sinkhorn-bf16", "sinkhorn", 50, 4096),
    _case("sinkhorn-bf16-many", "sinkhorn", 700, 2048),
    _case("identity-bf16", "identity", 200, 1536),
    _case("head-bf16", "head", 200, 1536),
    _case("write-bf16", "write", 200, 4096),
    *(
        _case(f"{short}-T{tokens}", pair, tokens, 4096, 4,
              "bench big" + " graph" * (tokens < 1000))
        for short, pair in (("pre", "sinkhorn"), ("post", "write"))
        for tokens in (1, 128, 8192)
    ),
)  # fmt: skip
_ROWS = {"sinkhorn": lambda m: 2 * m + m * m, "identity": lambda m: 2 * m, "head": lambda m: m}


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry; fn, base and scale in fp32 as checkpoints have them."""
    dims, dtype, m = case.dims, DTYPES[case.dtype], case.attrs["num_streams"]
    tokens, hidden = dims["tokens"], dims["width"]

    def draw(*shape: int, factor: float = 1.0) -> torch.Tensor:
        values = torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
        return values * factor

    def empty(columns: int, kind: torch.dtype) -> torch.Tensor:
        return torch.full((tokens, columns), float("nan"), device=device, dtype=kind)

    x = draw(tokens, m * hidden + 16).to(dtype)[:, : m * hidden]
    if case.pair == "write":
        return {
            "x": x,
            "update": draw(tokens, hidden).to(dtype),
            "post": draw(tokens, m).abs(),
            "y": empty(m * hidden, dtype),
            "mix": draw(tokens, m * m).softmax(-1) if dims["mix"] else None,
            **case.attrs,
        }
    rows = _ROWS[case.pair](m)
    return {
        "x": x,
        "fn": draw(rows, m * hidden, factor=(m * hidden) ** -0.5),
        "base": draw(rows),
        "scale": draw(3).abs() + 0.5,
        "y": empty(hidden, dtype),
        "post": None if case.pair == "head" else empty(m, torch.float32),
        "mix": empty(m * m, torch.float32) if case.pair == "sinkhorn" else None,
        **case.attrs,
    }


def work(case: Case) -> Work:
    """Reading: streams in, one row out, fn once. Writing: streams in and out, the update in."""
    dims, m = case.dims, case.attrs["num_streams"]
    size = DTYPES[case.dtype].itemsize
    elements = dims["tokens"] * dims["width"]
    if case.pair == "write":
        return Work(bytes=(2 * m + 1) * elements * size, flops=2 * (m + 1) * m * elements)
    rows = _ROWS[case.pair](m)
    moved = (m + 1) * elements * size + rows * m * dims["width"] * 4
    return Work(bytes=moved, flops=2 * rows * m * elements, unit="bf16")
