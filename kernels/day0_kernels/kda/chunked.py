"""The chunked (WY) form of the recurrence in plain torch: what the prefill kernels compute.

A second definition, tested against `reference.py`; also the algebra that lets a sequence be cut
into segments: S_out = A S_in + B with A = prod_t (I - beta_t k_t k_t^T) Diag(e^g_t).
"""

import torch


def chunk_transition(
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(W, U, Kg, total) of one chunk of one head: k [C, dk], v [C, dv], g [C, dk], beta [C].

    With them S_out = Diag(e^total) S + Kg^T (U - W S), and U - W S are the written deltas.
    """
    tokens = k.shape[0]
    cumulative = g.cumsum(0)  # [C, dk]
    pairs = (cumulative.unsqueeze(1) - cumulative.unsqueeze(0)).clamp(max=0.0)  # [C, C, dk]
    mixing = torch.einsum("id,jd,ijd->ij", k, k, pairs.exp()) * beta.unsqueeze(-1)
    unit = torch.eye(tokens, dtype=k.dtype, device=k.device)
    inverse = torch.linalg.solve_triangular(
        unit + mixing.tril(-1), unit, upper=False, unitriangular=True
    )
    inverse = inverse * beta  # [C, C]
    total = cumulative[-1]  # [dk]
    return inverse @ (k * cumulative.exp()), inverse @ v, k * (total - cumulative).exp(), total


def segment_transition(
    k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, chunk: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(A [dk, dk], B [dk, dv]) of any number of tokens of one head."""
    a = torch.eye(k.shape[1], dtype=k.dtype, device=k.device)
    b = k.new_zeros(k.shape[1], v.shape[1])
    for t in range(0, k.shape[0], chunk):
        part = slice(t, t + chunk)
        w, u, kg, total = chunk_transition(k[part], v[part], g[part], beta[part])
        keep = total.exp().unsqueeze(-1)
        a, b = keep * a - kg.t() @ (w @ a), keep * b + kg.t() @ (u - w @ b)
    return a, b


def chunked(
    s: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    chunk: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [T, dv] and final state [dk, dv] of one head of one sequence from state `s`."""
    outputs = []
    for t in range(0, k.shape[0], chunk):
        part = slice(t, t + chunk)
        w, u, kg, total = chunk_transition(k[part], v[part], g[part], beta[part])
        delta = u - w @ s  # [C, dv]
        cumulative = g[part].cumsum(0)
        pairs = (cumulative.unsqueeze(1) - cumulative.unsqueeze(0)).clamp(max=0.0)
        mixing = torch.einsum("id,jd,ijd->ij", q[part], k[part], pairs.exp()).tril()
        outputs.append((q[part] * cumulative.exp()) @ s + mixing @ delta)
        s = total.exp().unsqueeze(-1) * s + kg.t() @ delta
    return torch.cat(outputs) if outputs else v.new_zeros(0, v.shape[1]), s
