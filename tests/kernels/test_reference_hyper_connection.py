"""Definitions over residual streams and depth against transformers' modules."""

from types import SimpleNamespace

import pytest
import torch

from day0_kernels.attn_residual.reference import attn_residual
from day0_kernels.hyper_connection.reference import hyper_connection, hyper_gate, hyper_write
from tests.kernels.ragged import close, drawn

STREAMS, HIDDEN, ROWS = 3, 8, 5


def filled(module, draw):
    for parameter in module.parameters():
        parameter.data = draw(*parameter.shape) * 0.5
    return module


def config(**more):
    return SimpleNamespace(
        hc_mult=STREAMS, hc_sinkhorn_iters=4, hc_eps=1e-4, rms_norm_eps=1e-5, hidden_size=HIDDEN,
        **more,
    )  # fmt: skip


@pytest.mark.hf
def test_sinkhorn_as_deepseek_v4(seed):
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperConnection

    draw = drawn(seed)
    module = filled(DeepseekV4HyperConnection(config()), draw)
    x, update = draw(ROWS, STREAMS * HIDDEN), draw(ROWS, HIDDEN)
    post, comb, collapsed = module(x.view(1, ROWS, STREAMS, HIDDEN))
    y, ours = torch.empty(ROWS, HIDDEN), torch.empty(ROWS, STREAMS)
    mix = torch.empty(ROWS, STREAMS * STREAMS)
    hyper_connection(
        x, module.fn.data, module.base.data, module.scale.data, y, ours, mix,
        num_streams=STREAMS, variant="sinkhorn", eps=1e-4, norm_eps=1e-5, iterations=4,
    )  # fmt: skip
    close(y, collapsed[0], 1e-6)
    close(ours, post[0], 1e-6)
    close(mix, comb.reshape(ROWS, -1), 1e-6)
    # as the decoder layer writes: post (outer) update + comb^T streams
    streams = x.view(ROWS, STREAMS, HIDDEN)
    expected = post[0].unsqueeze(-1) * update.unsqueeze(1)
    expected = expected + torch.matmul(comb[0].transpose(-1, -2), streams)
    out = torch.empty_like(x)
    hyper_write(x, update, ours, out, mix, num_streams=STREAMS)
    close(out, expected.flatten(1), 1e-6)


@pytest.mark.hf
def test_identity_as_hy_v4(seed):
    from transformers.models.hy_v4.modeling_hy_v4 import HYV4HyperConnection

    draw = drawn(seed)
    module = filled(HYV4HyperConnection(config(hc_magnitude=1.7)), draw)
    x, update = draw(ROWS, STREAMS * HIDDEN), draw(ROWS, HIDDEN)
    post, collapsed = module(x.view(1, ROWS, STREAMS, HIDDEN))
    y, ours = torch.empty(ROWS, HIDDEN), torch.empty(ROWS, STREAMS)
    hyper_connection(
        x, module.fn.data, module.base.data, module.scale.data, y, ours,
        num_streams=STREAMS, variant="identity", eps=1e-4, norm_eps=1e-5, magnitude=1.7,
    )  # fmt: skip
    close(y, collapsed[0], 1e-6)
    close(ours, post[0], 1e-6)
    out = torch.empty_like(x)
    hyper_write(x, update, ours, out, num_streams=STREAMS)
    expected = x.view(ROWS, STREAMS, HIDDEN) + post[0].unsqueeze(-1) * update.unsqueeze(1)
    close(out, expected.flatten(1), 1e-6)


@pytest.mark.hf
def test_head_as_deepseek_v4(seed):
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4HyperHead

    draw = drawn(seed)
    module = filled(DeepseekV4HyperHead(config()), draw)
    x, y = draw(ROWS, STREAMS * HIDDEN), torch.empty(ROWS, HIDDEN)
    hyper_connection(
        x, module.hc_fn.data, module.hc_base.data, module.hc_scale.data, y,
        num_streams=STREAMS, variant="head", eps=1e-4, norm_eps=1e-5,
    )  # fmt: skip
    close(y, module(x.view(1, ROWS, STREAMS, HIDDEN))[0], 1e-6)


