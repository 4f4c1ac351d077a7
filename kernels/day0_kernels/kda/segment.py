"""Context parallelism: what a rank's tokens make of any state, and the state it starts from.

A rank calls `kda_segment`, all ranks exchange the results, each takes its `entering_state` into the
slot, and `kda_prefill` with start > 0 does the rest.
"""

from dataclasses import replace

import torch

from day0_kernels.common.arguments import check_choice, check_shape
from day0_kernels.common.windows import Buffers, Sizes, buffer_shapes, transition
from day0_kernels.common.workspace import cut
from day0_kernels.kda.launch import PrefillLaunch, prefill_launch
from day0_kernels.kda.prefill import check, chunk_windows


def kda_segment(
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    transition_a: torch.Tensor,
    transition_b: torch.Tensor,
    cu_seqlens: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    decay: str,
    lower_bound: float | None = None,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write A [N, n, dk, dk] and B [N, n, dk, dv], fp32, with S_out = A S_in + B per sequence.

    `workspace` as `kda_prefill` has it. Raises ValueError for a wrong shape, head dim, dtype or
    decay form.
    """
    check_choice("decay", decay, ("bounded", "softplus"))
    sequences = cu_seqlens.shape[0] - 1
    check(k, k, v, gate, beta, dt_bias, transition_b, v, num_heads, head_dim, value_dim)
    check_shape("transition_a", transition_a, "N, n, dk, dk",
                (sequences, num_heads, head_dim, head_dim))  # fmt: skip
    check_shape("transition_b", transition_b, "N, n, dk, dv",
                (sequences, num_heads, head_dim, value_dim))  # fmt: skip
    for name, tensor in (("transition_a", transition_a), ("transition_b", transition_b)):
        if tensor.dtype != torch.float32 or not tensor.is_contiguous():
            raise ValueError(f"{name} must be contiguous float32, got {tensor.dtype}")
    bound = lower_bound if decay == "bounded" else None
    sizes = Sizes(
        num_tokens=k.shape[0], num_sequences=sequences, num_heads=num_heads,
        num_key_heads=num_heads, head_dim=head_dim, value_dim=value_dim, scalar=False,
        exact=k.dtype == torch.float32,
    )  # fmt: skip
    run(
        k, v, gate, beta, a_log, dt_bias, transition_a, transition_b, cu_seqlens, sizes=sizes,
        lower_bound=bound, workspace=workspace, launch=prefill_launch(sizes, bound),
    )  # fmt: skip


def run(
    k, v, gate, beta, a_log, dt_bias, transition_a, transition_b, cu_seqlens, *, sizes: Sizes,
    lower_bound: float | None, workspace: torch.Tensor | None, launch: PrefillLaunch,
) -> None:  # fmt: skip
    """`kda_segment` with a given launch, whose `segments` are not used."""
    if sizes.num_sequences == 0:
        return
    launch = replace(launch, segments=1)
    buffers = Buffers(**cut(buffer_shapes(launch, sizes), workspace, k.device))
    # keys for queries, which no transition needs
    for first, count in chunk_windows(
        k, k, v, gate, beta, a_log, dt_bias, cu_seqlens, buffers, sizes=sizes,
        lower_bound=lower_bound, launch=launch,
    ):  # fmt: skip
        transition(
            buffers, transition_a, transition_b, cu_seqlens, sizes=sizes, launch=launch,
            first=first, count=count,
        )  # fmt: skip


def entering_state(
    transition_a: torch.Tensor, transition_b: torch.Tensor, state: torch.Tensor, rank: int
) -> torch.Tensor:
    """State [N, n, dk, dv] before the tokens of `rank`, from `state` before those of rank 0.

    transition_a [ranks, N, n, dk, dk], transition_b [ranks, N, n, dk, dv], in the order of the
    tokens.
    """
    for before in range(rank):
        state = transition_a[before] @ state + transition_b[before]
    return state
