"""Definitions of gqa and sparse_gqa against transformers' eager attention and each other."""

from types import SimpleNamespace

import pytest
import torch

from day0_kernels.gqa.reference import gqa
from day0_kernels.sparse_gqa.reference import sparse_gqa
from tests.kernels.ragged import check_plays, close, drawn, played

SIZES = {"num_heads": 6, "num_kv_heads": 2, "head_dim": 8, "value_dim": 12, "scale": 0.4}
TOTALS = [13, 1, 5, 8]


def tensors(draw, totals=TOTALS):
    n, nkv, dk, dv = (SIZES[k] for k in ("num_heads", "num_kv_heads", "head_dim", "value_dim"))
    dims = {"q": (n * dk,), "key": (nkv, dk), "value": (nkv, dv)}
    return {name: [draw(t, *rest) for t in totals] for name, rest in dims.items()}


def op(full, *, sink=None, window=0, softcap=None):
    def run(step):
        key, cu, first = step.history(full["key"], window)
        value, _, _ = step.history(full["value"], window)
        y = step.empty(SIZES["num_heads"] * SIZES["value_dim"], dtype=full["q"][0].dtype)
        gqa(
            step.rows(full["q"]), key, value, y, step.cu_seqlens, step.positions, cu, first, sink,
            window=window, softcap=softcap, **SIZES,
        )  # fmt: skip
        return y

    return run


def mask_of(total, window):
    back = torch.arange(total).view(-1, 1) - torch.arange(total)
    seen = (back >= 0) & ((back < window) if window else True)
    return torch.zeros(total, total).masked_fill(~seen, float("-inf")).view(1, 1, total, total)


def theirs(attention, full, i, window, sink, **options):
    total = full["q"][i].shape[0]
    n, nkv = SIZES["num_heads"], SIZES["num_kv_heads"]
    module = SimpleNamespace(
        num_key_value_groups=n // nkv, sinks=sink, training=False, head_dim=SIZES["head_dim"]
    )
    q, k, v = (
        full[name][i].view(1, total, heads, -1).transpose(1, 2)
        for name, heads in (("q", n), ("key", nkv), ("value", nkv))
    )
    mask = mask_of(total, window)
    out, _ = attention(module, q, k, v, mask, scaling=SIZES["scale"], **options)
    return out.reshape(total, -1)


@pytest.mark.hf
@pytest.mark.parametrize("window", [0, 1, 4, 5, 20])
def test_sinks_and_windows_as_gpt_oss(seed, window):
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

    draw = drawn(seed)
    full, sink = tensors(draw), draw(SIZES["num_heads"])
    for i, out in enumerate(played(op(full, sink=sink, window=window), TOTALS)):
        close(out, theirs(eager_attention_forward, full, i, window, sink))


@pytest.mark.hf
@pytest.mark.parametrize("window", [0, 4])
def test_softcap_as_gemma2(seed, window):
    from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward

    full = tensors(drawn(seed))
    for i, out in enumerate(played(op(full, window=window, softcap=1.5), TOTALS)):
        close(out, theirs(eager_attention_forward, full, i, window, None, softcap=1.5))


@pytest.mark.parametrize("window", [0, 1, 4, 7])
def test_steps_batches_and_padding_change_nothing(seed, window):
    draw = drawn(seed)
    full, sink = tensors(draw), draw(SIZES["num_heads"])
    check_plays(lambda: op(full, sink=sink, window=window, softcap=2.0), TOTALS, 1e-6)


def test_a_window_forgets_what_lies_before_it(seed):
    """window rows are the last `window` positions, the row itself among them."""
    full = tensors(drawn(seed), [9])
    before = played(op(full, window=4), [9])[0]
    for name in ("key", "value"):
        full[name][0][:5] = 1e3
    after = played(op(full, window=4), [9])[0]
    close(after[8:], before[8:], 0.0)
    assert float((after[7] - before[7]).abs().max()) > 1.0


def sparse(full, lists, *, block, num_lists=1, sink=None):
    count = lists[0].shape[1] // num_lists

    def run(step):
        key, cu, first = step.history(full["key"])
        value, _, _ = step.history(full["value"])
        y = step.empty(SIZES["num_heads"] * SIZES["value_dim"])
        sparse_gqa(
            step.rows(full["q"]), step.rows(lists), key, value, y, step.cu_seqlens,
            step.positions, cu, first, sink, num_selected=count, block=block,
            num_lists=num_lists, **SIZES,
        )  # fmt: skip
        return y

    return run


@pytest.mark.parametrize(("block", "num_lists"), [(1, 1), (1, 2), (3, 1), (4, 2)])
def test_selection_is_a_mask(seed, block, num_lists):
    """Against one masked softmax written out row by row, head by head."""
    draw = drawn(seed)
    full, sink = tensors(draw), draw(SIZES["num_heads"])
    generator = torch.Generator().manual_seed(seed)
    lists = [
        torch.randint(-1, 13 // block + 1, (t, num_lists * 3), generator=generator).int()
        for t in TOTALS
    ]
    n, nkv, dk = (SIZES[k] for k in ("num_heads", "num_kv_heads", "head_dim"))
    whole = check_plays(
        lambda: sparse(full, lists, block=block, num_lists=num_lists, sink=sink), TOTALS, 1e-6
    )
    for i, total in enumerate(TOTALS):
        out = whole[i].view(total, n, -1)
        for t in range(total):
            for h in range(n):
                chosen = lists[i][t].view(num_lists, 3)[h * num_lists // n].tolist()
                seen = [j for j in range(t + 1) if j // block in chosen]
                kv = h * nkv // n
                query = full["q"][i][t].view(n, dk)[h].double()
                scores = full["key"][i][seen, kv].double() @ query * SIZES["scale"]
                weights = torch.cat((scores, sink[h : h + 1].double())).softmax(0)[:-1]
                close(out[t, h], weights @ full["value"][i][seen, kv].double(), 1e-5)


def test_everything_selected_is_dense(seed):
    full = tensors(drawn(seed))
    lists = [torch.arange(13).int().repeat(t, 1) for t in TOTALS]
    dense = played(op(full), TOTALS)
    for a, b in zip(played(sparse(full, lists, block=1), TOTALS), dense, strict=True):
        close(a, b, 1e-6)


def test_an_empty_selection_gives_zeros(seed):
    full = tensors(drawn(seed))
    lists = [torch.full((t, 2), -1).int() for t in TOTALS]
    for out in played(sparse(full, lists, block=1), TOTALS):
        assert float(out.abs().max()) == 0.0


def test_fp64_in_fp64_inside(seed):
    draw = drawn(seed)
    full = tensors(lambda *dims: draw(*dims, dtype=torch.float64))
    exact = played(op(full), TOTALS)
    rounded = played(op({k: [x.float() for x in v] for k, v in full.items()}), TOTALS)
    gap = max(float((a - b).abs().max()) for a, b in zip(exact, rounded, strict=True))
    assert 0 < gap < 1e-5
