"""Definition of pooling: chunks, borders and tails against one pass and transformers' modules."""

import pytest
import torch

from day0_kernels.rope.reference import rope
from tests.kernels.pools import Pools
from tests.kernels.ragged import close, drawn, played

SIZE, DIM = 4, 6
TOTALS = [3, 4, 5, 7, 8, 9, 1, 23]
FORMS = {
    "mean": {"rule": "mean"},
    "softmax": {"rule": "softmax"},
    "overlap": {"rule": "softmax", "overlap": True},
    "everything": {
        "rule": "softmax", "overlap": True, "norm": "rms", "norm_eps": 1e-5, "zero_centered": True,
        "rope_dims": 4, "rope_place": "last", "rope_pairing": "interleaved", "theta": 100.0,
        "scaling": "default", "scaling_args": (),
    },
    "mean-rotated": {
        "rule": "mean", "norm": "rms", "norm_eps": 1e-6, "rope_dims": 4, "rope_place": "first",
        "rope_pairing": "half", "theta": 100.0, "scaling": "default", "scaling_args": (),
    },
}  # fmt: skip


def tensors(draw, form, size=SIZE):
    columns = DIM * (2 if form.get("overlap") else 1)
    soft = form["rule"] == "softmax"
    x = [draw(t, columns, dtype=torch.float64) for t in TOTALS]
    gate = [draw(t, columns, dtype=torch.float64) * 2 for t in TOTALS] if soft else None
    weights = {}
    if soft:
        weights["position_bias"] = draw(size, columns, dtype=torch.float64)
    if form.get("norm"):
        weights["norm_weight"] = draw(DIM, dtype=torch.float64)
    return x, gate, weights


def entries(form, x, gate, weights, chunk, *, size=SIZE, ids=(), pad=0):
    pools = Pools(TOTALS, DIM, size=size, dtype=torch.float64, **form)

    def run(step):
        pools.write(step, x, gate, **weights)
        nothing = step.empty(1)  # the op's outputs are its caches
        nothing[: step.count] = 0.0
        return nothing

    played(run, TOTALS, chunk, ids=ids, pad=pad)
    return pools


def written_out(form, x, gate, weights, pool, size):
    """One pool, slot by slot: (weight, value) pairs summed."""
    rows = range(pool * size, pool * size + size)
    bias = weights.get("position_bias", torch.zeros(size, x.shape[1], dtype=x.dtype))
    if not form.get("overlap"):
        slots = [(r, r - pool * size, slice(0, DIM)) for r in rows]
    else:
        slots = [(r, r - pool * size, slice(DIM, None)) for r in rows]
        if pool:
            slots += [(r - size, r - pool * size, slice(0, DIM)) for r in rows]
    values = torch.stack([x[r, half] for r, _, half in slots])
    if form["rule"] == "mean":
        entry = values.sum(0) / size
    else:
        logits = torch.stack([gate[r, half] + bias[p, half] for r, p, half in slots])
        shares = logits.exp() / logits.exp().sum(0)
        entry = (shares * values).sum(0)
    if form.get("norm"):
        gain = weights["norm_weight"] + (1 if form.get("zero_centered") else 0)
        entry = entry / (entry.square().mean() + form["norm_eps"]).sqrt() * gain
    if form.get("rope_dims"):
        y = torch.empty(1, DIM, dtype=entry.dtype)
        rope(
            entry.view(1, -1), y, torch.tensor([pool * size]), theta=form["theta"], num_heads=1,
            dims=form["rope_dims"], place=form["rope_place"], pairing=form["rope_pairing"],
        )  # fmt: skip
        entry = y[0]
    return entry


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 4, 5, 9])
def test_entries_by_any_chunks(seed, name, chunk):
    form = FORMS[name]
    x, gate, weights = tensors(drawn(seed), form)
    pools = entries(form, x, gate, weights, chunk)
    for i, total in enumerate(TOTALS):
        assert pools.entries[i].shape[0] == total // SIZE
        for pool in range(total // SIZE):
            expected = written_out(
                form, x[i], None if gate is None else gate[i], weights, pool, SIZE
            )
            close(pools.entries[i][pool], expected, 1e-12)


@pytest.mark.parametrize("name", ["softmax", "overlap"])
def test_padding_and_other_sequences_change_nothing(seed, name):
    form = FORMS[name]
    x, gate, weights = tensors(drawn(seed), form)
    whole = entries(form, x, gate, weights, None)
    padded = entries(form, x, gate, weights, 3, pad=2)
    alone = entries(form, x, gate, weights, 3, ids=(7,))
    for i in range(len(TOTALS)):
        close(padded.entries[i], whole.entries[i], 1e-13)
    close(alone.entries[7], whole.entries[7], 1e-13)
    assert bool(alone.tails[0][:7].isnan().all())  # slots of others: untouched
    assert bool(whole.tails[0][0].isnan().all())  # slot 0 is nobody's


@pytest.mark.parametrize("name", ["mean", "overlap"])
def test_tails_hold_the_last_rows_oldest_first(seed, name):
    form = FORMS[name]
    x, gate, weights = tensors(drawn(seed), form)
    for chunk in (None, 1, 3):
        pools = entries(form, x, gate, weights, chunk)
        span = pools.tails[0].shape[1]
        for i, total in enumerate(TOTALS):
            kept = min(span, total)
            close(pools.tails[0][i + 1, span - kept :], x[i][total - kept :], 0.0)
            assert bool(pools.tails[0][i + 1, : span - kept].isnan().all())


@pytest.mark.hf
def test_as_glm5_next(seed):
    """The published pooling of index keys on packed keys, gates and validity."""
    from types import SimpleNamespace

    from transformers.models.glm5_next.modeling_glm5_next import Glm5NextTextIndexer

    x, gate, weights = tensors(drawn(seed), FORMS["softmax"])
    module = SimpleNamespace(
        head_dim=DIM, index_kpool=SIZE, index_kpool_compress_ape=weights["position_bias"]
    )
    pools = entries(FORMS["softmax"], x, gate, weights, 3)
    for i, total in enumerate(TOTALS):
        packed = torch.cat((x[i], gate[i], torch.ones(total, 1, dtype=torch.float64)), -1)
        keys, _, _ = Glm5NextTextIndexer.get_pooled_states(module, packed.unsqueeze(0))
        close(pools.entries[i], keys[0], 1e-6)


def test_pools_of_two_and_of_one(seed):
    """DeepSeek-V4.1: pairs; a pool of one row has no tail at all."""
    for size in (2, 1):
        form = {"rule": "softmax"}
        x, gate, weights = tensors(drawn(seed), form, size)
        pools = entries(form, x, gate, weights, 3, size=size)
        for i, total in enumerate(TOTALS):
            for pool in range(total // size):
                expected = written_out(form, x[i], gate[i], weights, pool, size)
                close(pools.entries[i][pool], expected, 1e-12)
