"""Definitions of mla and sparse_mla: both forms against each other and transformers' attention."""

from types import SimpleNamespace

import pytest
import torch

from day0_kernels.mla.reference import mla, mla_absorbed
from day0_kernels.sparse_mla.reference import sparse_mla, sparse_mla_absorbed
from tests.kernels.ragged import check_plays, close, drawn, played

TOTALS = [11, 4, 1]
SHAPES = {
    "rope": {"num_heads": 3, "nope_dim": 8, "rope_dim": 4, "value_dim": 6, "latent_dim": 10},
    "nope": {"num_heads": 2, "nope_dim": 6, "rope_dim": 0, "value_dim": 8, "latent_dim": 12},
}
DENSE, SPARSE = (mla, mla_absorbed), (sparse_mla, sparse_mla_absorbed)


def tensors(draw, sizes, dtype=torch.float32):
    n, dn, dr, dv, r = sizes.values()
    full = {
        "q": [draw(t, n * (dn + dr), dtype=dtype) for t in TOTALS],
        "latent": [draw(t, r, dtype=dtype) for t in TOTALS],
        "k_rope": [draw(t, dr, dtype=dtype) for t in TOTALS] if dr else None,
    }
    weights = {
        "w_uk": draw(n * dn, r, dtype=dtype), "w_uv": draw(n * dv, r, dtype=dtype),
        "sink": draw(n, dtype=dtype),
    }  # fmt: skip
    return full, weights


def op(function, sizes, full, weights, *, lists=None, **attrs):
    def run(step):
        window = attrs.get("window", 0)
        latent, cu, first = step.history(full["latent"], window)
        y = step.empty(sizes["num_heads"] * sizes["value_dim"], dtype=latent.dtype)
        if lists is not None:
            attrs.update(selected=step.rows(lists), num_selected=lists[0].shape[1])
        function(
            q=step.rows(full["q"]), latent=latent, y=y, cu_seqlens=step.cu_seqlens,
            positions=step.positions, cu_history=cu, history_first=first,
            k_rope=None if full["k_rope"] is None else step.history(full["k_rope"], window)[0],
            scale=0.3, **weights, **sizes, **attrs,
        )  # fmt: skip
        return y

    return run


def random_lists(seed, count=5):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(-1, 12, (t, count), generator=generator).int() for t in TOTALS]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("window", [0, 1, 4, 5])
def test_dense_forms_agree(seed, shape, window):
    sizes = SHAPES[shape]
    full, weights = tensors(drawn(seed), sizes, torch.float64)
    a, b = (played(op(f, sizes, full, weights, window=window), TOTALS) for f in DENSE)
    for left, right in zip(a, b, strict=True):
        close(left, right, 1e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_sparse_forms_agree(seed, shape):
    sizes = SHAPES[shape]
    full, weights = tensors(drawn(seed), sizes, torch.float64)
    lists = random_lists(seed)
    a, b = (played(op(f, sizes, full, weights, lists=lists), TOTALS) for f in SPARSE)
    for left, right in zip(a, b, strict=True):
        close(left, right, 1e-13)


@pytest.mark.parametrize("function", [*DENSE, *SPARSE], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_batches_and_padding_change_nothing(seed, function, shape):
    full, weights = tensors(drawn(seed), SHAPES[shape])
    lists = random_lists(seed) if function in SPARSE else None
    check_plays(lambda: op(function, SHAPES[shape], full, weights, lists=lists), TOTALS, 1e-6)


@pytest.mark.hf
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_as_deepseek(seed, shape, kind):
    """Keys and values expanded by transformers' own module, attention by its eager function."""
    from transformers.models.deepseek_v32 import modeling_deepseek_v32 as theirs

    sizes = SHAPES[shape]
    n, dn, dr, dv, r = sizes.values()
    full, weights = tensors(drawn(seed), sizes)
    weights["sink"] = None
    lists = random_lists(seed) if kind == "sparse" else None
    function = sparse_mla if kind == "sparse" else mla
    outputs = played(op(function, sizes, full, weights, lists=lists), TOTALS)
    kv_b = torch.cat((weights["w_uk"].view(n, dn, r), weights["w_uv"].view(n, dv, r)), dim=1)
    module = SimpleNamespace(num_key_value_groups=1, training=False)
    for i, total in enumerate(TOTALS):
        expanded = (full["latent"][i] @ kv_b.flatten(0, 1).t()).view(total, n, dn + dv)
        k, v = expanded.split((dn, dv), dim=-1)
        if dr:
            k = torch.cat((k, full["k_rope"][i].unsqueeze(1).expand(-1, n, -1)), dim=-1)
        seen = torch.ones(total, total).tril() > 0
        if lists is not None:
            named = torch.zeros(total, 13)
            named.scatter_(1, lists[i].long().where(lists[i] >= 0, torch.tensor(12)), 1.0)
            seen = seen & (named[:, :total] > 0)
        mask = torch.zeros(total, total).masked_fill(~seen, torch.finfo(torch.float32).min)
        q, k, v = (part.view(1, total, n, -1).transpose(1, 2) for part in (full["q"][i], k, v))
        out, _ = theirs.eager_attention_forward(module, q, k, v, mask[None, None], scaling=0.3)
        rows = seen.any(-1)  # a row that sees nothing: zeros here, anything there
        close(outputs[i][rows], out.reshape(total, -1)[rows])
        assert float(outputs[i][~rows].abs().sum()) == 0.0


def test_a_whole_selection_is_dense(seed):
    sizes = SHAPES["rope"]
    full, weights = tensors(drawn(seed), sizes)
    lists = [torch.arange(11).int().repeat(t, 1) for t in TOTALS]
    dense = played(op(mla, sizes, full, weights), TOTALS)
    for a, b in zip(
        played(op(sparse_mla, sizes, full, weights, lists=lists), TOTALS), dense, strict=True
    ):
        close(a, b, 1e-6)
