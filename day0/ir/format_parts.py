"""What a storage format is made of: parts, formats, and the shapes that parts have.

Dims are logical dims of a weight, [..., N, K] with K the reduced one; leading dims (a stack of
experts) pass through to every part. Block counts round up: the last block may be ragged.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

Dims = tuple[int, ...]
Shapes = Callable[[Dims], tuple[Dims, ...]]

# Plain formats: safetensors dtype (huggingface/safetensors, README "Format"), bits of an element.
# F8 without a scale is a format of its own: the codes are the values.
PLAIN = {
    "fp64": ("F64", 64), "fp32": ("F32", 32), "bf16": ("BF16", 16), "fp16": ("F16", 16),
    "fp8_e4m3": ("F8_E4M3", 8), "fp8_e5m2": ("F8_E5M2", 8), "e8m0": ("F8_E8M0", 8),
    "fp8_e4m3fnuz": ("F8_E4M3FNUZ", 8), "fp8_e5m2fnuz": ("F8_E5M2FNUZ", 8),
    "fp6_e2m3": ("F6_E2M3", 6), "fp6_e3m2": ("F6_E3M2", 6), "fp4_e2m1": ("F4", 4),
    "int64": ("I64", 64), "int32": ("I32", 32), "int16": ("I16", 16), "int8": ("I8", 8),
    "uint64": ("U64", 64), "uint32": ("U32", 32), "uint16": ("U16", 16), "uint8": ("U8", 8),
    "bool": ("BOOL", 8), "complex64": ("C64", 64),
}  # fmt: skip
_BITS = dict(PLAIN.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stored tensor of a weight.

    `dtypes`: safetensors dtypes it may have, the usual one first. `shapes`: logical dims -> stored
    shapes it may have, the usual one first; none at all means that any shape is right.
    `optional`: a weight is whole without it.
    """

    name: str
    dtypes: tuple[str, ...]
    shapes: Shapes
    optional: bool = False

    def shape(self, dims: Dims) -> Dims:
        """The usual stored shape for logical `dims`; () where any shape is right."""
        return next(iter(self.shapes(dims)), ())

    def fits(self, dims: Dims, shape: Dims) -> bool:
        """Whether `shape` is a stored shape of this part for logical `dims`."""
        allowed = self.shapes(dims)
        return not allowed or shape in allowed

    def bytes(self, dims: Dims) -> int:
        """Bytes at the usual dtype and shape."""
        return -(-math.prod(self.shape(dims)) * _BITS[self.dtypes[0]] // 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a weight, a value or a cache entry is stored.

    `bits`: of one logical element, scales not counted. `granularity`: what one scale covers, in
    words. `cuts`: the multiples at which K and N (in this order) may be cut.
    `unpack`: stored shape of "data" -> logical dims, None where the shape does not tell.
    """

    name: str
    bits: int
    parts: tuple[Part, ...]
    granularity: str = "none"
    cuts: tuple[int, int] = (1, 1)
    unpack: Callable[[Dims], Dims | None] = lambda shape: shape

    @property
    def quantised(self) -> bool:
        """Whether the stored codes mean nothing without a companion."""
        return len(self.required) > 1

    @property
    def required(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if not part.optional)

    def part(self, name: str) -> Part:
        """The part called `name`; ValueError when the format has none."""
        for part in self.parts:
            if part.name == name:
                return part
        known = ", ".join(part.name for part in self.parts)
        raise ValueError(f"format {self.name} has no part {name!r}; it has: {known}")

    def bytes(self, dims: Dims) -> int:
        """Bytes of all required parts at their usual dtypes."""
        return sum(part.bytes(dims) for part in self.required)

    def borders(self, dim: int, rank: int = 2) -> int:
        """The multiple at which `dim` of `rank` dims may be cut without touching a block."""
        from_right = -dim if dim < 0 else rank - dim
        return self.cuts[from_right - 1] if from_right <= 2 else 1


def same(dims: Dims) -> tuple[Dims, ...]:
    return (dims,)


def any_shape(dims: Dims) -> tuple[Dims, ...]:
    return ()


def scalar(dims: Dims) -> tuple[Dims, ...]:
    """One number for a matrix. In a stack one for each expert, for each half of a fused gate and up
    projection (transformers, integrations/finegrained_fp8.py), or one for all."""
    lead = dims[:-2]
    if not lead:
        return (), (1,), (1, 1)
    return (*lead, 1, 1), lead, (*lead, 1), (*lead, 2, 1), (*lead, 2), (), (1,)


def channel(dims: Dims) -> tuple[Dims, ...]:
    """One number for an output row; the stored form may lack the last dim. A stack stored as
    [E, in, out] (llama4) has its channels last."""
    rows = (*dims[:-1], 1)
    return (rows, dims[:-1]) if len(dims) < 3 else (rows, dims[:-1], (*dims[:-2], 1, dims[-1]))


def blocks(rows: int, columns: int) -> Shapes:
    def shapes(dims: Dims) -> tuple[Dims, ...]:
        if len(dims) < 2:
            return (tuple(-(-dim // columns) for dim in dims),)
        last = -(-dims[-1] // columns)
        first = -(-dims[-2] // rows)
        # The second form is ModelOpt's FP8_PB_WO (vLLM, layers/quantization/modelopt.py).
        return (*dims[:-2], first, last), (*dims[:-2], first, 1, last, 1)

    return shapes


def groups(size: int) -> Shapes:
    return lambda dims: ((*dims[:-1], *(-(-dim // size) for dim in dims[-1:])),)


def pairs(dims: Dims) -> tuple[Dims, ...]:
    return groups(2)(dims)


def pairs_or_blocks(dims: Dims) -> tuple[Dims, ...]:
    """[N, K/2], or gpt_oss's [N, K/32, 16]: the same bytes in the same order."""
    return (*pairs(dims), *((*shape, 16) for shape in groups(32)(dims)))


def input_channels(dims: Dims) -> tuple[Dims, ...]:
    return (dims[-1:],)


def twice(shape: Dims) -> Dims | None:
    return (*shape[:-1], 2 * shape[-1]) if shape else None


def matrices(shape: Callable[[int, int], Dims]) -> Shapes:
    """Shapes of a part from N and K alone; a vector counts as one row."""

    def shapes(dims: Dims) -> tuple[Dims, ...]:
        rows, inputs = ((1, 1) + dims)[-2:]
        return ((*dims[:-2], *shape(rows, inputs)),)

    return shapes


def unpacked(dims: Callable[[int, int], Dims]) -> Callable[[Dims], Dims | None]:
    """Logical dims from the last two of a stored shape."""
    return lambda shape: (*shape[:-2], *dims(*shape[-2:])) if len(shape) > 1 else None
