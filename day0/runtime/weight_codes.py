"""A weight held as FP8 codes and scales: those that are stored, or its values quantised.

Stored codes survive an expression whose cuts and merges lie on the borders of blocks
(passes/quantize.py says which ones do): the same cut of the scales, in blocks, goes with them.
"""

from collections.abc import Callable

import torch

from day0.ir.weight import Cat, Expr, Leaf, Mul, Permute, Pick, Reshape, Stack, Tied
from day0.runtime.codes import Coding, Pair
from day0.runtime.dequant import Parts, e8m0
from day0_kernels.quant.reference import FP8

# (expression, number in the Stack above it) -> its value; (leaf, number) -> its stored parts
Value = Callable[[Expr, int | None], torch.Tensor]
Stored = Callable[[Leaf, int | None], Parts]


def quantised(expr: Expr, form: Coding, value: Value, device: torch.device) -> Pair:
    """The value's (codes, scales) on `device`, made one matrix after another: of a stack of
    experts only one is ever wide."""

    def matrix(wide: torch.Tensor) -> Pair:
        return form.stored(wide.to(device))

    if isinstance(expr, Stack):
        return _stacked([matrix(value(expr.of, number)) for number in expr.numbers])
    wide = value(expr, None)
    return matrix(wide) if wide.dim() < 3 else _stacked([matrix(one) for one in wide])


def kept(expr: Expr, form: Coding, borders: tuple[int, int], stored: Stored) -> Pair | None:
    """The (codes, fp32 scales) that the checkpoint holds; None where a tensor is no E4M3, or is
    stored with more than its scales. `borders`: rows and columns of a block."""

    def below(inner: Expr, number: int | None = None) -> Pair | None:
        match inner:
            case Leaf():
                return _leaf(inner, form, stored(inner, number))
            case Stack():
                return _all([below(inner.of, n) for n in inner.numbers], _stacked)
            case Pick():
                found = below(inner.of, number)
                return None if found is None else _picked(*found, inner, borders)
            case Cat():
                return _all(
                    [below(part, number) for part in inner.of],
                    lambda pairs: _joined(pairs, lambda parts: torch.cat(parts, dim=inner.dim)),
                )
            case Permute():
                found = below(inner.of, number)
                return found and (found[0].permute(inner.order), found[1].permute(inner.order))
            case Reshape():
                found = below(inner.of, number)
                dims = form.scale_dims(inner.dims)
                return found and (found[0].reshape(inner.dims), found[1].reshape(dims))
            case Mul() | Tied():
                return None

    return below(expr)


def _leaf(leaf: Leaf, form: Coding, parts: Parts) -> Pair | None:
    if parts["data"].dtype != FP8 or "pre_scale" in parts:
        return None
    scale = parts["scale"]
    scale = e8m0(scale) if scale.element_size() == 1 else scale.float()
    return parts["data"], scale.reshape(form.scale_dims(leaf.dims))


def _picked(data: torch.Tensor, scale: torch.Tensor, expr: Pick, borders: tuple[int, int]) -> Pair:
    from_right = data.dim() - expr.dim
    border = borders[-from_right] if from_right <= 2 else 1
    last = -(-expr.stop // border)
    cut = (-(-expr.period // border), expr.start // border, last)
    return pick(data, expr.dim, expr.period, expr.start, expr.stop), pick(scale, expr.dim, *cut)


def pick(value: torch.Tensor, dim: int, period: int, start: int, stop: int) -> torch.Tensor:
    """Indices i of dim `dim` with start <= i % period < stop."""
    value = value.unflatten(dim, (value.shape[dim] // period, period))
    return value.narrow(dim + 1, start, stop - start).flatten(dim, dim + 1)


def _all(pairs: list[Pair | None], join: Callable[[list[Pair]], Pair]) -> Pair | None:
    found = [pair for pair in pairs if pair is not None]
    return join(found) if len(found) == len(pairs) else None


def _stacked(pairs: list[Pair]) -> Pair:
    return _joined(pairs, torch.stack)


def _joined(pairs: list[Pair], join: Callable[[list[torch.Tensor]], torch.Tensor]) -> Pair:
    data, scale = zip(*pairs, strict=True)
    return join(list(data)), join(list(scale))
