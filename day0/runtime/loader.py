"""Weight expressions -> tensors, shard by shard, from safetensors files or at random.

Every leaf is read once; what a leaf's file cannot give is a Day0Error with the tensor's name.
"""

import math
import zlib
from collections.abc import Callable, Iterable, Mapping

import torch

from day0.errors import Day0Error
from day0.ir import format as formats
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
)
from day0.runtime.codes import Coding, Pair
from day0.runtime.dequant import dequantise
from day0.runtime.emulate import Rounding
from day0.runtime.files import Files, own_part
from day0.runtime.weight_codes import kept, pick, quantised

# Behind a weight's name: the scales of one that is held as codes.
SCALE = "@scale"
DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16,
          "fp16": torch.float16, "int64": torch.int64, "int32": torch.int32}  # fmt: skip


class Dummy:
    """Random tensors of the stored shapes' kind, the same for the same seed, name and kind of
    device, on which they are made.

    Scales follow what trained weights have: matrices 1/sqrt(inputs), norms around 1, biases small,
    routers wide enough to spread tokens over experts.
    """

    def __init__(self, seed: int = 0, device: torch.device | None = None) -> None:
        self._seed = seed
        self._device = device or torch.device("cpu")

    def leaf(self, leaf: Leaf, role: str, index: int = 0) -> torch.Tensor:
        """Values [leaf.dims] in fp32. Whole numbers are places in other tensors, whose sizes no
        leaf knows: small ones, distinct in a row, that are right for all of them."""
        if leaf.format in ("int32", "int64"):
            row = torch.arange(leaf.dims[-1], dtype=DTYPES[leaf.format], device=self._device)
            return row.expand(leaf.dims).clone() if len(leaf.dims) > 1 else torch.ones_like(row)
        key = f"{self._seed}/{leaf.name}/{index}".encode()
        generator = torch.Generator(self._device).manual_seed(zlib.crc32(key))
        value = torch.randn(leaf.dims, generator=generator, device=self._device)
        if leaf.name.endswith("A_log"):
            return value.abs()
        if len(leaf.dims) == 1:
            # a selection bias must not outweigh the scores, whose best lie close together
            small = 0.01 if role == "router" else 0.1
            return 1 + 0.1 * value if role == "norm" else small * value
        if role == "embedding":
            return (
                value  # as large as the layers' outputs: tokens stay apart, and so do their experts
            )
        # of normed rows: logits with a spread of one, at which no score saturates into ties
        return value / math.sqrt(leaf.dims[-1])


def load(
    weights: Iterable[Weight],
    *,
    files: Files | None,
    dummy: Dummy | None = None,
    dtype_of: Callable[[Weight], torch.dtype],
    device: torch.device,
    rounding_of: Callable[[Weight], Rounding | None] = lambda weight: None,
    coding_of: Callable[[Weight], Coding | None] = lambda weight: None,
    is_kept: Callable[[Weight], bool] = lambda weight: False,
) -> dict[str, torch.Tensor]:
    """Every weight evaluated, rounded by `rounding_of` where its format is emulated, cast by
    `dtype_of` and placed on `device`. One with a `coding_of` is held as codes, with its scales
    beside it (name + SCALE): the stored ones where it `is_kept`. Day0Error for one that comes out
    in other dims than its op was built for."""
    loaded = {}
    for weight in weights:
        form = coding_of(weight)
        if form is None:
            value = _evaluate(weight.source, weight.role, files, dummy)
            loaded[weight.name] = _placed(value, dtype_of(weight), device, rounding_of(weight))
        else:
            codes, scale = _codes(weight, form, is_kept(weight), files, dummy, device)
            loaded[weight.name] = codes.contiguous().to(device)
            loaded[weight.name + SCALE] = scale.contiguous().to(device)
        dims = tuple(loaded[weight.name].shape)
        if dims != weight.spec.dims:
            raise Day0Error(
                f"weight {weight.name} comes out as {list(dims)}, the Graph needs "
                f"{list(weight.spec.dims)}",
                hint="day0 analyze MODEL shows the contradiction",
            )
    return loaded


def _codes(
    weight: Weight,
    form: Coding,
    keep: bool,
    files: Files | None,
    dummy: Dummy | None,
    device: torch.device,
) -> Pair:
    found = None
    if keep and files is not None:
        rows, columns = (formats.get(form.name).borders(dim) for dim in (-2, -1))
        found = kept(weight.source, form, (rows, columns), lambda leaf, n: _stored(leaf, files, n))
    if found is not None:
        return found

    def value(expr: Expr, number: int | None) -> torch.Tensor:
        return _evaluate(expr, weight.role, files, dummy, number)

    return quantised(weight.source, form, value, device)


def _placed(
    value: torch.Tensor, dtype: torch.dtype, device: torch.device, rounding: Rounding | None
) -> torch.Tensor:
    if value.is_floating_point():
        value = (value if rounding is None else rounding(value)).to(dtype)
    return value.contiguous().to(device)


def _evaluate(
    expr: Expr, role: str, files: Files | None, dummy: Dummy | None, index: int | None = None
) -> torch.Tensor:
    def below(inner: Expr, number: int | None = index) -> torch.Tensor:
        return _evaluate(inner, role, files, dummy, number)

    match expr:
        case Leaf():
            return _leaf(expr, role, files, dummy, index)
        case Stack():
            return torch.stack([below(expr.of, number) for number in expr.numbers])
        case Pick():
            cut = None if files is None else own_part(expr, files, _number(index))
            if cut is not None:
                return cut
            return pick(below(expr.of), expr.dim, expr.period, expr.start, expr.stop)
        case Cat():
            return torch.cat([below(part) for part in expr.of], dim=expr.dim)
        case Permute():
            return below(expr.of).permute(expr.order)
        case Reshape():
            return below(expr.of).reshape(expr.dims)
        case Mul():
            return below(expr.left).float() * below(expr.right).float()
        case Tied():
            raise AssertionError(f"a tied weight is its owner's: {expr.weight}")


def _leaf(
    leaf: Leaf, role: str, files: Files | None, dummy: Dummy | None, index: int | None
) -> torch.Tensor:
    if files is None:
        assert dummy is not None, "weights come from files or are made up"
        return dummy.leaf(leaf, role, index or 0)

    value = dequantise(leaf.format, _stored(leaf, files, index), leaf.dims)
    if tuple(value.shape) != leaf.dims:
        raise Day0Error(
            f"{_name(leaf.name, index)} is {list(value.shape)}, the Graph needs {list(leaf.dims)}",
            hint="day0 analyze MODEL shows the contradiction",
        )
    return value


def _stored(leaf: Leaf, files: Files, index: int | None) -> dict[str, torch.Tensor]:
    """The leaf's stored tensors by part."""
    parts: Mapping[str, str] = dict(leaf.parts) or {"data": leaf.name}
    return {part: files.read(_name(tensor, index)) for part, tensor in parts.items()}


def _name(text: str, index: int | None) -> str:
    return _number(index)(text)


def _number(index: int | None) -> Callable[[str], str]:
    """Fills in which tensor of a stack a name is about."""
    return lambda text: text if index is None else text.replace("{e}", str(index))
