"""Prefill of lightning attention: a scan over chunks, in segments where heads are few."""

import torch

from day0_kernels.common.arguments import check_power_of_two, check_shape
from day0_kernels.common.workspace import Shapes, cut, total_bytes
from day0_kernels.lightning.launch import PrefillLaunch, prefill_launch
from day0_kernels.lightning.scan import boundary_kernel, scan_kernel
from day0_kernels.lightning.slope import LARGEST_SCALE


def scratch(launch: PrefillLaunch, num_sequences: int, num_heads: int, head_dim: int) -> Shapes:
    """The states at the borders of segments; nothing where sequences are whole."""
    parts = launch.segments if launch.segments > 1 else 0
    return {"boundary": ((num_sequences, parts, num_heads, head_dim, head_dim), torch.float32)}


def workspace_bytes(
    *, num_tokens: int, num_sequences: int, num_heads: int, head_dim: int, exact: bool = False
) -> int:
    """Bytes of `workspace` that `lightning_prefill` needs for these sizes."""
    launch = prefill_launch(
        num_tokens=num_tokens, num_sequences=num_sequences, num_heads=num_heads,
        head_dim=head_dim, exact=exact,
    )  # fmt: skip
    return total_bytes(scratch(launch, num_sequences, num_heads, head_dim))


def lightning_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    slope_scale: float,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write `y` [T, n*d] and update `state` [slots, n, d, d] in place; see reference.py.

    Grids depend on T and N only. `workspace` (uint8, `workspace_bytes`) holds the scratch; without
    it scratch is allocated. Raises ValueError for a wrong shape, dtype or head dim.
    """
    check(q, k, v, state, y, num_heads, head_dim)
    if not 0.0 < slope_scale <= LARGEST_SCALE:
        raise ValueError(
            f"slope_scale must be above 0 and at most {LARGEST_SCALE}, got {slope_scale}"
        )
    launch = prefill_launch(
        num_tokens=q.shape[0], num_sequences=slot.shape[0], num_heads=num_heads,
        head_dim=head_dim, exact=q.dtype == torch.float32,
    )  # fmt: skip
    run(
        q, k, v, state, y, cu_seqlens, slot, start, num_heads=num_heads, head_dim=head_dim,
        slope_scale=slope_scale, workspace=workspace, launch=launch,
    )  # fmt: skip


def check(q, k, v, state, y, num_heads: int, head_dim: int) -> None:
    """Raise ValueError for what the kernels cannot take."""
    check_power_of_two("head_dim", head_dim, 16, 128)
    if q.dtype not in (torch.bfloat16, torch.float32):
        # products of unnormalised keys and queries leave fp16's range
        raise ValueError(f"q, k, v must be bfloat16 or float32, got {q.dtype}")
    for name, tensor in (("q", q), ("k", k), ("v", v), ("y", y)):
        check_shape(name, tensor, "T, n*d", (q.shape[0], num_heads * head_dim))
    check_shape("state", state[0], "n, d, d", (num_heads, head_dim, head_dim))
    if not state[0, 0].is_contiguous():
        raise ValueError("state must be contiguous in its last two dims [d, d]")


def run(
    q, k, v, state, y, cu_seqlens, slot, start, *, num_heads: int, head_dim: int,
    slope_scale: float, workspace: torch.Tensor | None, launch: PrefillLaunch,
) -> None:  # fmt: skip
    """`lightning_prefill` with a given launch; also what the tests and the sweep call."""
    sequences = slot.shape[0]
    if q.shape[0] == 0 or sequences == 0:
        return
    shapes = scratch(launch, sequences, num_heads, head_dim)
    boundary = cut(shapes, workspace, q.device)["boundary"]
    grid = (head_dim // launch.block_v, num_heads, sequences * launch.segments)
    form = {
        "H": num_heads, "D": head_dim, "BT": launch.chunk, "BV": launch.block_v,
        "S": launch.segments, "EXACT": q.dtype == torch.float32,
        "num_warps": launch.num_warps, "num_stages": launch.stages,
    }  # fmt: skip
    if launch.segments > 1:
        boundary_kernel[grid](
            k, v, state, boundary, cu_seqlens, slot, start, k.stride(0), v.stride(0),
            state.stride(0), state.stride(1), slope_scale, **form,
        )  # fmt: skip
    scan_kernel[grid](
        q, k, v, state, boundary, y, cu_seqlens, slot, start, q.stride(0), k.stride(0),
        v.stride(0), state.stride(0), state.stride(1), y.stride(0), slope_scale, **form,
    )  # fmt: skip
