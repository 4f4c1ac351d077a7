"""Definitions of hashed n-grams against transformers' qwen4_exp."""

from types import SimpleNamespace

import pytest
import torch

from day0_kernels.ngram_embedding.reference import ngram_embedding, ngram_gate
from tests.kernels.ragged import CHUNKS, close, drawn, played

MAX_N, PER_N, DIM, RESET = 3, 2, 4, 5
TOTALS = [20, 1, 2, 9]


def tokens(seed):
    """Few ids, so that the reset id comes often."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 8, (t,), generator=generator) for t in TOTALS]


def module_of(draw):
    from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextNGramEmbedding

    heads = PER_N * (MAX_N - 1)
    config = SimpleNamespace(
        ngram_size=MAX_N, heads_per_ngram=PER_N, vocab_size=50, ngram_vocab_size_base=97,
        seed=1234, eos_token_id=RESET, make_ngram_vocab_size_divisible_by=16,
    )  # fmt: skip
    module = Qwen4ExpTextNGramEmbedding(config, heads * DIM, 0, 1)
    module.ngram_embedding.weight.data = draw(*module.ngram_embedding.weight.shape)
    return module


def op(ids, module):
    heads = PER_N * (MAX_N - 1)

    def run(step):
        before = torch.full((len(step.ids), MAX_N - 1), -1)
        for row, (i, start) in enumerate(zip(step.ids, step.starts, strict=True)):
            known = ids[i][max(0, start - MAX_N + 1) : start]
            before[row, MAX_N - 1 - len(known) :] = known
        y = step.empty(heads * DIM)
        ngram_embedding(
            step.rows(ids), before, module.ngram_embedding.weight.data, module.layer_multipliers,
            module.ngram_heads_vocab_sizes, module.ngram_heads_offsets, y, step.cu_seqlens,
            num_heads=heads, max_n=MAX_N, reset_id=RESET,
        )  # fmt: skip
        return y

    return run


@pytest.mark.hf
@pytest.mark.parametrize("chunk", [None, *CHUNKS])
@pytest.mark.parametrize("pad", [0, 2])
def test_rows_as_qwen4_exp(seed, chunk, pad):
    ids, module = tokens(seed), module_of(drawn(seed))
    for i, out in enumerate(played(op(ids, module), TOTALS, chunk, pad=pad)):
        close(out, module(ids[i].unsqueeze(0), None)[0], 0.0)


def test_hash_wraps_and_is_never_negative():
    """One bigram worked out in Python's own integers."""
    multipliers = torch.tensor([2**62 + 1, -(2**61) - 3])
    a, b, size, offset = 7, 3, 11, 4
    product = (b * (2**62 + 1)) ^ (a * (-(2**61) - 3))
    wrapped = (product + 2**63) % 2**64 - 2**63
    row = wrapped % size + offset
    table = torch.arange(20.0).view(20, 1)
    y = torch.empty(1, 1)
    ngram_embedding(
        torch.tensor([b]), torch.tensor([[a]]), table, multipliers, torch.tensor([size]),
        torch.tensor([offset]), y, torch.tensor([0, 1]), num_heads=1, max_n=2,
    )  # fmt: skip
    assert float(y) == row


@pytest.mark.hf
def test_gate_as_qwen4_exp(seed):
    """The published layer up to its convolution, whose weights are zero here."""
    from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextPLELayer

    draw, streams, hidden = drawn(seed), 3, 6
    config = SimpleNamespace(
        ngram_size=MAX_N, heads_per_ngram=PER_N, vocab_size=50, ngram_vocab_size_base=97,
        seed=1234, eos_token_id=RESET, make_ngram_vocab_size_divisible_by=16, hidden_size=hidden,
        hc_count=streams, ple_embed_dim=16, ple_conv_kernel_size=4, rms_norm_eps=1e-6,
    )  # fmt: skip
    layer = Qwen4ExpTextPLELayer(config, 0, 0)
    for parameter in layer.parameters():
        parameter.data = draw(*parameter.shape)
    layer.conv1d.weight.data.zero_()
    ids, x = tokens(seed)[0], draw(20, streams * hidden)
    features = layer.ple_embedding(ids.unsqueeze(0), None)[0]
    y = torch.empty(20, streams * hidden)
    ngram_gate(
        layer.norm_key(layer.key_proj(features)), layer.norm_query(x), layer.value_proj(features),
        y, num_streams=streams,
    )  # fmt: skip
    close(y, layer(x.unsqueeze(0), ids.unsqueeze(0), None)[0])
