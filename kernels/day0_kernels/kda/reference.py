"""Definition of Kimi delta attention (KDA), token by token.

Sources: Kimi Linear report (arXiv 2510.26692) and the transformers `kimi_linear`, `glm5_next`
modules for the gates. T tokens of all sequences packed, n heads, dk key and dv value channels,
N sequences. Computed in fp32, or in fp64 if q is fp64.
"""

import torch
import torch.nn.functional as F

from day0_kernels.common.plain import borders, rms, wide

L2_EPS = 1e-6


def log_decay(
    gate: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    decay: str,
    lower_bound: float | None,
) -> torch.Tensor:
    """Log of the retention per key channel, at most 0, from the raw `gate` [T, n, dk].

    "bounded": lower_bound * sigmoid(exp(a_log) * (gate + dt_bias)), in (lower_bound, 0).
    "softplus": -exp(a_log) * softplus(gate + dt_bias), unbounded below.
    """
    num_heads, head_dim = gate.shape[1:]
    rate = a_log[:num_heads].to(gate.dtype).exp().view(num_heads, 1)  # [n, 1]
    shifted = gate + dt_bias.to(gate.dtype).view(num_heads, head_dim)  # [T, n, dk]
    if decay == "bounded":
        return lower_bound * torch.sigmoid(rate * shifted)
    if decay == "softplus":
        return -rate * F.softplus(shifted)
    raise ValueError(f"decay must be one of bounded, softplus, got {decay!r}")


def prepared(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    decay: str,
    lower_bound: float | None,
) -> tuple[torch.Tensor, ...]:
    """Per head q (normalised, scaled), k (normalised), v, log decay, beta (activated)."""
    dtype = wide(q)
    tokens = q.shape[0]
    q = q.to(dtype).view(tokens, num_heads, head_dim)  # [T, n, dk]
    k = k.to(dtype).view(tokens, num_heads, head_dim)  # [T, n, dk]
    v = v.to(dtype).view(tokens, num_heads, value_dim)  # [T, n, dv]
    q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + L2_EPS) * head_dim**-0.5
    k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + L2_EPS)
    g = log_decay(
        gate.to(dtype).view(tokens, num_heads, head_dim), a_log, dt_bias, decay, lower_bound
    )
    return q, k, v, g, torch.sigmoid(beta.to(dtype))


