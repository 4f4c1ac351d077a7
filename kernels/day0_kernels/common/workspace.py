"""Scratch tensors cut out of one buffer that the caller owns."""

import math
from collections.abc import Mapping

import torch

ALIGNMENT = 256  # bytes; tensor descriptors want 16, full cache lines are 128

Shapes = Mapping[str, tuple[tuple[int, ...], torch.dtype]]


def size_of(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Bytes of one scratch tensor, rounded up."""
    return -(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT


def total_bytes(shapes: Shapes) -> int:
    """Bytes of a workspace that holds all `shapes`."""
    return sum(size_of(*entry) for entry in shapes.values())


def cut(
    shapes: Shapes, workspace: torch.Tensor | None, device: torch.device
) -> dict[str, torch.Tensor]:
    """The tensors of `shapes` inside `workspace` (uint8), or inside a fresh one."""
    needed = total_bytes(shapes)
    if workspace is None:
        workspace = torch.empty(needed, dtype=torch.uint8, device=device)
    if workspace.dtype != torch.uint8 or workspace.numel() < needed:
        have = f"{workspace.numel()} of {workspace.dtype}"
        raise ValueError(f"workspace must be uint8 with at least {needed} elements, got {have}")
    views, offset = {}, 0
    for name, (shape, dtype) in shapes.items():
        count = math.prod(shape) * dtype.itemsize
        views[name] = workspace[offset : offset + count].view(dtype).view(shape)
        offset += size_of(shape, dtype)
    return views
