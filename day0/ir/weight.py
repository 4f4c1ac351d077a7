"""A weight as an expression over checkpoint tensors: one expression, read five ways.

The proof compares its leaves with the headers, `quantize` wraps it, `shard` slices it, `layout`
concatenates it, the loader evaluates it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from day0.ir.tensor import TensorSpec

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One checkpoint tensor with its logical dims.

    `name` may hold "{e}", which a Stack fills in. `format` is a name of ir.format; `parts` maps
    the format's parts to stored tensor names ("data", "scale", ...): dequantising is reading the
    leaf.
    """

    name: str
    dims: Dims
    format: str = "bf16"
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """`count` equal tensors (or one Pick of each) under a new first dim; "{e}" in their names is
    `first`, `first` + 1, ..."""

    of: "Leaf | Pick"
    count: int
    first: int = 0

    @property
    def numbers(self) -> range:
        """What "{e}" stands for, in order."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Indices i of dim `dim` with start <= i % period < stop, in order.

    Stands directly on a Leaf or another Pick, so that coverage of the stored tensor can be
    counted. Per-head rows of a fused projection are a Pick with the head's rows as period; a plain
    slice has the whole dim as period.
    """

    of: "Leaf | Pick"
    dim: int
    period: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cat:
    """Concatenation along `dim`."""

    of: tuple["Expr", ...]
    dim: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Permute:
    """Dims reordered, as torch.permute."""

    of: "Expr"
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape:
    """The same elements under other dims."""

    of: "Expr"
    dims: Dims


@dataclass(frozen=True, slots=True, kw_only=True)
class Mul:
    """Elementwise product with broadcasting."""

    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """The very weight called `weight`: its bytes count once."""

    weight: str
    dims: Dims


Expr = Leaf | Stack | Pick | Cat | Permute | Reshape | Mul | Tied


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A named weight.

    `role`: experts, shared_expert, dense, attention_proj, index_q, index_k, router, norm, state,
    conv, embedding, head, residual, lookup. `home`: "device" or "host" (lookup tables).
    `padding`: stored elements that belong to this weight and carry nothing.
    """

    name: str
    spec: TensorSpec
    role: str
    source: Expr
    home: str = "device"
    padding: tuple[Expr, ...] = ()


def dims_of(expr: Expr) -> Dims:
    """Logical dims of an expression; ValueError when its parts do not fit together."""
    if isinstance(expr, Leaf | Tied | Reshape):
        return expr.dims
    if isinstance(expr, Stack):
        return (expr.count, *dims_of(expr.of))
    if isinstance(expr, Pick):
        dims = list(dims_of(expr.of))
        if dims[expr.dim] % expr.period:
            raise ValueError(f"dim {expr.dim} of {dims} is no multiple of period {expr.period}")
        dims[expr.dim] = dims[expr.dim] // expr.period * (expr.stop - expr.start)
        return tuple(dims)
    if isinstance(expr, Permute):
        dims = dims_of(expr.of)
        return tuple(dims[axis] for axis in expr.order)
    if isinstance(expr, Mul):
        left, right = dims_of(expr.left), dims_of(expr.right)
        return left if len(left) >= len(right) else right
    dims = list(dims_of(expr.of[0]))
    dims[expr.dim] = sum(dims_of(part)[expr.dim] for part in expr.of)
    return tuple(dims)


def leaves(expr: Expr) -> Iterator[tuple[Leaf, int]]:
    """(leaf, count) below an expression: count > 0 is the length of the Stack over it, else 0."""
    if isinstance(expr, Leaf):
        yield expr, 0
    elif isinstance(expr, Stack):
        for leaf, _ in leaves(expr.of):
            yield leaf, expr.count
    elif isinstance(expr, Pick | Permute | Reshape):
        yield from leaves(expr.of)
    elif isinstance(expr, Cat):
        for part in expr.of:
            yield from leaves(part)
    elif isinstance(expr, Mul):
        yield from leaves(expr.left)
        yield from leaves(expr.right)


def picks(expr: Expr) -> Iterator[tuple[Leaf, int, tuple[Pick, ...]]]:
    """(leaf, stack count, the Picks standing on it, innermost first)."""
    if isinstance(expr, Leaf):
        yield expr, 0, ()
    elif isinstance(expr, Stack):
        for leaf, _, below in picks(expr.of):
            yield leaf, expr.count, below
    elif isinstance(expr, Pick):
        for leaf, count, below in picks(expr.of):
            yield leaf, count, (*below, expr)
    elif isinstance(expr, Permute | Reshape):
        yield from picks(expr.of)
    elif isinstance(expr, Cat):
        for part in expr.of:
            yield from picks(part)
    elif isinstance(expr, Mul):
        yield from picks(expr.left)
        yield from picks(expr.right)
