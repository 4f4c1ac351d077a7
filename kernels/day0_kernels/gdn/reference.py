"""Definition of the gated delta net (arXiv 2412.06464), token by token and in chunks.

Gates as transformers 5.24 `qwen3_next` has them; beta_scale 2 as in `olmo_hybrid`.
"""

import torch
import torch.nn.functional as F

from day0_kernels.common.functions import FUNCTIONS
from day0_kernels.common.plain import borders, carried, rms, wide

L2_EPS = 1e-6


def gdn(
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
    """Write `y` [T, n*dv] and update `state` [slots, n, dk, dv] in place, one token after another.

    q, k [T, nk*dk], v [T, n*dv] after convolution and SiLU; decay, beta [T, n] raw; a_log,
    dt_bias [n]. Key head i serves value heads i*n/nk ... A slot is read only where start > 0; an
    empty sequence leaves its slot alone. `workspace` is not used here.
    With g = -exp(a_log) * softplus(decay + dt_bias):
    S <- e^g S; d = b (v - S^T k); S <- S + k (x) d; y = S^T q, b = beta_scale * sigmoid(beta).
    """
    inputs = prepared(q, k, v, decay, beta, a_log, dt_bias, num_key_heads, num_heads, beta_scale)
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        if first == last:
            continue
        at = int(slot[index])
        s = carried(state[at], int(start[index]), inputs[0].dtype)
        for t in range(first, last):
            s, out = step(s, *(part[t] for part in inputs))
            y[t] = out.flatten().to(y.dtype)
        state[at] = s.to(state.dtype)


def gdn_segment(
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    transition_a: torch.Tensor,
    transition_b: torch.Tensor,
    cu_seqlens: torch.Tensor,
    *,
    num_key_heads: int,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    beta_scale: float = 1.0,
    workspace: torch.Tensor | None = None,
) -> None:
    """What the tokens make of any state: S_out = A S_in + B, for each sequence and head.

    Writes `transition_a` [N, n, dk, dk] and `transition_b` [N, n, dk, dv]: the recurrence from the
    unit matrix without values, and from zeros. No tokens: the unit matrix and zeros.
    """
    _, ks, vs, gs, betas = prepared(
        k, k, v, decay, beta, a_log, dt_bias, num_key_heads, num_heads, beta_scale
    )
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        a = torch.eye(head_dim, dtype=ks.dtype, device=k.device).repeat(num_heads, 1, 1)
        b = torch.zeros(num_heads, head_dim, value_dim, dtype=ks.dtype, device=k.device)
        for t in range(first, last):
            a, _ = step(a, ks[t], ks[t], torch.zeros_like(ks[t]), gs[t], betas[t])
            b, _ = step(b, ks[t], ks[t], vs[t], gs[t], betas[t])
        transition_a[index] = a.to(transition_a.dtype)
        transition_b[index] = b.to(transition_b.dtype)


def gdn_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_key_heads: int,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    beta_scale: float = 1.0,
) -> None:
    """One token per sequence (T = N): as `gdn` with every length 1; `state` in place."""
    gdn(
        q, k, v, decay, beta, a_log, dt_bias, state, y, torch.arange(q.shape[0] + 1), slot, start,
        num_key_heads=num_key_heads, num_heads=num_heads, head_dim=head_dim, value_dim=value_dim,
        beta_scale=beta_scale,
    )  # fmt: skip


def gdn_verify(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    y: torch.Tensor,
    slot: torch.Tensor,
    version: torch.Tensor,
    start: torch.Tensor,
    *,
    num_key_heads: int,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    beta_scale: float = 1.0,
) -> None:
    """m = T / N tokens per sequence, every intermediate state kept; `state` in place.

    state [slots, versions >= m, n, dk, dv]: read at version[i] (if start > 0), the state after
    token j of the sequence is written to version j. Accepting a tokens makes a - 1 the version.
    """
    inputs = prepared(q, k, v, decay, beta, a_log, dt_bias, num_key_heads, num_heads, beta_scale)
    per_sequence = q.shape[0] // max(slot.shape[0], 1)
    for index in range(slot.shape[0]):
        at = int(slot[index])
        s = carried(state[at, int(version[index])], int(start[index]), inputs[0].dtype)
        for j in range(per_sequence):
            t = index * per_sequence + j
            s, out = step(s, *(part[t] for part in inputs))
            y[t] = out.flatten().to(y.dtype)
            state[at, j] = s.to(state.dtype)


