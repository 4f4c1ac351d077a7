"""Cases of the glue ops."""

from typing import Any

import torch

from day0_kernels.case import DTYPES, Case, Pair, Tolerance, Work
from day0_kernels.quant.reference import FP8, TILE

TOLERANCE = {
    "bf16": Tolerance(),
    "fp16": Tolerance(floor=1e-6),
    "fp32": Tolerance(floor=1e-6),
    # An element between two FP8 values to within fp32 rounding may go either way, see quant/cases.
    "fp8": Tolerance(factor=2.0, peak=6.0, floor=1.2e-2),
}

_AT = "day0_kernels.basic"
TRITON = ("glu", "gate", "activation", "softcap")
LIBRARY = ("linear", "add", "concat", "embedding", "layernorm")
PAIRS = tuple(
    Pair(name=name, reference=f"{_AT}.reference:{name}", kernel=f"{_AT}.{file}:{name}",
         outputs=("y",))
    for file, names in (("elementwise", TRITON), ("library", LIBRARY))
    for name in names
) + (
    Pair(name="precise", reference=f"{_AT}.reference:linear", kernel=f"{_AT}.precise:linear",
         outputs=("y",)),
    Pair(name="glu_tile", reference=f"{_AT}.reference:glu_tile",
         kernel=f"{_AT}.quantised:glu_tile", outputs=("q", "q_scale")),
)  # fmt: skip
_MATHS = {"limit": None, "alpha": None, "beta": None, "linear_beta": None}


def _case(name: str, pair: str, rows: int, width: int, tags: str = "", dtype: str = "bf16",
          out: int = 0, gates: int = 0, **attrs: Any) -> Case:  # fmt: skip
    return Case(
        name=name, pair=pair, dtype=dtype, tags=tuple(tags.split()), attrs=attrs,
        dims={"rows": rows, "width": width, "out": out, "gates": gates},
    )  # fmt: skip


CASES = (
    _case("glu-silu", "glu", 5, 130, "interpret", "fp32", function="silu", **_MATHS),
    _case("glu-limit", "glu", 3, 1100, "interpret", "fp32", function="silu",
          **{**_MATHS, "limit": 0.7}),
    _case("glu-swigluoai", "glu", 2, 64, "interpret", "fp32", function="swigluoai",
          **{**_MATHS, "limit": 1.5, "alpha": 1.702}),
    _case("glu-situ", "glu", 2, 33, "interpret", "fp32", function="situ",
          **{**_MATHS, "beta": 1.2, "linear_beta": 2.5}),
    _case("glu-bf16", "glu", 40, 2112, function="silu", **_MATHS),
    _case("glu-T8192", "glu", 8192, 4096, "bench big", function="silu", **_MATHS),
    _case("tile-silu", "glu_tile", 5, 272, "interpret", "fp8", function="silu", **_MATHS),
    _case("tile-many", "glu_tile", 2, 1200, "interpret", "fp8", function="swigluoai",
          **{**_MATHS, "limit": 1.5, "alpha": 1.702}),
    _case("tile-bf16", "glu_tile", 300, 2112, "", "fp8", function="silu", **_MATHS),
    _case("tile-T32", "glu_tile", 32, 1024, "bench big graph", "fp8", function="silu", **_MATHS),
    _case("tile-T8192", "glu_tile", 8192, 4096, "bench big", "fp8", function="silu", **_MATHS),
    _case("gate-sigmoid", "gate", 5, 130, "interpret", "fp32", activation="sigmoid", num_heads=0),
    _case("gate-heads", "gate", 5, 96, "interpret", "fp32", gates=8, activation="softplus",
          num_heads=8),
    _case("gate-bf16", "gate", 64, 4096, gates=32, activation="sigmoid", num_heads=32),
    _case("gelu", "activation", 3, 70, "interpret", "fp32", function="gelu"),
    _case("relu2", "activation", 3, 70, "interpret", "fp32", function="relu2"),
    _case("silu-bf16", "activation", 64, 1500, function="silu"),
    _case("softcap", "softcap", 3, 2100, "interpret", "fp32", cap=1.5, scale=0.5),
    _case("scale", "softcap", 3, 40, "interpret", "fp32", cap=None, scale=0.5),
    _case("softcap-bf16", "softcap", 8, 150000, cap=30.0, scale=1.0),
    _case("linear", "linear", 7, 40, "interpret", "fp32", out=24, groups=1),
    _case("linear-groups", "linear", 7, 40, "interpret", "fp32", out=24, groups=4),
    _case("linear-bf16", "linear", 33, 2304, out=4096, groups=1),
    _case("precise", "precise", 20, 300, "interpret", "fp16", out=24, groups=1),
    _case("precise-one", "precise", 1, 1100, "interpret", "fp16", out=5, groups=1),
    _case("precise-rows", "precise", 140, 70, "interpret", "fp16", out=24, groups=1),
    _case("precise-bf16", "precise", 33, 2304, out=256, groups=1),
    _case("precise-bf16-many", "precise", 500, 2304, out=256, groups=1),
    _case("router-T1", "precise", 1, 2304, "bench big graph", out=256, groups=1),
    _case("router-T32", "precise", 32, 2304, "bench big graph", out=256, groups=1),
    _case("router-T8192", "precise", 8192, 2304, "bench big", out=256, groups=1),
    _case("add", "add", 5, 30, "interpret", "fp32", scale_a=1.0, scale_b=0.5),
    _case("add-bf16", "add", 64, 2304, scale_a=1.0, scale_b=1.0),
    _case("concat", "concat", 5, 30, "interpret", "fp32"),
    _case("concat-bf16", "concat", 50, 512),
    _case("embedding", "embedding", 5, 30, "interpret", "fp32", scale=1.5),
    _case("embedding-bf16", "embedding", 64, 2304, scale=1.0),
    _case("layernorm", "layernorm", 5, 30, "interpret", "fp32", eps=1e-5),
    _case("layernorm-bf16", "layernorm", 64, 128, eps=1e-5),
)  # fmt: skip
VOCAB = 97