def step(
    s: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token of every head: the new state [..., n, dk, dv] and the output [..., n, dv]."""
    s = s * g.exp().unsqueeze(-1)  # [n, dk, dv]
    delta = beta.unsqueeze(-1) * (v - (s * k.unsqueeze(-1)).sum(-2))  # [n, dv]
    s = s + k.unsqueeze(-1) * delta.unsqueeze(-2)  # [n, dk, dv]
    return s, (s * q.unsqueeze(-1)).sum(-2)


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
    """Write `o` [T, n*dv] and update `state` [slots, n, dk, dv] in place, token by token,
    all sequences at once.

    q, k [T, n*dk], v [T, n*dv] after convolution and SiLU; gate [T, n*dk] and beta [T, n] raw;
    a_log [>= n], dt_bias [n*dk]; cu_seqlens [N+1]; slot, start [N]. The state in a slot is read
    only if start > 0; an empty sequence leaves its slot alone. `workspace` is not used here.
    """
    qs, ks, vs, gs, betas = prepared(
        q, k, v, gate, beta, a_log, dt_bias,
        num_heads=num_heads, head_dim=head_dim, value_dim=value_dim,
        decay=decay, lower_bound=lower_bound,
    )  # fmt: skip
    lengths = cu_seqlens.diff()
    longest = lengths.argsort(descending=True, stable=True)  # the sequences that go on come first
    longest = longest[: int((lengths > 0).sum())]
    first, places = cu_seqlens[longest].long(), slot[longest].long()
    s = state[places].to(qs.dtype)  # [N, n, dk, dv]
    s = torch.where((start[longest] > 0).view(-1, 1, 1, 1), s, 0.0)
    for offset in range(int(lengths[longest[0]]) if len(longest) else 0):
        count = int((lengths > offset).sum())  # sequences that have such a token
        t = first[:count] + offset
        s[:count], out = step(s[:count], qs[t], ks[t], vs[t], gs[t], betas[t])
        o[t] = out.flatten(1).to(o.dtype)
    state[places] = s.to(state.dtype)


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
    """What the tokens make of any state: S_out = A S_in + B, for each sequence and head.

    Writes `transition_a` [N, n, dk, dk] and `transition_b` [N, n, dk, dv]: the recurrence from the
    unit matrix without values, and from zeros. No tokens: the unit matrix and zeros.
    """
    _, ks, vs, gs, betas = prepared(
        k, k, v, gate, beta, a_log, dt_bias,
        num_heads=num_heads, head_dim=head_dim, value_dim=value_dim,
        decay=decay, lower_bound=lower_bound,
    )  # fmt: skip
    for index, (first, last) in enumerate(borders(cu_seqlens)):
        a = torch.eye(head_dim, dtype=ks.dtype, device=k.device).repeat(num_heads, 1, 1)
        b = torch.zeros(num_heads, head_dim, value_dim, dtype=ks.dtype, device=k.device)
        for t in range(first, last):
            a, _ = step(a, ks[t], ks[t], torch.zeros_like(ks[t]), gs[t], betas[t])
            b, _ = step(b, ks[t], ks[t], vs[t], gs[t], betas[t])
        transition_a[index] = a.to(transition_a.dtype)
        transition_b[index] = b.to(transition_b.dtype)


def kda_decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    o: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    decay: str,
    lower_bound: float | None = None,
) -> None:
    """One token per sequence (T = N): as `kda_prefill` with every length 1; `state` in place."""
    kda_prefill(
        q, k, v, gate, beta, a_log, dt_bias, state, o,
        torch.arange(q.shape[0] + 1), slot, start,
        num_heads=num_heads, head_dim=head_dim, value_dim=value_dim,
        decay=decay, lower_bound=lower_bound,
    )  # fmt: skip


def kda_verify(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    o: torch.Tensor,
    slot: torch.Tensor,
    version: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    decay: str,
    lower_bound: float | None = None,
) -> None:
    """m = T / N tokens per sequence, every intermediate state kept; `state` in place.

    state [slots, versions >= m, n, dk, dv]: read at version[i] (if start > 0), the state after
    token j of the sequence is written to version j. Accepting a tokens makes a - 1 the version.
    """
    qs, ks, vs, gs, betas = prepared(
        q, k, v, gate, beta, a_log, dt_bias,
        num_heads=num_heads, head_dim=head_dim, value_dim=value_dim,
        decay=decay, lower_bound=lower_bound,
    )  # fmt: skip
    per_sequence = q.shape[0] // max(slot.shape[0], 1)
    for index in range(slot.shape[0]):
        at = int(slot[index])
        s = torch.zeros(num_heads, head_dim, value_dim, dtype=qs.dtype, device=q.device)
        if int(start[index]) > 0:
            s = state[at, int(version[index])].to(s.dtype)
        for j in range(per_sequence):
            t = index * per_sequence + j
            s, out = step(s, qs[t], ks[t], vs[t], gs[t], betas[t])
            o[t] = out.reshape(-1).to(o.dtype)
            state[at, j] = s.to(state.dtype)


def kda_decode_fused(
    x: torch.Tensor,
    conv_weight: torch.Tensor,
    tail: torch.Tensor,
    gate: torch.Tensor,
    beta: torch.Tensor,
    a_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state: torch.Tensor,
    norm_gate: torch.Tensor,
    norm_weight: torch.Tensor,
    o: torch.Tensor,
    slot: torch.Tensor,
    start: torch.Tensor,
    *,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    decay: str,
    lower_bound: float | None = None,
    norm_eps: float = 1e-5,
) -> None:
    """Everything between the projections for one token per sequence, in place on both caches.

    x [T, C], C = n*(2*dk + dv) = [q | k | v] before the convolution; conv_weight [C, 1, K];
    tail [slots, K-1, C], oldest row first; norm_gate [T, n*dv] raw (sigmoid);
    norm_weight [dv]; o [T, n*dv]. Convolution, SiLU, recurrence, RMS norm per head, gate.
    """
    dtype = wide(x)
    tokens, channels, width = x.shape[0], x.shape[1], conv_weight.shape[-1]
    weight = conv_weight.view(channels, width).to(dtype).t()  # [K, C]
    fresh = (start > 0).view(tokens, 1, 1)
    slots = slot.long()
    before = torch.where(fresh, tail[slots].to(dtype), 0.0)  # [T, K-1, C]
    window = torch.cat((before, x.to(dtype).unsqueeze(1)), dim=1)  # [T, K, C]
    tail[slots] = window[:, 1:].to(tail.dtype)
    mixed = F.silu((window * weight).sum(1))  # [T, C]
    keys = num_heads * head_dim
    out = torch.empty(tokens, num_heads * value_dim, dtype=dtype, device=x.device)
    kda_decode(
        mixed[:, :keys], mixed[:, keys : 2 * keys], mixed[:, 2 * keys :],
        gate.to(dtype), beta.to(dtype), a_log, dt_bias, state, out, slot, start,
        num_heads=num_heads, head_dim=head_dim, value_dim=value_dim,
        decay=decay, lower_bound=lower_bound,
    )  # fmt: skip
    out = rms(out.view(tokens, num_heads, value_dim), norm_eps)
    out = out * norm_weight.to(dtype) * torch.sigmoid(norm_gate.to(dtype)).view_as(out)
    o.copy_(out.view(tokens, -1).to(o.dtype))
