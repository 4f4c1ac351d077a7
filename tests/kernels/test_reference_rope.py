"""Rotary tables and their application against transformers."""

import math

import pytest
import torch

from day0_kernels.rope.reference import frequencies, rope
from tests.kernels.ragged import close, drawn

ORIGINAL = 64
TABLES = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 3.0},
    "yarn": {"factor": 8.0},
    "yarn-untruncated": {"factor": 8.0, "truncate": False, "beta_fast": 20.0, "beta_slow": 2.0},
    "yarn-both-mscales": {"factor": 8.0, "mscale": 0.8, "mscale_all_dim": 1.2},
    "yarn-one-mscale": {"factor": 8.0, "mscale": 0.8},
    "yarn-stated-factor": {"factor": 8.0, "attention_factor": 1.25},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "longrope": {},
    "longrope-stated-factor": {"attention_factor": 1.5},
    "proportional": {"partial_rotary_factor": 0.375, "factor": 2.0},
}


def words(name, dims):
    kind = name.split("-")[0]
    args = dict(TABLES[name])
    if kind in ("yarn", "llama3", "longrope"):
        args["original_max_position_embeddings"] = ORIGINAL
    if kind == "longrope":
        args["short_factor"] = tuple(1.0 + 0.1 * i for i in range(dims // 2))
        args["long_factor"] = tuple(2.0 + 0.7 * i for i in range(dims // 2))
    return kind, args


def ours(name, positions, dims, theta, longest, dtype=torch.float32):
    kind, args = words(name, dims)
    args["max_position_embeddings"] = longest
    return frequencies(
        positions, dtype, dims=dims, theta=theta, scaling=kind,
        scaling_args=tuple(sorted(args.items())),
    )  # fmt: skip


def theirs(name, length, dims, theta, longest):
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    kind, args = words(name, dims)
    if kind == "default":
        return 1.0 / theta ** (torch.arange(0, dims, 2).float() / dims), 1.0
    lists = {key: list(value) for key, value in args.items() if isinstance(value, tuple)}
    if kind == "longrope":
        args["factor"] = longest / ORIGINAL
    config = LlamaConfig(
        hidden_size=3 * dims, num_attention_heads=3, head_dim=dims, max_position_embeddings=longest,
        rope_parameters={"rope_type": kind, "rope_theta": theta, **args, **lists},
    )  # fmt: skip
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)


@pytest.mark.hf
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("length", [1, ORIGINAL, ORIGINAL + 1, 700])
def test_tables(seed, name, length):
    """A row at position length - 1 has the table that transformers makes for that length."""
    theta, dims = [1e4, 5e5, 777.0][seed % 3], [16, 24, 64][seed % 3]
    longest = ORIGINAL if name == "dynamic" else 4 * ORIGINAL
    speed, factor = ours(name, torch.tensor([length - 1]), dims, theta, longest)
    expected, scale = theirs(name, length, dims, theta, longest)
    close(speed[0], expected, 1e-6)
    assert math.isclose(factor, scale, rel_tol=1e-6)


@pytest.mark.parametrize("name", TABLES)
def test_a_row_does_not_depend_on_other_rows(seed, name):
    positions = torch.tensor([3, 500, 63, 64, 0])
    draw = drawn(seed)
    x = draw(5, 2 * 24)
    kind, args = words(name, 24)
    args["max_position_embeddings"] = ORIGINAL
    attrs = {"theta": 1e4, "scaling": kind, "scaling_args": tuple(sorted(args.items())),
             "num_heads": 2, "dims": 24, "pairing": "half"}  # fmt: skip
    whole, single = torch.empty_like(x), torch.empty_like(x)
    rope(x, whole, positions, **attrs)
    for t in range(5):
        rope(x[t : t + 1], single[t : t + 1], positions[t : t + 1], **attrs)
    close(single, whole, 1e-6)


def turned(x, positions, **attrs):
    y = torch.empty_like(x)
    rope(x, y, positions, **{"theta": 1e4, "num_heads": 3, "pairing": "half", **attrs})
    return y


@pytest.mark.hf
@pytest.mark.parametrize("dims", [12, 8])
def test_half_pairs_as_llama_and_qwen3_next(seed, dims):
    from transformers.models.qwen3_next.modeling_qwen3_next import apply_rotary_pos_emb

    x, positions = drawn(seed)(5, 3 * 12), torch.tensor([0, 1, 7, 8, 130])
    speed = 1.0 / 1e4 ** (torch.arange(0, dims, 2).float() / dims)
    angle = torch.cat([positions[:, None] * speed] * 2, dim=-1).unsqueeze(0)
    q = x.view(1, 5, 3, 12).transpose(1, 2)
    expected, _ = apply_rotary_pos_emb(q, q, angle.cos(), angle.sin())
    close(turned(x, positions, dims=dims), expected.transpose(1, 2).reshape(5, -1), 1e-6)


@pytest.mark.hf
@pytest.mark.parametrize("inverse", [False, True])
def test_interleaved_last_as_deepseek_v4(seed, inverse):
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import apply_rotary_pos_emb

    x, positions = drawn(seed)(5, 3 * 12), torch.tensor([0, 1, 7, 8, 130])
    angle = (positions[:, None] / 1e4 ** (torch.arange(0, 8, 2).float() / 8)).unsqueeze(0)
    sin = -angle.sin() if inverse else angle.sin()
    expected = apply_rotary_pos_emb(x.view(1, 5, 3, 12), angle.cos(), sin, unsqueeze_dim=2)
    out = turned(x, positions, dims=8, place="last", pairing="interleaved", inverse=inverse)
    close(out, expected.reshape(5, -1), 1e-6)


@pytest.mark.hf
def test_learned_frequencies_as_mistral_large4(seed):
    from transformers import MistralLarge4TextConfig
    from transformers.models.mistral_large4 import modeling_mistral_large4 as theirs

    draw, positions = drawn(seed), torch.tensor([0, 1, 7, 300])
    config = MistralLarge4TextConfig(
        hidden_size=24, num_attention_heads=2, qk_rope_head_dim=8, qk_nope_head_dim=4,
        max_position_embeddings=2048,
    )  # fmt: skip
    module = theirs.MistralLarge4TextRotaryEmbedding(config)
    module.alpha.data = draw(4) * 0.3
    x = draw(4, 2 * 8)
    cos, sin = module(x, positions.unsqueeze(0))
    q = x.view(1, 4, 2, 8)
    expected, _ = theirs.apply_rotary_pos_emb_interleave(q, None, cos, sin, unsqueeze_dim=2)
    args = {k: v for k, v in config.rope_parameters.items() if k not in ("rope_type", "rope_theta")}
    y = torch.empty_like(x)
    rope(
        x, y, positions, module.alpha.data, theta=config.rope_parameters["rope_theta"],
        scaling=config.rope_parameters["rope_type"], scaling_args=tuple(sorted(args.items())),
        num_heads=2, dims=8, pairing="interleaved",
    )  # fmt: skip
    # theirs puts all first members of the pairs before all second ones
    expected = expected.view(4, 2, 2, 4).transpose(-1, -2).reshape(4, -1)
    close(y, expected, 1e-6)


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_inverse_and_relative_positions(seed, place, pairing):
    """Turning back undoes it; products of turned pairs depend on the distance alone."""
    draw = drawn(seed)
    x, positions = draw(6, 3 * 10, dtype=torch.float64), torch.arange(6) * 37
    form = {"dims": 6, "place": place, "pairing": pairing}
    forth = turned(x, positions, **form)
    close(turned(forth, positions, inverse=True, **form), x, 1e-14)
    still = slice(6, None) if place == "first" else slice(0, 4)
    assert torch.equal(forth.view(6, 3, 10)[..., still], x.view(6, 3, 10)[..., still])
    q, k = x[:1].repeat(6, 1), x[1:2].repeat(6, 1)
    far, near = (turned(q, positions + d, **form) for d in (5, 0))
    products = (far * turned(k, positions, **form)).sum(-1)
    close(products, products[:1].expand(6), 1e-12)
    assert float((near - far).abs().max()) > 1e-3


def test_unknown_words_are_refused():
    x = torch.zeros(1, 8)
    with pytest.raises(ValueError, match="scaling must be one of"):
        turned(x, torch.zeros(1), num_heads=1, dims=8, scaling="spiral")
    with pytest.raises(ValueError, match="pairing must be one of"):
        turned(x, torch.zeros(1), num_heads=1, dims=8, pairing="none")