def gdn_decode_fused(
    x: torch.Tensor,
    conv_weight: torch.Tensor,
    tail: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    norm_gate: torch.Tensor,
    norm_weight: torch.Tensor,
    y: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_key_heads: int,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    activation: str,
    beta_scale: float = 1.0,
    norm_eps: float = 1e-6,
) -> None:
    """Everything between the projections for one token per sequence, in place on both caches.

    x [T, C], C = 2*nk*dk + n*dv = [q | k | v] before the convolution; conv_weight [C, 1, K];
    tail [slots, K-1, C], oldest row first; norm_gate [T, n*dv] raw, through `activation` ("silu" or
    "sigmoid"); norm_weight [dv]; y [T, n*dv]. Convolution, SiLU, recurrence, RMS norm per head,
    gate.
    """
    dtype, tokens, keys = wide(x), x.shape[0], num_key_heads * head_dim
    weight = conv_weight.squeeze(1).to(dtype).t()  # [K, C]
    slots = slot.long()
    before = torch.where((start > 0).view(tokens, 1, 1), tail[slots].to(dtype), 0.0)
    window = torch.cat((before, x.to(dtype).unsqueeze(1)), dim=1)  # [T, K, C]
    tail[slots] = window[:, 1:].to(tail.dtype)
    q, k, v = F.silu((window * weight).sum(1)).split((keys, keys, num_heads * value_dim), dim=1)
    out = torch.empty(tokens, num_heads * value_dim, dtype=dtype, device=x.device)
    gdn_decode(
        q, k, v, decay.to(dtype), beta.to(dtype), a_log, dt_bias, state, out, slot, start,
        num_key_heads=num_key_heads, num_heads=num_heads, head_dim=head_dim, value_dim=value_dim,
        beta_scale=beta_scale,
    )  # fmt: skip
    out = rms(out.view(tokens, num_heads, value_dim), norm_eps) * norm_weight.to(dtype)
    out = out.view(tokens, -1) * FUNCTIONS[activation](norm_gate.to(dtype))
    y.copy_(out.to(y.dtype))


def gdn_chunked(
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
    chunk: int = 64,
) -> None:
    """As `gdn`, `chunk` tokens at a time by one triangular solve (the WY form)."""
    inputs = prepared(q, k, v, decay, beta, a_log, dt_bias, num_key_heads, num_heads, beta_scale)
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        if first == last:
            continue
        at = int(slot[index])
        s = carried(state[at], int(start[index]), inputs[0].dtype)
        for begin in range(first, last, chunk):
            end = min(begin + chunk, last)
            part = tuple(value[begin:end].transpose(0, 1) for value in inputs)  # [n, c, ...]
            s, out = _chunk(s, *part)
            y[begin:end] = out.transpose(0, 1).flatten(1).to(y.dtype)
        state[at] = s.to(state.dtype)


def prepared(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    decay: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    num_key_heads: int,
    num_heads: int,
    beta_scale: float,
) -> tuple[torch.Tensor, ...]:
    """q (normalised, scaled) and k (normalised) [T, n, dk], v [T, n, dv], g and b [T, n]."""
    dtype = wide(q)
    share = num_heads // num_key_heads
    queries, keys = (
        part.to(dtype).unflatten(-1, (num_key_heads, -1)).repeat_interleave(share, dim=1)
        for part in (q, k)
    )
    size = queries.shape[-1]
    queries, keys = (
        part * torch.rsqrt(part.square().sum(-1, keepdim=True) + L2_EPS) for part in (queries, keys)
    )
    log_decay = -a_log.to(dtype).exp() * F.softplus(decay.to(dtype) + dt_bias.to(dtype))
    strength = beta_scale * torch.sigmoid(beta.to(dtype))
    values = v.to(dtype).unflatten(-1, (num_heads, -1))
    return queries * size**-0.5, keys, values, log_decay, strength


def step(
    s: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token of every head: the new state [n, dk, dv] and the output [n, dv]."""
    s = s * g.exp().view(-1, 1, 1)
    delta = b.unsqueeze(-1) * (v - torch.einsum("nkv,nk->nv", s, k))
    s = s + k.unsqueeze(-1) * delta.unsqueeze(-2)
    return s, torch.einsum("nkv,nk->nv", s, q)


def _chunk(
    s: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    b: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(state after the chunk, output [n, c, dv]); q, k [n, c, dk], v [n, c, dv], g, b [n, c].

    With G the running sum of g, the deltas solve (1 + A) D = b (V - e^G K S), where
    A_ij = b_i e^(G_i - G_j) k_i . k_j below the diagonal.
    """
    total = g.cumsum(-1)  # [n, c]
    apart = (total.unsqueeze(-1) - total.unsqueeze(-2)).tril()  # upper part: never used
    ratio = apart.exp().tril()  # [n, c, c]
    system = (b.unsqueeze(-1) * ratio * (k @ k.transpose(1, 2))).tril(-1)
    system = system + torch.eye(k.shape[1], dtype=k.dtype, device=k.device)
    target = b.unsqueeze(-1) * (v - total.exp().unsqueeze(-1) * (k @ s))  # [n, c, dv]
    deltas = torch.linalg.solve_triangular(system, target, upper=False, unitriangular=True)
    out = total.exp().unsqueeze(-1) * (q @ s) + (ratio * (q @ k.transpose(1, 2))) @ deltas
    rest = (total[:, -1:] - total).exp().unsqueeze(-1)  # [n, c, 1] decay from a token to the end
    s = total[:, -1].exp().view(-1, 1, 1) * s + (k * rest).transpose(1, 2) @ deltas
    return s, out
