"""Prefill of KDA: chunks, their triangular systems, then a scan, in segments if heads are few."""

from collections.abc import Iterator

import torch

from day0_kernels.common.arguments import (
    check_choice,
    check_power_of_two,
    check_shape,
)
from day0_kernels.common.windows import Buffers, Sizes, buffer_shapes, scan, solve
from day0_kernels.common.workspace import cut, total_bytes
from day0_kernels.kda.chunk import chunk_kernel
from day0_kernels.kda.launch import PrefillLaunch, prefill_launch


def workspace_bytes(
    *, num_tokens: int, num_sequences: int, num_heads: int, head_dim: int, value_dim: int,
    exact: bool = False, lower_bound: float | None = None,
) -> int:  # fmt: skip
    """Bytes of `workspace` that `kda_prefill` needs for these sizes."""
    sizes = Sizes(
        num_tokens=num_tokens, num_sequences=num_sequences, num_heads=num_heads,
        num_key_heads=num_heads, head_dim=head_dim, value_dim=value_dim, scalar=False, exact=exact,
    )  # fmt: skip
    return total_bytes(buffer_shapes(prefill_launch(sizes, lower_bound), sizes))


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
    check(q, k, v, gate, beta, dt_bias, state, o, num_heads, head_dim, value_dim)
    check_choice("decay", decay, ("bounded", "softplus"))
    bound = lower_bound if decay == "bounded" else None
    sizes = Sizes(
        num_tokens=q.shape[0], num_sequences=slot.shape[0], num_heads=num_heads,
        num_key_heads=num_heads, head_dim=head_dim, value_dim=value_dim, scalar=False,
        exact=q.dtype == torch.float32,
    )  # fmt: skip
    run(
        q, k, v, gate, beta, a_log, dt_bias, state, o, cu_seqlens, slot, start, sizes=sizes,
        lower_bound=bound, workspace=workspace, launch=prefill_launch(sizes, bound),
    )  # fmt: skip


def check(q, k, v, gate, beta, dt_bias, state, o, num_heads, head_dim, value_dim) -> None:
    """Raise ValueError for what the kernels cannot take."""
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


def run(
    q, k, v, gate, beta, a_log, dt_bias, state, o, cu_seqlens, slot, start,
    *, sizes: Sizes, lower_bound: float | None, workspace: torch.Tensor | None,
    launch: PrefillLaunch,
) -> None:  # fmt: skip
    """`kda_prefill` with a given launch; also what the property tests and the sweep call."""
    if sizes.num_tokens == 0 or sizes.num_sequences == 0:
        return
    buffers = Buffers(**cut(buffer_shapes(launch, sizes), workspace, q.device))
    for first, count in chunk_windows(
        q, k, v, gate, beta, a_log, dt_bias, cu_seqlens, buffers, sizes=sizes,
        lower_bound=lower_bound, launch=launch,
    ):  # fmt: skip
        scan(
            buffers, state, o, cu_seqlens, slot, start, sizes=sizes, launch=launch,
            first=first, count=count,
        )  # fmt: skip


def chunk_windows(
    q, k, v, gate, beta, a_log, dt_bias, cu_seqlens, buffers: Buffers,
    *, sizes: Sizes, lower_bound: float | None, launch: PrefillLaunch,
) -> Iterator[tuple[int, int]]:  # fmt: skip
    """(first, number) of the chunk slots whose local results `buffers` hold, window by window."""
    heads, num_slots = sizes.num_heads, sizes.slots(launch.chunk)
    dims = {"H": heads, "DK": sizes.head_dim, "BT": launch.chunk, "EXACT": sizes.exact}
    for first in range(0, num_slots, launch.window):
        count = min(launch.window, num_slots - first)
        chunk_kernel[(count * heads,)](
            q, k, gate, beta, a_log, dt_bias, cu_seqlens,
            buffers.w, buffers.qg, buffers.kg, buffers.mix, buffers.mixing, buffers.decay,
            q.stride(0), k.stride(0), gate.stride(0), beta.stride(0), sizes.num_sequences, first,
            lower_bound or 0.0, DIAGONAL=launch.diagonal, BOUNDED=lower_bound is not None,
            num_warps=launch.chunk_warps, maxnreg=launch.chunk_registers,
            **dims,
        )  # fmt: skip
        solve(
            buffers, v, beta, cu_seqlens, sizes=sizes, launch=launch, beta_scale=1.0,
            first=first, count=count,
        )  # fmt: skip
        yield first, count