@pytest.mark.hf
@pytest.mark.parametrize("inject", [True, False])
def test_gate_as_qwen4_exp(seed, inject):
    from transformers.models.qwen4_exp.modeling_qwen4_exp import Qwen4ExpTextGatedResidual

    draw = drawn(seed)
    sizes = SimpleNamespace(hc_count=STREAMS, hidden_size=HIDDEN, rms_norm_eps=1e-6, hc_lowrank=4)
    module = filled(Qwen4ExpTextGatedResidual(sizes, use_combine=inject), draw)
    x, y, post = draw(ROWS, STREAMS * HIDDEN), torch.empty(ROWS, HIDDEN), torch.empty(ROWS, STREAMS)
    hyper_gate(
        x, module.hc_norm.weight.data, module.input_mix_weight_down.weight.data,
        module.input_mix_weight_up.weight.data, y,
        module.block_inject_weight.weight.data if inject else None, post if inject else None,
        num_streams=STREAMS, eps=1e-6, zero_centered=True,
    )  # fmt: skip
    expected = module(x)
    close(y, expected[0] if inject else expected, 1e-6)
    if inject:
        close(post, expected[2], 1e-6)


def test_sinkhorn_ends_doubly_stochastic(seed):
    draw = drawn(seed)
    rows = (2 + STREAMS) * STREAMS
    mix = torch.empty(ROWS, STREAMS * STREAMS, dtype=torch.float64)
    y = torch.empty(ROWS, HIDDEN, dtype=torch.float64)
    post = torch.empty(ROWS, STREAMS, dtype=torch.float64)
    hyper_connection(
        *(draw(*dims, dtype=torch.float64) * 0.3
          for dims in ((ROWS, STREAMS * HIDDEN), (rows, STREAMS * HIDDEN), (rows,), (3,))),
        y, post, mix,
        num_streams=STREAMS, variant="sinkhorn", eps=1e-9, norm_eps=1e-5, iterations=300,
    )  # fmt: skip
    square = mix.view(ROWS, STREAMS, STREAMS)
    ones = torch.ones(ROWS, STREAMS, dtype=torch.float64)
    close(square.sum(-1), ones, 1e-3)
    close(square.sum(-2), ones, 1e-6)


@pytest.mark.hf
@pytest.mark.parametrize("count", [1, 2, 5])
def test_depth_as_inkling2(seed, count):
    from transformers.models.inkling2.modeling_inkling2 import Inkling2BlockAttentionResidual

    draw = drawn(seed)
    x, y = [draw(ROWS, HIDDEN) * (i + 1) for i in range(count)], torch.empty(ROWS, HIDDEN)
    sizes = SimpleNamespace(hidden_size=HIDDEN, _attn_implementation="eager")
    module = filled(Inkling2BlockAttentionResidual(sizes), draw)
    blocks = torch.stack([x[-1], *x[:-1]], dim=1)[None, :, 1:]  # [1, T, count - 1, H]
    expected = module(blocks, x[-1].unsqueeze(0))[0][0]
    attn_residual(x, module.query.data, y, eps=1e-6, scale=HIDDEN**-0.5, normed_values=True)
    close(y, expected, 1e-6)


def test_depth_in_two_phases(seed):
    """arXiv 2603.15031, algorithm 1: finished blocks first, the running sum merged after."""
    draw = drawn(seed)
    x = [draw(ROWS, HIDDEN, dtype=torch.float64) * (i + 1) for i in range(4)]
    gain, proj = draw(HIDDEN, dtype=torch.float64), draw(HIDDEN, dtype=torch.float64)
    y = torch.empty(ROWS, HIDDEN, dtype=torch.float64)
    attn_residual(x, gain * proj, y, eps=1e-5)

    def score(v):
        return ((v * torch.rsqrt(v.square().mean(-1, keepdim=True) + 1e-5)) * gain) @ proj

    blocks = torch.stack(x[:-1])
    s = torch.stack([score(v) for v in x[:-1]])  # [blocks, T]
    m = s.max(0).values
    z, n = (s - m).exp().sum(0), ((s - m).exp().unsqueeze(-1) * blocks).sum(0)
    r = score(x[-1])
    top = torch.maximum(m, r)
    z = (m - top).exp() * z + (r - top).exp()
    n = (m - top).exp().unsqueeze(-1) * n + (r - top).exp().unsqueeze(-1) * x[-1]
    close(y, n / z.unsqueeze(-1), 1e-13)


def test_one_source_is_itself(seed):
    x, y = drawn(seed)(ROWS, HIDDEN), torch.empty(ROWS, HIDDEN)
    attn_residual([x], drawn(seed + 1)(HIDDEN), y, eps=1e-5)
    close(y, x, 0.0)
