"""Definitions of the glue ops against torch, transformers and written-out figures."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from day0_kernels.basic import reference as basic
from tests.kernels.ragged import close, drawn


def called(function, y, /, *args, **attrs):
    function(*args, y=y, **attrs)
    return y


ACTIVATIONS = {
    "silu": F.silu, "sigmoid": torch.sigmoid, "gelu": F.gelu, "relu": F.relu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu2": lambda x: F.relu(x) ** 2,
    "softplus": F.softplus,
}  # fmt: skip


@pytest.mark.parametrize("function", ACTIVATIONS)
def test_activation(seed, function):
    x = drawn(seed)(5, 7) * 8
    y = called(basic.activation, torch.empty(5, 7), x, function=function)
    close(y, ACTIVATIONS[function](x), 0.0)


def test_outputs_take_the_buffers_type(seed):
    """bf16 in, fp32 inside, one rounding at the end."""
    x = drawn(seed)(64, 32, dtype=torch.bfloat16)
    y = called(basic.activation, torch.empty_like(x), x, function="silu")
    assert torch.equal(y, F.silu(x.float()).bfloat16())


def test_add_and_concat(seed):
    draw = drawn(seed)
    a, b = draw(3, 4), draw(3, 4)
    close(called(basic.add, torch.empty(3, 4), a, b, scale_a=0.5, scale_b=-2.0), a / 2 - 2 * b, 0.0)
    joined = called(basic.concat, torch.empty(3, 9), [a, draw(3, 5)])
    assert torch.equal(joined[:, :4], a)


def test_embedding(seed):
    table = drawn(seed)(11, 6)
    ids = torch.tensor([3, 10, 0, 3], dtype=torch.int32)
    y = called(basic.embedding, torch.empty(4, 6), ids, table, scale=3.0)
    close(y, F.embedding(ids.long(), table) * 3, 0.0)


def test_gate_per_channel_and_per_head(seed):
    draw = drawn(seed)
    x, full, heads = draw(5, 12), draw(5, 12), draw(5, 3)
    close(called(basic.gate, torch.empty(5, 12), x, full, activation="silu"), x * F.silu(full), 0.0)
    y = called(basic.gate, torch.empty(5, 12), x, heads, activation="sigmoid", num_heads=3)
    close(y, (x.view(5, 3, 4) * heads.sigmoid().unsqueeze(-1)).flatten(1), 0.0)
    close(called(basic.gate, torch.empty(5, 12), x, full, activation="none"), x * full, 0.0)


@pytest.mark.hf
@pytest.mark.parametrize("model", ["gpt_oss", "deepseek_v4", "minimax_m3_vl"])
def test_glu_as_transformers(seed, model):
    draw = drawn(seed)
    gate, up = draw(9, 6) * 6, draw(9, 6) * 6
    y = torch.empty(9, 6)
    if model == "gpt_oss":
        from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts

        module = SimpleNamespace(alpha=1.702, limit=7.0)
        expected = GptOssExperts._apply_gate(module, torch.stack((gate, up), -1).flatten(1))
        basic.glu(gate, up, y, function="swigluoai", alpha=1.702, limit=7.0)
    elif model == "deepseek_v4":
        from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4Experts

        module = SimpleNamespace(act_fn=F.silu, limit=5.0)
        expected = DeepseekV4Experts._apply_gate(module, torch.cat((gate, up), -1))
        basic.glu(gate, up, y, function="silu", limit=5.0)
    else:
        from transformers.models.minimax_m3_vl import modeling_minimax_m3_vl as theirs

        module = SimpleNamespace(swiglu_alpha=1.3, swiglu_limit=4.0, alpha=1.3, limit=4.0)
        expected = theirs.MiniMaxM3VLExperts._apply_gate(module, torch.cat((gate, up), -1))
        basic.glu(gate, up, y, function="swigluoai", alpha=1.3, limit=4.0)
    close(y, expected, 1e-6)


def test_situ_has_the_published_values():
    """Gate factors of beta 4 to four digits (kimi-k3 facts); the up factor is soft at 25."""
    gate = torch.tensor([[-4.0, -1.0, 0.0, 1.0, 4.0, 100.0]])
    expected = torch.tensor([[-0.0548, -0.2635, 0.0, 0.7162, 2.9916, 4.0]])
    y = torch.empty(1, 6)
    basic.glu(gate, torch.ones(1, 6), y, function="situ", beta=4.0)
    assert float((y - expected).abs().max()) < 5e-5
    basic.glu(torch.full((1, 6), 100.0), torch.full((1, 6), 1e4), y, function="situ", beta=4.0,
              linear_beta=25.0)  # fmt: skip
    close(y, torch.full((1, 6), 100.0), 1e-6)


def test_swigluoai_needs_alpha():
    x = torch.zeros(1, 2)
    with pytest.raises(ValueError, match="alpha"):
        basic.glu(x, x, x, function="swigluoai")


def test_layernorm(seed):
    draw = drawn(seed)
    x, weight, bias = draw(5, 12) * 3 + 2, draw(12), draw(12)
    y = torch.empty(5, 12)
    basic.layernorm(x, y, weight, bias, eps=1e-6)
    close(y, F.layer_norm(x, (12,), weight, bias, 1e-6), 1e-6)
    basic.layernorm(x, y, eps=1e-5)
    close(y, F.layer_norm(x, (12,), eps=1e-5), 1e-6)


def test_linear(seed):
    draw = drawn(seed)
    x, weight, bias = draw(5, 12), draw(7, 12), draw(7)
    y = called(basic.linear, torch.empty(5, 7), x, weight, bias=bias)
    close(y, F.linear(x, weight, bias), 1e-6)


@pytest.mark.hf
def test_grouped_linear_as_deepseek_v4(seed):
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4GroupedLinear

    draw = drawn(seed)
    x, weight = draw(5, 12), draw(9, 4)
    module = DeepseekV4GroupedLinear(4, 9, 3)
    module.weight.data = weight
    expected = module(x.view(1, 5, 3, 4)).reshape(5, 9)
    close(called(basic.linear, torch.empty(5, 9), x, weight, groups=3), expected, 1e-6)


@pytest.mark.hf
def test_ssmax_as_mistral_large4(seed):
    from transformers.models.mistral_large4 import modeling_mistral_large4 as theirs

    draw, positions = drawn(seed), torch.tensor([0, 1, 63, 999])
    module = theirs.MistralLarge4TextSoftmaxScaling(3)
    module.scale.data, module.bias.data = draw(3), draw(3)
    x = draw(4, 3 * 5)
    expected = module(x.view(1, 4, 3, 5), positions.unsqueeze(0), head_dim_first=False)
    y = torch.empty_like(x)
    basic.position_scale(
        x, y, positions, module.scale.data, module.bias.data, rule="ssmax", num_heads=3
    )
    close(y, expected.reshape(4, -1), 1e-6)


def test_floor_log_scale(seed):
    """Llama 4: nothing below the original length, a step at each multiple of it."""
    positions = torch.tensor([0, 7, 8, 15, 16])
    x = drawn(seed)(5, 6)
    y = torch.empty_like(x)
    basic.position_scale(x, y, positions, rule="floor_log", num_heads=2, beta=0.1, original=8)
    steps = torch.tensor([0.0, 0.0, 1.0, 1.0, 2.0])
    close(y, x * (1 + 0.1 * torch.log(steps + 1)).unsqueeze(1), 1e-6)


@pytest.mark.hf
@pytest.mark.parametrize("kind", ["plain", "unweighted", "per_head", "slices"])
def test_rmsnorm_as_transformers(seed, kind):
    from transformers.models.deepseek_v4 import modeling_deepseek_v4 as v4
    from transformers.models.qwen4_exp import modeling_qwen4_exp as qwen

    draw = drawn(seed)
    x, y = draw(5, 12) * 3, torch.empty(5, 12)
    if kind == "plain":
        module = v4.DeepseekV4RMSNorm(12, eps=1e-5)
        module.weight.data = draw(12)
        basic.rmsnorm(x, y, module.weight.data, eps=1e-5, scale=1.5)
        close(y, module(x) * 1.5, 1e-6)
    elif kind == "unweighted":
        basic.rmsnorm(x, y, eps=1e-20, group=4)
        close(y, v4.DeepseekV4UnweightedRMSNorm(eps=1e-20)(x.view(5, 3, 4)).view(5, 12), 1e-6)
    elif kind == "per_head":
        module = qwen.Qwen4ExpTextRMSNorm(4, eps=1e-6)
        module.weight.data = draw(4)
        basic.rmsnorm(x, y, module.weight.data, eps=1e-6, group=4, zero_centered=True)
        close(y, module(x.view(5, 3, 4)).view(5, 12), 1e-6)
    else:
        module = qwen.Qwen4ExpTextRMSNorm(12, group_size=4, eps=1e-6)
        module.weight.data = draw(12)
        basic.rmsnorm(x, y, module.weight.data, eps=1e-6, group=4, zero_centered=True)
        close(y, module(x), 1e-6)


def test_softcap(seed):
    x = drawn(seed)(5, 4) * 100
    y = called(basic.softcap, torch.empty(5, 4), x, cap=30.0, scale=0.5)
    close(y, 30 * torch.tanh(x / 60), 1e-6)
    close(called(basic.softcap, torch.empty(5, 4), x, scale=0.25), x / 4, 0.0)


def test_streams(seed):
    x = drawn(seed)(5, 4)
    wide = called(basic.streams, torch.empty(5, 12), x, num_streams=3, rule="copy")
    assert torch.equal(wide.view(5, 3, 4), x.unsqueeze(1).expand(5, 3, 4))
    other = drawn(seed + 1)(5, 12)
    mean = called(basic.streams, torch.empty(5, 4), other, num_streams=3, rule="mean")
    close(mean, other.view(5, 3, 4).mean(1), 1e-6)


def test_take_rows(seed):
    x = drawn(seed)(6, 4)
    y = torch.full((3, 4), float("nan"))
    basic.take_rows(x, y, torch.tensor([0, 2, 2, 6]), rows="R")
    assert torch.equal(y, torch.stack((x[1], torch.zeros(4), x[5])))
    with pytest.raises(ValueError, match="zigzag"):
        basic.take_rows(x, y, torch.tensor([0, 6]), rows="zigzag")
