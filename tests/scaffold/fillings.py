"""What somebody who knows the invented mixer writes into its scaffold: ten lines, and a kernel."""

REFERENCE = """
    from day0_kernels.common.plain import borders, wide

    for own, past in zip(borders(cu_seqlens), borders(cu_history), strict=True):
        rows, heads = history_x[past[0] : past[1]].to(wide(x)), decay.shape[0]
        weights = (q_proj, k_proj, v_proj, value_gate)
        q, k, v, gate = ((rows @ w.to(wide(x)).T).unflatten(-1, (heads, -1)) for w in weights)
        state = q.new_zeros(heads, q.shape[-1], v.shape[-1])
        for t in range(len(rows)):
            state = state * decay.to(wide(x)).sigmoid().view(-1, 1, 1)
            state = state + torch.einsum("hk,hv->hkv", k[t], v[t] * gate[t].sigmoid())
            if t >= len(rows) - (own[1] - own[0]):
                mixed = torch.einsum("hk,hkv->hv", q[t], state).flatten() @ o_proj.to(wide(x)).T
                y[own[1] - len(rows) + t] = mixed.to(y.dtype)
"""

KERNEL = '''
@triton.jit
def mixing_kernel(
    q, k, v, decay, cu_history, out, H: tl.constexpr, D: tl.constexpr, BD: tl.constexpr
):
    """Grid (N, H): one head of one sequence, over all its rows so far. q, k, v [S, H * D]."""
    i_n, i_h = tl.program_id(0), tl.program_id(1)
    o_d = tl.arange(0, BD)
    mask = o_d < D
    first = tl.load(cu_history + i_n).to(tl.int64)
    last = tl.load(cu_history + i_n + 1).to(tl.int64)
    kept = tl.sigmoid(tl.load(decay + i_h).to(tl.float32))
    b_s = tl.zeros([BD, BD], tl.float32)
    for row in range(first, last):
        at = row * H * D + i_h * D + o_d
        b_k = tl.load(k + at, mask=mask, other=0.0).to(tl.float32)
        b_v = tl.load(v + at, mask=mask, other=0.0).to(tl.float32)
        b_q = tl.load(q + at, mask=mask, other=0.0).to(tl.float32)
        b_s = b_s * kept + b_k[:, None] * b_v[None, :]
        b_o = tl.sum(b_s * b_q[:, None], axis=0)
        tl.store(out + at, b_o.to(out.dtype.element_ty), mask=mask)
'''
WRAPPER = """
    heads = decay.shape[0]
    q, k, v = history_x @ q_proj.T, history_x @ k_proj.T, history_x @ v_proj.T
    v = v * torch.sigmoid(history_x @ value_gate.T)
    out = torch.empty_like(q)
    size = q.shape[-1] // heads
    mixing_kernel[(cu_history.shape[0] - 1, heads)](
        q, k, v, decay, cu_history, out, H=heads, D=size, BD=triton.next_power_of_2(size)
    )
    # A sequence's own rows are the last of its history.
    length = cu_seqlens.diff()
    number = torch.arange(x.shape[0], device=x.device)
    seq = torch.repeat_interleave(torch.arange(length.shape[0], device=x.device), length)
    y.copy_(out[number - cu_seqlens[1:][seq] + cu_history[1:][seq]] @ o_proj.T)
"""


def fill_reference(source: str) -> str:
    """The generated reference.py with the ten lines in place of its `raise`."""
    head, _, _ = source.rpartition("    raise ")
    return head + REFERENCE.lstrip("\n")


def fill_kernel(source: str) -> str:
    """The generated kernel.py with the kernel, and its launch in place of the zeros."""
    head, _, rest = source.partition("@triton.jit")
    signature = "def unheard_of_mixer(" + rest.partition("def unheard_of_mixer(")[2]
    signature = signature.partition("    rows, width")[0]
    return head + KERNEL.lstrip("\n") + "\n\n" + signature + WRAPPER.lstrip("\n")
