"""Definitions of the indexers against transformers' modules: what is chosen, by its scores."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from day0_kernels.indexer.reference import indexer
from tests.kernels.ragged import check_plays, drawn, played

NI, DI, BLOCK, TOTAL = 4, 6, 3, 26


def op(q, entries, *, every=1, head_weights=None, **attrs):
    def run(step):
        entry, cu, first = step.history(entries, every=every)
        width = attrs["top_k"] * attrs.get("num_lists", 1)
        selected = step.empty(width, dtype=torch.int32)
        indexer(
            step.rows(q), entry, selected, step.cu_seqlens, step.positions, cu, first,
            None if head_weights is None else step.rows(head_weights),
            num_heads=NI, head_dim=DI, **attrs,
        )  # fmt: skip
        return selected

    return run


def filled(module, draw):
    for parameter in module.parameters():
        parameter.data = draw(*parameter.shape)
    return module.eval()


def same_choice(ours, theirs, values):
    """Both name as many numbers and numbers of the same scores: ties may fall either way.

    `values` [T, numbers]: the score of each number, -inf where the row must not name it.
    """
    for t in range(ours.shape[0]):
        left, right = (row[row >= 0].long() for row in (ours[t], theirs[t]))
        assert left.unique().numel() == left.numel() == right.numel(), f"row {t}: {left}, {right}"
        assert torch.equal(left, left.sort().values), f"row {t} is not ascending: {left}"
        assert bool((ours[t][left.numel() :] == -1).all())
        a, b = (values[t, numbers].sort().values for numbers in (left, right))
        assert bool(a.isfinite().all()), f"row {t} names what it does not see: {left}"
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-5), f"row {t}: {left} for {right}"


def rows_of(mask):
    """[T, S] bool -> [T, S] numbers, -1 elsewhere."""
    numbers = torch.arange(mask.shape[-1]).expand(mask.shape)
    return numbers.masked_fill(~mask, -1)


def weighted(q, keys, weights):
    scores = torch.einsum("tnd,sd->tns", q.double(), keys.double()).relu()
    return torch.einsum("tns,tn->ts", scores, weights.double()) * (NI * DI) ** -0.5


@pytest.mark.hf
@pytest.mark.parametrize("top_k", [1, 5, TOTAL, 40])
def test_tokens_as_deepseek_v32(seed, top_k):
    from transformers.models.deepseek_v32.modeling_deepseek_v32 import DeepseekV32Indexer

    draw = drawn(seed)
    config = SimpleNamespace(
        hidden_size=10, index_n_heads=NI, index_head_dim=DI, qk_rope_head_dim=4, q_lora_rank=8,
        index_topk=top_k,
    )  # fmt: skip
    module = filled(DeepseekV32Indexer(config, 0), draw)
    x, latent = draw(TOTAL, 10), draw(TOTAL, 8)
    seen = torch.ones(TOTAL, TOTAL).tril() > 0
    plain = (torch.ones(1, TOTAL, 4), torch.zeros(1, TOTAL, 4))  # angle 0: q and k as projected
    theirs = module(x[None], latent[None], plain, seen[None], torch.arange(TOTAL)[None])[0]
    theirs = theirs.masked_fill(~seen.gather(1, theirs.long()), -1)
    with torch.no_grad():
        q, k = module.wq_b(latent), module.k_norm(module.wk(x))
        weights = module.weights_proj(x)
    ours = played(
        op([q], [k], head_weights=[weights], top_k=top_k, scale=(NI * DI) ** -0.5), [TOTAL], 7
    )[0]
    values = weighted(q.view(TOTAL, NI, DI), k, weights).masked_fill(~seen, float("-inf"))
    same_choice(ours, theirs, values)


@pytest.mark.hf
@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize("picks", [1, 3, 20])
def test_pools_and_tail_as_glm5_next(seed, tail, picks):
    from transformers.models.glm5_next.modeling_glm5_next import Glm5NextTextIndexer

    draw = drawn(seed)
    config = SimpleNamespace(
        hidden_size=10, index_n_heads=NI, index_head_dim=DI, qk_rope_head_dim=0, q_lora_rank=8,
        index_topk=picks * BLOCK, index_kpool=BLOCK, index_kpool_always_select_tail=tail,
    )  # fmt: skip
    module = filled(Glm5NextTextIndexer(config, 0), draw)
    x, latent = draw(TOTAL, 10), draw(TOTAL, 8)
    valid = torch.ones(1, TOTAL, dtype=torch.bool)
    theirs = module(x[None], latent[None], valid, None)[0]
    with torch.no_grad():
        q, k = module.wq_b(latent), module.k_norm(module.wk(x))
        gate = F.linear(x, module.index_kpool_compress_gate)
        packed = torch.cat((k, gate, torch.ones(TOTAL, 1)), -1)
        pools = module.get_pooled_states(packed[None])[0][0]
        weights = module.weights_proj(x)
    width = picks * BLOCK + (BLOCK - 1 if tail else 0)
    ours = played(
        op([q], [pools], every=BLOCK, head_weights=[weights], top_k=width, tail=tail,
           scale=(NI * DI) ** -0.5, pool="softmax", block=BLOCK), [TOTAL], 7,
    )[0]  # fmt: skip
    same_choice(ours, theirs, pooled_values(weighted(q.view(TOTAL, NI, DI), pools, weights), tail))


def pooled_values(scores, tail):
    """Scores of tokens: their closed pool's; for tokens of the open pool one each of its own."""
    values = torch.full((TOTAL, TOTAL), float("-inf"), dtype=scores.dtype)
    for t in range(TOTAL):
        for j in range(t + 1):
            if j // BLOCK < (t + 1) // BLOCK:
                values[t, j] = scores[t, j // BLOCK]
            elif tail:
                values[t, j] = 1e6 + j
    return values


@pytest.mark.hf
@pytest.mark.parametrize("picks", [1, 3, 20])
def test_averaged_keys_as_qwen4_exp(seed, picks):
    from transformers.models.qwen4_exp import modeling_qwen4_exp as qwen

    draw = drawn(seed)
    config = SimpleNamespace(
        hidden_size=10, indexer_n_heads=NI, indexer_kv_heads=1, indexer_head_dim=DI,
        indexer_budget=picks * BLOCK, indexer_compress_ratio=BLOCK, rms_norm_eps=1e-6,
    )  # fmt: skip
    module = filled(qwen.Qwen4ExpTextQSAIndexer(config, 0), draw)
    x, angle = draw(TOTAL, 10), torch.arange(TOTAL).view(-1, 1) * torch.tensor([1.0, 0.1] * 2)
    cos, sin = angle.cos()[None], angle.sin()[None]
    seen = torch.ones(TOTAL, TOTAL).tril() > 0
    with torch.no_grad():
        theirs = rows_of(module(x[None], (cos, sin), seen[None, None], None)[0, 0])
        q, k = module.index_qk_proj(x).split((NI * DI, DI), -1)
        q = module.q_layernorm(q.view(1, TOTAL, NI, DI))
        q = qwen.apply_rotary_pos_emb(q, cos=cos, sin=sin, unsqueeze_dim=2)[0]
        keys = module.k_layernorm(k[: TOTAL // BLOCK * BLOCK].view(-1, BLOCK, DI).mean(1))
        keys = qwen.apply_rotary_pos_emb(
            keys[None, :, None], cos=cos[:, : TOTAL - BLOCK + 1 : BLOCK],
            sin=sin[:, : TOTAL - BLOCK + 1 : BLOCK], unsqueeze_dim=2,
        )[0, :, 0]  # fmt: skip
    ours = played(
        op([q.flatten(1)], [keys], every=BLOCK, top_k=picks * BLOCK + BLOCK - 1, tail=True,
           scale=DI**-0.5, pool="mean", block=BLOCK), [TOTAL], 7,
    )[0]  # fmt: skip
    scores = torch.einsum("tnd,sd->tns", q.double(), keys.double()).relu().sum(1) * DI**-0.5
    same_choice(ours, theirs, pooled_values(scores, True))


@pytest.mark.hf
@pytest.mark.parametrize("local", [0, 1, 3])
@pytest.mark.parametrize("picks", [3, 20])
def test_pooled_scores_as_minimax_m3(seed, local, picks):
    from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import MiniMaxM3VLIndexer

    draw = drawn(seed)
    config = SimpleNamespace(
        hidden_size=10, index_n_heads=NI, index_head_dim=DI, index_block_size=BLOCK,
        index_topk_blocks=picks, index_local_blocks=local, rms_norm_eps=1e-6,
    )  # fmt: skip
    module = filled(MiniMaxM3VLIndexer(config, 0), draw)
    x, at = draw(TOTAL, 10), torch.arange(TOTAL)
    plain = (torch.ones(1, TOTAL, 4), torch.zeros(1, TOTAL, 4))
    with torch.no_grad():
        theirs = module(x[None], plain, None, at[None])[0]  # [lists, T, k]
        q = module.q_norm(module.q_proj(x).view(TOTAL, NI, DI))
        k = module.k_norm(module.k_proj(x))
    ours = played(
        op([q.flatten(1)], [k], top_k=picks, scale=1.0, relu=False, pool="max", block=BLOCK,
           unit="block", local_blocks=local, num_lists=NI), [TOTAL], 7,
    )[0].view(TOTAL, NI, picks)  # fmt: skip
    for h in range(NI):
        scores = (q[:, h].double() @ k.double().t()).masked_fill(at.view(-1, 1) < at, float("-inf"))
        blocks = F.pad(scores, (0, -TOTAL % BLOCK), value=float("-inf")).view(TOTAL, -1, BLOCK)
        same_choice(ours[:, h], theirs[h], blocks.amax(-1))
        own = at // BLOCK
        for back in range(local):
            wanted = (own - back).clamp(min=0)
            assert bool((ours[:, h] == wanted.view(-1, 1)).any(-1).all())


FORMS = {
    "tokens": {"top_k": 5, "scale": 0.3},
    "pools-tail": {"top_k": 2 * BLOCK + BLOCK - 1, "scale": 0.3, "pool": "softmax", "block": BLOCK,
                   "tail": True},
    "pools": {"top_k": 2 * BLOCK, "scale": 0.3, "pool": "mean", "block": BLOCK},
    "pool-numbers": {"top_k": 4, "scale": 0.3, "pool": "softmax", "block": BLOCK, "unit": "block"},
    "blocks": {"top_k": 3, "scale": 1.0, "relu": False, "pool": "max", "block": BLOCK,
               "unit": "block", "local_blocks": 1, "num_lists": NI},
    "blocks-shared-lists": {"top_k": 3, "scale": 1.0, "pool": "max", "block": BLOCK,
                            "unit": "block", "num_lists": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_steps_batches_and_padding_change_nothing(seed, name):
    """Lengths around the list's, the block's and the pool's borders."""
    draw, form = drawn(seed), FORMS[name]
    totals = [1, BLOCK - 1, BLOCK, BLOCK + 1, 5, 6, 2 * BLOCK + 1, 20]
    stored = form.get("pool") in ("softmax", "mean")
    every = BLOCK if stored else 1
    q = [draw(t, NI * DI, dtype=torch.float64) for t in totals]
    entries = [draw(t // every, DI, dtype=torch.float64) for t in totals]
    weights = [draw(t, NI, dtype=torch.float64) for t in totals] if name != "blocks" else None
    whole = check_plays(
        lambda: op(q, entries, every=every, head_weights=weights, **form), totals, 0.0
    )
    picks = 2 if name in ("pools", "pools-tail") else form["top_k"]
    for total, out in zip(totals, whole, strict=True):
        for t in range(total):
            named = out[t].view(form.get("num_lists", 1), -1)
            candidates = (t + 1) // BLOCK if stored else t + 1
            if form.get("pool") == "max":
                candidates = t // BLOCK + 1
            many = min(candidates, picks)
            if stored and form.get("unit") != "block":
                many = many * BLOCK + ((t + 1) % BLOCK if form.get("tail") else 0)
            assert bool(((named >= 0).sum(-1) == many).all())


def test_equal_scores_take_the_lower_number():
    q, entry = [torch.ones(6, NI * DI)], [torch.zeros(6, DI)]
    out = played(op(q, entry, top_k=3, scale=1.0), [6])[0]
    assert out.tolist() == [[0, -1, -1], [0, 1, -1], *[[0, 1, 2]] * 4]
