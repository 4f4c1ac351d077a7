"""Prefill of KDA: chunks, their triangular systems, then a scan, in segments if heads are few."""

from dataclasses import dataclass

import torch
import triton

from day0_kernels.common.arguments import (
    capability,
    check_choice,
    check_power_of_two,
    check_shape,
)
from day0_kernels.common.workspace import Shapes, cut, total_bytes
from day0_kernels.kda.chunk import chunk_kernel
from day0_kernels.kda.launch import PrefillLaunch, prefill_launch
from day0_kernels.kda.scan import chain_kernel, scan_kernel, transition_kernel
from day0_kernels.kda.solve import solve_kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """Scratch of one window; shapes in chunk.py and scan.py."""

    w: torch.Tensor
    qg: torch.Tensor
    kg: torch.Tensor
    ut: torch.Tensor
    mix: torch.Tensor
    mixing: torch.Tensor
    total: torch.Tensor
    scale: torch.Tensor
    carry: torch.Tensor
    segment_a: torch.Tensor
    segment_b: torch.Tensor
    segment_state: torch.Tensor


def buffer_shapes(
    launch: PrefillLaunch, *, num_sequences: int, num_heads: int, head_dim: int, value_dim: int,
    exact: bool,
) -> Shapes:  # fmt: skip
    """Shape and dtype of every scratch tensor of a prefill."""
    dtype = torch.float32 if exact else torch.float16
    at = (launch.window, num_heads)
    rows = launch.chunk
    split = (num_sequences, launch.segments if launch.segments > 1 else 0, num_heads)
    return {
        "w": ((*at, rows, head_dim), dtype),
        "qg": ((*at, rows, head_dim), dtype),
        "kg": ((*at, rows, head_dim), dtype),
        "ut": ((*at, value_dim, rows), dtype),
        "mix": ((*at, rows, rows), dtype),
        "mixing": ((*at, rows, rows), dtype),
        "total": ((*at, head_dim), torch.float32),
        "scale": (at, torch.float32),
        "carry": ((num_sequences, num_heads, head_dim, value_dim), torch.float32),
        "segment_a": ((*split, head_dim, head_dim), torch.float32),
        "segment_b": ((*split, head_dim, value_dim), torch.float32),
        "segment_state": ((*split, head_dim, value_dim), torch.float32),
    }


def workspace_bytes(
    *, num_tokens: int, num_sequences: int, num_heads: int, head_dim: int, value_dim: int,
    exact: bool = False, lower_bound: float | None = None,
    capability: tuple[int, int] = (9, 0),
) -> int:  # fmt: skip
    """Bytes of `workspace` that `kda_prefill` needs for these sizes."""
    launch = prefill_launch(
        num_tokens=num_tokens, num_sequences=num_sequences, num_heads=num_heads,
        head_dim=head_dim, value_dim=value_dim, exact=exact, lower_bound=lower_bound,
        capability=capability,
    )  # fmt: skip
    shapes = buffer_shapes(
        launch, num_sequences=num_sequences, num_heads=num_heads, head_dim=head_dim,
        value_dim=value_dim, exact=exact,
    )  # fmt: skip
    return total_bytes(shapes)


