"""A share of a weight as an expression: the cut is pushed down to the stored tensors, so that a
rank's loader reads its own part and no more."""

from dataclasses import replace

from day0.errors import NotSupported
from day0.ir.weight import (
    Cat,
    Expr,
    Leaf,
    Mul,
    Permute,
    Pick,
    Reshape,
    Stack,
    Tied,
    Weight,
    dims_of,
)

Span = tuple[int, int]


def cut_weight(weight: Weight, dim: int, span: Span) -> Weight:
    """Indices `span` (first, end) of `dim`. NotSupported where the cut crosses a reshape."""
    dims = list(weight.spec.dims)
    if span == (0, dims[dim]):
        return weight
    source = _cut(weight.source, dim, span, weight.name)
    dims[dim] = span[1] - span[0]
    return replace(weight, spec=replace(weight.spec, dims=tuple(dims)), source=source, padding=())


def _cut(expr: Expr, dim: int, span: Span, name: str) -> Expr:
    start, stop = span
    if span == (0, dims_of(expr)[dim]):
        return expr
    match expr:
        case Leaf() | Pick():
            return Pick(of=expr, dim=dim, period=dims_of(expr)[dim], start=start, stop=stop)
        case Stack():
            if dim == 0:
                return replace(expr, first=expr.first + start, count=stop - start)
            return replace(expr, of=_cut(expr.of, dim - 1, span, name))
        case Cat():
            if dim != expr.dim:
                return replace(expr, of=tuple(_cut(part, dim, span, name) for part in expr.of))
            return _of_joined(expr, span, name)
        case Permute():
            return replace(expr, of=_cut(expr.of, expr.order[dim], span, name))
        case Reshape():
            return _of_reshaped(expr, dim, span, name)
        case Mul():
            left, right = (
                _broadcast(side, expr, dim, span, name) for side in (expr.left, expr.right)
            )
            return replace(expr, left=left, right=right)
        case Tied():
            raise AssertionError(f"a tied weight is its owner's: {expr.weight}")


def _of_joined(expr: Cat, span: Span, name: str) -> Expr:
    found, first = [], 0
    for part in expr.of:
        size = dims_of(part)[expr.dim]
        low, high = max(span[0] - first, 0), min(span[1] - first, size)
        if low < high:
            found.append(_cut(part, expr.dim, (low, high), name))
        first += size
    return found[0] if len(found) == 1 else replace(expr, of=tuple(found))


def _of_reshaped(expr: Reshape, dim: int, span: Span, name: str) -> Expr:
    """Only dims of one may come or go: any other cut would fall between the stored dims."""
    below = dims_of(expr.of)
    here = [size for size in expr.dims if size != 1]
    if [size for size in below if size != 1] != here or expr.dims[dim] == 1:
        raise NotSupported(
            f"weight {name} is stored as {list(below)} and read as {list(expr.dims)}; "
            f"dim {dim} cannot be cut there",
            hint="day0 run MODEL without --mesh",
        )
    place = sum(size != 1 for size in expr.dims[:dim])
    inner = [number for number, size in enumerate(below) if size != 1][place]
    dims = (*expr.dims[:dim], span[1] - span[0], *expr.dims[dim + 1 :])
    return replace(expr, of=_cut(expr.of, inner, span, name), dims=dims)


def _broadcast(side: Expr, expr: Mul, dim: int, span: Span, name: str) -> Expr:
    """A factor of a product: dims are counted from the right, and one of 1 stands for all."""
    dims = dims_of(side)
    own = dim - (len(dims_of(expr)) - len(dims))
    return side if own < 0 or dims[own] == 1 else _cut(side, own, span, name)
