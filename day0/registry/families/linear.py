"""y = x W^T + b, W [out, in]; with groups, W is block diagonal."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Impl, Shapes, number, reference
from day0.registry.ways import Cut, Way

PLAIN = ("fp32", "bf16", "fp16")


def _out(shapes: Shapes) -> dict[str, TensorSpec]:
    out, inner = shapes.weights["weight"].dims
    width = shapes.width("x")
    if width != inner * shapes.attrs["groups"]:
        raise ValueError(f"linear: x has {width} channels, the weight takes {inner}")
    return {"y": TensorSpec(dims=(shapes.rows("x"), out))}


def _small(shapes: Shapes) -> tuple[str, ...]:
    """Three products instead of one pay where the matrix is small: a router."""
    out = int(shapes.weights["weight"].dims[0])
    reasons = [] if out <= 1024 else [f"{out:,} outputs (takes up to 1,024)"]
    return tuple(reasons + (["a bias"] if "bias" in shapes.weights else []))


def _ways(shapes: Shapes) -> tuple[Way, ...]:
    """A block-diagonal product is cut between its blocks; any other along its outputs or inputs."""
    out, inner = map(int, shapes.weights["weight"].dims)
    own = tuple((slot, 0) for slot in shapes.weights)
    groups = shapes.attrs["groups"]
    if groups > 1:
        cut = Cut(units=groups, what="blocks", inputs=("x",), weights=own, counts=("groups",))
        return (Way(name="blocks", cuts=(cut,), yields="split"),)
    columns = Cut(units=out, what="outputs", weights=own)
    rows = Cut(units=inner, what="inputs", inputs=("x",), weights=(("weight", 1),))
    return (
        Way(name="columns", cuts=(columns,), yields="split"),
        Way(name="rows", cuts=(rows,), yields="partial"),
    )


def _pieces(shapes: Shapes) -> tuple[str, ...]:
    """Rows of both operands are read in pieces of 16 bytes."""
    inner = int(shapes.weights["weight"].dims[1])
    return (f"{inner} inputs (takes multiples of 16)",) if inner % 16 else ()


def narrow(**attrs: tuple[int, ...]) -> Impl:
    """The product of FP8 blocks, which quantises rows that are not FP8 yet."""
    return Impl(
        backend="triton",
        entry="day0_kernels.fp8_gemm.linear:linear",
        formats={"weight": ("fp8_b128",)},
        attrs=attrs,
        limits=_pieces,
        min_capability=(9, 0),
        parity="fp8_gemm/linear-bf16",
    )


FAMILY = Family(
    name="linear",
    rowwise=True,
    what="matrix product with a weight [out, in]; groups > 1: block diagonal",
    # x_scale: x is FP8, with a scale for 128 channels of a row
    inputs=("x", "x_scale?"),
    weights=("weight", "bias?"),
    outputs=("y",),
    attrs={"groups": number(1)},
    infer=_out,
    flops=lambda s, c: 2.0 * s.size("weight"),
    ways=_ways,
    impls=(
        reference("day0_kernels.basic.reference:linear"),
        Impl(
            backend="triton",
            entry="day0_kernels.basic.precise:linear",
            formats={"weight": ("fp32",)},
            attrs={"groups": (1,)},
            limits=_small,
            min_capability=(9, 0),
            parity="basic/precise-bf16",
        ),
        Impl(
            backend="library",
            entry="day0_kernels.basic.library:linear",
            formats={"weight": PLAIN},
            attrs={"groups": (1,)},
        ),
        narrow(groups=(1,)),
    ),
)