def inputs(case: Case, device: str, generator: torch.Generator) -> dict[str, Any]:
    """Arguments of the entry of `case`; rows lie in wider ones, outputs are NaN."""
    dims, dtype = case.dims, DTYPES[case.dtype]
    if case.dtype == "fp8":  # of the outputs alone
        dtype = torch.float32 if "interpret" in case.tags else torch.bfloat16
    rows, width = dims["rows"], dims["width"]

    def draw(*shape: int) -> torch.Tensor:
        wider = (*shape[:-1], shape[-1] + (8 if len(shape) > 1 else 0))
        values = torch.randn(wider, generator=generator, device=device, dtype=torch.float32)
        return values.to(dtype)[..., : shape[-1]]

    def empty(columns: int = width) -> torch.Tensor:
        return torch.full((rows, columns), float("nan"), device=device, dtype=dtype)

    match case.pair:
        case "glu":
            given = {"gate": draw(rows, width), "up": draw(rows, width), "y": empty()}
        case "glu_tile":
            given = {
                "gate": draw(rows, width),
                "up": draw(rows, width),
                "q": empty().to(FP8),
                "q_scale": torch.full((rows, -(-width // TILE)), float("nan"), device=device),
            }
        case "gate":
            given = {"x": draw(rows, width), "gate": draw(rows, dims["gates"] or width),
                     "y": empty()}  # fmt: skip
        case "linear":
            inner = width // case.attrs["groups"]
            given = {"x": draw(rows, width), "weight": draw(dims["out"], inner) * inner**-0.5,
                     "bias": draw(dims["out"]), "y": empty(dims["out"])}  # fmt: skip
        case "precise":
            weight = torch.randn(
                dims["out"], width, generator=generator, device=device, dtype=torch.float32
            )
            given = {
                "x": draw(rows, width),
                "weight": weight * width**-0.5,
                "bias": None,
                "y": torch.full((rows, dims["out"]), float("nan"), device=device),
            }
        case "add":
            given = {"a": draw(rows, width), "b": draw(rows, width), "y": empty()}
        case "concat":
            given = {"x": [draw(rows, width), draw(rows, 12)], "y": empty(width + 12)}
        case "embedding":
            ids = torch.randint(VOCAB, (rows,), generator=generator, device=device)
            given = {"ids": ids, "table": draw(VOCAB, width), "y": empty()}
        case "layernorm":
            given = {"x": draw(rows, width), "weight": draw(width), "bias": draw(width),
                     "y": empty()}  # fmt: skip
        case _:
            given = {"x": draw(rows, width), "y": empty()}
    return given | dict(case.attrs)


def work(case: Case) -> Work:
    """Every tensor moved once."""
    rows, width, out = case.dims["rows"], case.dims["width"], case.dims["out"]
    size = DTYPES[case.dtype].itemsize
    if case.pair == "precise":
        moved = rows * width * size + (width + rows) * out * 4
        return Work(bytes=moved, flops=2 * rows * width * out, unit="bf16")
    if case.pair == "linear":
        inner = width // case.attrs["groups"]
        moved, flops = rows * (width + out) + out * inner, 2 * rows * out * inner
        return Work(bytes=moved * size, flops=flops, unit="bf16")
    if case.pair == "glu_tile":
        return Work(bytes=rows * (5 * width + 4 * -(-width // TILE)), flops=8 * rows * width)
    tensors = {"glu": 3, "gate": 3, "add": 3}.get(case.pair, 2)
    return Work(bytes=tensors * rows * width * size, flops=5 * rows * width)