def kda_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    o: torch.Tensor,
    cu_seqlens: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    decay: str,
    lower_bound: float | None = None,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write `o` [T, n*dv] and update `state` [slots, n, dk, dv] in place; see reference.py.

    Grids depend on T and N only. `workspace` (uint8, `workspace_bytes`) holds the scratch; without
    it scratch is allocated. Raises ValueError for a wrong shape, head dim or decay form.
    """
    exact = check(q, k, v, gate, beta, dt_bias, state, o, num_heads, head_dim, value_dim)
    check_choice("decay", decay, ("bounded", "softplus"))
    launch = prefill_launch(
        num_tokens=q.shape[0], num_sequences=slot.shape[0], num_heads=num_heads,
        head_dim=head_dim, value_dim=value_dim, exact=exact,
        lower_bound=lower_bound if decay == "bounded" else None, capability=capability(q),
    )  # fmt: skip
    run(
        q, k, v, gate, beta, a_log, dt_bias, state, o, cu_seqlens, slot, start,
        num_heads=num_heads, head_dim=head_dim, value_dim=value_dim,
        lower_bound=lower_bound if decay == "bounded" else None,
        workspace=workspace, launch=launch,
    )  # fmt: skip


def check(q, k, v, gate, beta, dt_bias, state, o, num_heads, head_dim, value_dim) -> bool:
    """Raise ValueError for what the kernels cannot take; whether inputs are fp32."""
    check_power_of_two("head_dim", head_dim, 16, 128)
    check_power_of_two("value_dim", value_dim, 16, 128)
    tokens = q.shape[0]
    check_shape("q", q, "T, n*dk", (tokens, num_heads * head_dim))
    check_shape("k", k, "T, n*dk", (tokens, num_heads * head_dim))
    check_shape("v", v, "T, n*dv", (tokens, num_heads * value_dim))
    check_shape("gate", gate, "T, n*dk", (tokens, num_heads * head_dim))
    check_shape("beta", beta, "T, n", (tokens, num_heads))
    check_shape("dt_bias", dt_bias, "n*dk", (num_heads * head_dim,))
    check_shape("o", o, "T, n*dv", (tokens, num_heads * value_dim))
    check_shape("state", state[0], "n, dk, dv", (num_heads, head_dim, value_dim))
    if not state[0, 0].is_contiguous():
        raise ValueError("state must be contiguous in its last two dims [dk, dv]")
    return q.dtype == torch.float32


def run(
    q, k, v, gate, beta, a_log, dt_bias, state, o, cu_seqlens, slot, start,
    *, num_heads: int, head_dim: int, value_dim: int, lower_bound: float | None,
    workspace: torch.Tensor | None, launch: PrefillLaunch,
) -> None:  # fmt: skip
    """`kda_prefill` with a given launch; also what the property tests and the sweep call."""
    tokens, sequences = q.shape[0], slot.shape[0]
    if tokens == 0 or sequences == 0:
        return
    exact = q.dtype == torch.float32
    shapes = buffer_shapes(
        launch, num_sequences=sequences, num_heads=num_heads, head_dim=head_dim,
        value_dim=value_dim, exact=exact,
    )  # fmt: skip
    buffers = Buffers(**cut(shapes, workspace, q.device))
    num_slots = -(-tokens // launch.chunk) + sequences
    dims = {"H": num_heads, "DK": head_dim, "DV": value_dim, "BT": launch.chunk, "EXACT": exact}
    for first in range(0, num_slots, launch.window):
        count = min(launch.window, num_slots - first)
        chunk_kernel[(count * num_heads,)](
            q, k, gate, beta, a_log, dt_bias, cu_seqlens,
            buffers.w, buffers.qg, buffers.kg, buffers.mix, buffers.mixing, buffers.total,
            q.stride(0), k.stride(0), gate.stride(0), beta.stride(0), sequences, first,
            lower_bound or 0.0, H=num_heads, DK=head_dim, BT=launch.chunk,
            DIAGONAL=launch.diagonal, BOUNDED=lower_bound is not None, EXACT=exact,
            num_warps=launch.chunk_warps,
        )  # fmt: skip
        solve_kernel[(count * num_heads,)](
            v, beta, cu_seqlens, buffers.w, buffers.mixing, buffers.ut, buffers.scale,
            v.stride(0), beta.stride(0), sequences, first, num_warps=launch.chunk_warps, **dims,
        )  # fmt: skip
        scan(
            buffers, state, o, cu_seqlens, slot, start, dims=dims, launch=launch,
            first=first, count=count,
        )  # fmt: skip


def scan(
    buffers: Buffers, state, o, cu_seqlens, slot, start, *, dims: dict[str, int],
    launch: PrefillLaunch, first: int, count: int,
) -> None:  # fmt: skip
    """Outputs and states of one window whose chunk-local results are in `buffers`."""
    heads, head_dim, value_dim = dims["H"], dims["DK"], dims["DV"]
    sequences, tiles = slot.shape[0], triton.cdiv(value_dim, launch.block_v)
    tile = {"BV": launch.block_v, "S": launch.segments}
    if launch.segments > 1:
        both = triton.cdiv(value_dim + head_dim, launch.block_v)
        transition_kernel[(both, heads, sequences * launch.segments)](
            buffers.w, buffers.kg, buffers.ut, buffers.total, buffers.scale,
            buffers.segment_a, buffers.segment_b, cu_seqlens, first, count,
            num_warps=launch.scan_warps, num_stages=launch.scan_stages, **dims, **tile,
        )  # fmt: skip
        chain_kernel[(tiles, heads, sequences)](
            buffers.segment_a, buffers.segment_b, state, buffers.carry, buffers.segment_state,
            cu_seqlens, slot, start, state.stride(0), state.stride(1), first, count,
            num_warps=launch.scan_warps, **dims, **tile,
        )  # fmt: skip
    scan_kernel[(tiles, heads, sequences * launch.segments)](
        buffers.w, buffers.qg, buffers.kg, buffers.ut, buffers.mix, buffers.total, buffers.scale,
        state, buffers.carry, buffers.segment_state, o, cu_seqlens, slot, start,
        state.stride(0), state.stride(1), o.stride(0), first, count, head_dim**-0.5,
        num_warps=launch.scan_warps, num_stages=launch.scan_stages, **dims, **tile,
    )  # fmt: skip
