"""Values -> codes and scales of the FP8 formats, and back: what caches and weights hold.

Sources: OCP MX v1.0 for E8M0 scales with the exponent ceil(log2(amax / 448)), taken from the bits;
DeepSeek-V3 (arXiv 2412.19437, section 3.3) for 128 x 128 blocks of weights and 1 x 128 tiles of
activations. Other scales are amax / 448, the last tile of a dim may be ragged, E4M3 is clamped.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import torch
import torch.nn.functional as F

from day0.ir import format as formats
from day0.runtime.dequant import e8m0
from day0_kernels.common.plain import widened
from day0_kernels.quant.reference import (
    FP8,
    FP8_MAX,
    MIN_AMAX,
    MX_GROUP,
    exponent,
    grouped,
    rounded,
)

Pair = tuple[torch.Tensor, torch.Tensor]
_BLOCK = re.compile(r"fp8_b(\d+)(?:x(\d+))?")
_TILE = re.compile(r"fp8_t(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """A format that values are written in. `encode`: x [..., K] (blocks: [..., N, K]) -> (data, in
    a wide dtype, and scale); `decode`: data and scale -> values in the wide dtype of the data (fp32
    for FP8 codes). `scale_dtype`: of the stored scales."""

    name: str
    encode: Callable[[torch.Tensor], Pair]
    decode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    scale_dtype: torch.dtype = torch.float32

    def stored(self, x: torch.Tensor) -> Pair:
        """(E4M3 codes, scales) of x as they lie in memory."""
        data, scale = self.encode(x)
        return data.to(FP8), scale.to(self.scale_dtype)

    def values(self, x: torch.Tensor) -> torch.Tensor:
        """What x becomes by being written and read."""
        return self.decode(*self.encode(x))

    def scale_dims(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """Of the scales beside data [dims]."""
        return formats.get(self.name).part("scale").shape(dims)


@cache
def coding(format_name: str) -> Coding | None:
    """How the format is written; None for one that is never written (plain ones, and those that
    checkpoints alone hold)."""
    if match := _BLOCK.fullmatch(format_name):
        rows, columns = int(match[1]), int(match[2] or match[1])
    elif match := _TILE.fullmatch(format_name):
        size = int(match[1])
        return Coding(
            name=format_name,
            encode=partial(_tiles, size=size),
            decode=partial(_of_tiles, size=size),
        )
    elif format_name == "mxfp8":
        return Coding(name=format_name, encode=_mx, decode=_of_mx, scale_dtype=torch.uint8)
    elif format_name in ("fp8_channel", "fp8_tensor"):
        rows, columns = 1 if format_name == "fp8_channel" else 0, 0
    else:
        return None
    return Coding(
        name=format_name,
        encode=partial(_blocks, rows=rows, columns=columns),
        decode=partial(_of_blocks, rows=rows, columns=columns),
    )


def _tiles(x: torch.Tensor, size: int) -> Pair:
    """One scale for every `size` elements of the last dim."""
    groups, amax = grouped(x, size)
    data, scale = _scaled(groups, amax[..., None])
    return data.flatten(-2)[..., : x.shape[-1]], scale[..., 0]


def _of_tiles(data: torch.Tensor, scale: torch.Tensor, size: int) -> torch.Tensor:
    spread = scale.repeat_interleave(size, -1)[..., : data.shape[-1]]
    return widened(data) * spread


def _mx(x: torch.Tensor) -> Pair:
    """One E8M0 byte for every 32 elements of the last dim; nothing saturates."""
    groups, amax = grouped(x, MX_GROUP)
    byte = exponent(amax, "rceil")
    data = rounded(groups * torch.exp2(127 - byte.to(groups.dtype))[..., None])
    return data.flatten(-2)[..., : x.shape[-1]], byte.to(torch.uint8)


def _of_mx(data: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return _of_tiles(data, e8m0(scale), MX_GROUP)


def _blocks(x: torch.Tensor, rows: int, columns: int) -> Pair:
    """One scale for every block of `rows` x `columns` of the last two dims; 0: all there are."""
    height, width = x.shape[-2:]
    rows, columns = rows or height, columns or width
    padded = F.pad(widened(x), (0, -width % columns, 0, -height % rows))
    split = padded.unflatten(-1, (-1, columns)).unflatten(-3, (-1, rows))  # [.., n, rows, k, cols]
    data, scale = _scaled(split, split.abs().amax((-3, -1), keepdim=True))
    return data.flatten(-2).flatten(-3, -2)[..., :height, :width], scale[..., 0, :, 0]


def _of_blocks(data: torch.Tensor, scale: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    height, width = data.shape[-2:]
    spread = scale.repeat_interleave(rows or height, -2)[..., :height, :]
    return widened(data) * spread.repeat_interleave(columns or width, -1)[..., :width]


def _scaled(x: torch.Tensor, amax: torch.Tensor) -> Pair:
    amax = amax.clamp_min(MIN_AMAX)
    return rounded(x * (FP8_MAX / amax)), amax / FP8_MAX
