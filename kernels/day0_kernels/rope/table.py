"""The speeds of a rotary table on a device, made once per table."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from day0_kernels.rope.reference import frequencies

NEVER = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`speeds` fp32 [2, dims/2], row 1 for positions >= `border`; `factor` on sine and cosine."""

    speeds: torch.Tensor
    factor: float
    border: int


@lru_cache(maxsize=64)
def table(
    *, dims: int, theta: float, scaling: str, scaling_args: tuple[tuple[str, Any], ...],
    device: torch.device,
) -> Table:  # fmt: skip
    """The table, computed in fp64. ValueError for "dynamic", whose speeds differ for every row.

    The first call copies to the device: make it before a graph is captured.
    """
    if scaling == "dynamic":
        raise ValueError("scaling must not be dynamic: its table differs for every position")
    border = NEVER
    if scaling == "longrope":
        border = int(dict(scaling_args)["original_max_position_embeddings"])
    speeds, factor = frequencies(
        torch.tensor([0, border]), torch.float64,
        dims=dims, theta=theta, scaling=scaling, scaling_args=scaling_args,
    )  # fmt: skip
    both = speeds.expand(2, -1).to(torch.float32).contiguous()
    return Table(speeds=both.to(device), factor=factor, border=border)
