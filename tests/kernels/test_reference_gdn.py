"""Definitions of the linear recurrences (gdn, lightning): recurrent = chunked = transformers."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from day0_kernels.gdn.reference import gdn, gdn_chunked
from day0_kernels.lightning.reference import lightning, lightning_chunked
from tests.kernels.ragged import Step, check_plays, close, drawn, played

TOTALS = [70, 1, 9, 64, 65]
SIZES = {"num_key_heads": 2, "num_heads": 4, "head_dim": 6, "value_dim": 5}
LIGHT = {"num_heads": 3, "head_dim": 6, "slope_scale": 0.8}


def gdn_tensors(draw, dtype=torch.float32):
    nk, n, dk, dv = SIZES.values()
    widths = {"q": nk * dk, "k": nk * dk, "v": n * dv, "decay": n, "beta": n}
    full = {name: [draw(t, w, dtype=dtype) for t in TOTALS] for name, w in widths.items()}
    return full, {"a_log": draw(n, dtype=dtype), "dt_bias": draw(n, dtype=dtype)}


def gdn_op(function, full, weights, state, **attrs):
    def run(step):
        y = step.empty(SIZES["num_heads"] * SIZES["value_dim"], dtype=state.dtype)
        function(
            **{name: step.rows(rows) for name, rows in full.items()}, **weights, state=state, y=y,
            cu_seqlens=step.cu_seqlens, slot=step.slot, start=step.start, **SIZES, **attrs,
        )  # fmt: skip
        return y

    return run


def states(*dims, dtype=torch.float32):
    """Poison in every slot: nothing may be read before it was written."""
    return torch.full((len(TOTALS) + 1, *dims), float("nan"), dtype=dtype)


def gdn_state(dtype=torch.float32):
    return states(SIZES["num_heads"], SIZES["head_dim"], SIZES["value_dim"], dtype=dtype)


@pytest.mark.parametrize("function", [gdn, gdn_chunked], ids=lambda f: f.__name__)
def test_gdn_steps_batches_and_padding_change_nothing(seed, function):
    full, weights = gdn_tensors(drawn(seed))
    check_plays(lambda: gdn_op(function, full, weights, gdn_state()), TOTALS, 1e-5)


@pytest.mark.parametrize("chunk", [1, 5, 64])
@pytest.mark.parametrize("beta_scale", [1.0, 2.0])
def test_gdn_chunked_is_recurrent(seed, chunk, beta_scale):
    full, weights = gdn_tensors(drawn(seed), torch.float64)
    a, b = gdn_state(torch.float64), gdn_state(torch.float64)
    outputs = played(gdn_op(gdn, full, weights, a, beta_scale=beta_scale), TOTALS)
    others = played(
        gdn_op(gdn_chunked, full, weights, b, beta_scale=beta_scale, chunk=chunk), TOTALS
    )
    for left, right in zip(others, outputs, strict=True):
        close(left, right, 1e-11)
    close(b[1:], a[1:], 1e-11)
    assert bool(a[0].isnan().all())


@pytest.mark.hf
@pytest.mark.parametrize("form", ["recurrent", "chunk"])
@pytest.mark.parametrize("beta_scale", [1.0, 2.0])
def test_gdn_as_qwen3_next(seed, form, beta_scale):
    """transformers' functions on the second half of each sequence, from our carried state."""
    from transformers.models.qwen4_exp import modeling_qwen4_exp as theirs

    function = getattr(theirs, f"torch_{form}_gated_delta_rule")
    full, weights = gdn_tensors(drawn(seed))
    nk, n, dk, dv = SIZES.values()
    state = gdn_state()
    op = gdn_op(gdn, full, weights, state, beta_scale=beta_scale)
    half = tuple(t // 2 for t in TOTALS)
    ids = tuple(range(len(TOTALS)))
    op(Step(ids=ids, starts=(0,) * len(ids), lengths=half))
    carried = state.clone()
    rest = tuple(t - h for t, h in zip(TOTALS, half, strict=True))
    out = op(Step(ids=ids, starts=half, lengths=rest)).split(rest)
    for i, start in enumerate(half):
        q, k, v = (
            full[name][i][None, start:].view(1, rest[i], heads, -1)
            for name, heads in (("q", nk), ("k", nk), ("v", n))
        )
        decay, beta = full["decay"][i][None, start:], full["beta"][i][None, start:]
        g = -weights["a_log"].exp() * F.softplus(decay + weights["dt_bias"])
        initial = carried[i + 1][None] if start else None
        expected, last = function(
            q, k, v, g=g, beta=beta_scale * beta.sigmoid(), initial_state=initial,
            output_final_state=True, use_qk_l2norm_in_kernel=True,
        )  # fmt: skip
        close(out[i], expected.reshape(rest[i], -1))
        close(state[i + 1], last[0])


def light_tensors(draw, dtype=torch.float32):
    width = LIGHT["num_heads"] * LIGHT["head_dim"]
    return {name: [draw(t, width, dtype=dtype) for t in TOTALS] for name in "qkv"}


def light_op(function, full, state, **attrs):
    def run(step):
        y = step.empty(LIGHT["num_heads"] * LIGHT["head_dim"], dtype=state.dtype)
        function(
            **{name: step.rows(rows) for name, rows in full.items()}, state=state, y=y,
            cu_seqlens=step.cu_seqlens, slot=step.slot, start=step.start, **{**LIGHT, **attrs},
        )  # fmt: skip
        return y

    return run


def light_state(dtype=torch.float32):
    return states(LIGHT["num_heads"], LIGHT["head_dim"], LIGHT["head_dim"], dtype=dtype)


@pytest.mark.parametrize("function", [lightning, lightning_chunked], ids=lambda f: f.__name__)
def test_lightning_steps_batches_and_padding_change_nothing(seed, function):
    full = light_tensors(drawn(seed))
    check_plays(lambda: light_op(function, full, light_state()), TOTALS, 1e-5)


@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_lightning_chunked_is_recurrent(seed, chunk):
    full = light_tensors(drawn(seed), torch.float64)
    a, b = light_state(torch.float64), light_state(torch.float64)
    outputs = played(light_op(lightning, full, a), TOTALS)
    others = played(light_op(lightning_chunked, full, b, chunk=chunk), TOTALS)
    for left, right in zip(others, outputs, strict=True):
        close(left, right, 1e-12)
    close(b[1:], a[1:], 1e-12)


@pytest.mark.hf
@pytest.mark.parametrize("layer", [0, 2])
def test_lightning_as_minimax(seed, layer):
    """The whole module, with the parts around the recurrence written out here."""
    from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

    draw, n, d = drawn(seed), LIGHT["num_heads"], LIGHT["head_dim"]
    sizes = SimpleNamespace(
        hidden_size=10, head_dim=d, num_attention_heads=n, num_hidden_layers=4, block_size=16,
        hidden_act="silu", layer_types=["linear_attention"] * 4,
    )  # fmt: skip
    module = MiniMaxLightningAttention(sizes, layer)
    for parameter in module.parameters():
        parameter.data = draw(*parameter.shape) * 0.3
    hidden = [draw(t, 10) for t in TOTALS]
    full = {name: [] for name in "qkv"}
    for x in hidden:
        mixed = F.silu(module.qkv_proj(x)).detach().view(-1, n, 3 * d)
        for name, part in zip("qkv", mixed.split(d, dim=-1), strict=True):
            full[name].append(part.flatten(1))
    scale = 1 - layer / (4 - 1 + 1e-5) + 1e-5
    outputs = played(light_op(lightning, full, light_state(), slope_scale=scale), TOTALS)
    for x, out in zip(hidden, outputs, strict=True):
        expected = module(x.unsqueeze(0), (None, None), None)[0][0]
        gated = torch.sigmoid(module.output_gate(x)) * module.norm(out)
        close(module.out_proj(gated), expected)
