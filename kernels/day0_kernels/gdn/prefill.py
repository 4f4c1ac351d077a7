"""Prefill of the gated delta net: chunks with their triangular systems, then a scan."""

import torch

from day0_kernels.common.arguments import check_power_of_two, check_shape
from day0_kernels.common.windows import (
    Buffers,
    ScanLaunch,
    Sizes,
    buffer_shapes,
    scan,
    scan_launch,
    solve,
)
from day0_kernels.common.workspace import cut, total_bytes
from day0_kernels.gdn.chunk import chunk_kernel


def workspace_bytes(
    *, num_tokens: int, num_sequences: int, num_key_heads: int, num_heads: int, head_dim: int,
    value_dim: int, exact: bool = False,
) -> int:  # fmt: skip
    """Bytes of `workspace` that `gdn_prefill` needs for these sizes."""
    sizes = Sizes(
        num_tokens=num_tokens, num_sequences=num_sequences, num_heads=num_heads,
        num_key_heads=num_key_heads, head_dim=head_dim, value_dim=value_dim, scalar=True,
        exact=exact,
    )  # fmt: skip
    return total_bytes(buffer_shapes(scan_launch(sizes), sizes))


def gdn_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    cu_seqlens: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_key_heads: int,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    beta_scale: float = 1.0,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write `y` [T, n*dv] and update `state` [slots, n, dk, dv] in place; see reference.py.

    Grids depend on T and N only. `workspace` (uint8, `workspace_bytes`) holds the scratch; without
    it scratch is allocated. Raises ValueError for a wrong shape or head dim.
    """
    check(
        q, k, v, decay, beta, a_log, dt_bias, state, y, num_key_heads, num_heads, head_dim,
        value_dim,
    )  # fmt: skip
    sizes = Sizes(
        num_tokens=q.shape[0], num_sequences=slot.shape[0], num_heads=num_heads,
        num_key_heads=num_key_heads, head_dim=head_dim, value_dim=value_dim, scalar=True,
        exact=q.dtype == torch.float32,
    )  # fmt: skip
    run(
        q, k, v, decay, beta, a_log, dt_bias, state, y, cu_seqlens, slot, start, sizes=sizes,
        beta_scale=beta_scale, workspace=workspace, launch=scan_launch(sizes),
    )  # fmt: skip


def check(
    q, k, v, decay, beta, a_log, dt_bias, state, y, num_key_heads, num_heads, head_dim, value_dim
) -> None:  # fmt: skip
    """Raise ValueError for what the kernels cannot take."""
    check_power_of_two("head_dim", head_dim, 16, 128)
    check_power_of_two("value_dim", value_dim, 16, 128)
    if num_key_heads < 1 or num_heads % num_key_heads:
        raise ValueError(f"num_heads {num_heads} must be a multiple of num_key_heads, which is "
                         f"{num_key_heads}")  # fmt: skip
    tokens = q.shape[0]
    check_shape("q", q, "T, nk*dk", (tokens, num_key_heads * head_dim))
    check_shape("k", k, "T, nk*dk", (tokens, num_key_heads * head_dim))
    check_shape("v", v, "T, n*dv", (tokens, num_heads * value_dim))
    check_shape("decay", decay, "T, n", (tokens, num_heads))
    check_shape("beta", beta, "T, n", (tokens, num_heads))
    check_shape("a_log", a_log, "n", (num_heads,))
    check_shape("dt_bias", dt_bias, "n", (num_heads,))
    check_shape("y", y, "T, n*dv", (tokens, num_heads * value_dim))
    check_shape("state", state[0], "n, dk, dv", (num_heads, head_dim, value_dim))
    if not state[0, 0].is_contiguous():
        raise ValueError("state must be contiguous in its last two dims [dk, dv]")


def run(
    q, k, v, decay, beta, a_log, dt_bias, state, y, cu_seqlens, slot, start,
    *, sizes: Sizes, beta_scale: float, workspace: torch.Tensor | None, launch: ScanLaunch,
) -> None:  # fmt: skip
    """`gdn_prefill` with a given launch; also what the property tests and the sweep call."""
    if sizes.num_tokens == 0 or sizes.num_sequences == 0:
        return
    buffers = Buffers(**cut(buffer_shapes(launch, sizes), workspace, q.device))
    num_slots = sizes.slots(launch.chunk)
    for first in range(0, num_slots, launch.window):
        count = min(launch.window, num_slots - first)
        chunk_kernel[(count * sizes.num_key_heads,)](
            q, k, decay, beta, a_log, dt_bias, cu_seqlens,
            buffers.qg, buffers.kg, buffers.mix, buffers.mixing, buffers.decay,
            q.stride(0), k.stride(0), decay.stride(0), beta.stride(0), sizes.num_sequences, first,
            beta_scale, H=sizes.num_heads, SHARE=sizes.num_heads // sizes.num_key_heads,
            DK=sizes.head_dim, BT=launch.chunk, EXACT=sizes.exact,
            num_warps=launch.chunk_warps, maxnreg=launch.chunk_registers,
        )  # fmt: skip
        solve(
            buffers, v, beta, cu_seqlens, sizes=sizes, launch=launch, beta_scale=beta_scale,
            first=first, count=count,
        )  # fmt: skip
        scan(
            buffers, state, y, cu_seqlens, slot, start, sizes=sizes, launch=launch,
            first=first, count=count,
        )  # fmt: skip
