"""DeepSeek-V4's whole attention out of definitions against transformers' module."""

import pytest
import torch

from day0_kernels.basic.reference import linear, rmsnorm
from day0_kernels.indexer.reference import indexer
from day0_kernels.rope.reference import rope
from day0_kernels.shared_kv.reference import shared_kv
from tests.kernels.pools import Pools
from tests.kernels.ragged import CHUNKS, close, drawn, played

HIDDEN, HEADS, DIM, ROPE, WINDOW = 20, 4, 16, 4, 5
KINDS = {"sliding": 0, "csa": 3, "hca": 6}
NAMES = {
    "sliding": "sliding_attention",
    "csa": "compressed_sparse_attention",
    "hca": "heavily_compressed_attention",
}
TOTALS = [1, 5, 6, 7, 25]
# So many heads that no two pools of a row score exactly zero, where any of them may be chosen.
TOP_K, NI, DI = 2, 16, 12


def module_of(kind, draw):
    from transformers import DeepseekV4Config
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4Attention

    config = DeepseekV4Config(
        hidden_size=HIDDEN, num_hidden_layers=1, num_attention_heads=HEADS, head_dim=DIM,
        q_lora_rank=12, o_groups=2, o_lora_rank=6, index_n_heads=NI, index_head_dim=DI,
        index_topk=TOP_K, sliding_window=WINDOW, partial_rotary_factor=ROPE / DIM,
        compress_rates={NAMES[k]: KINDS[k] for k in ("csa", "hca")}, layer_types=[NAMES[kind]],
        mlp_layer_types=["moe"], rope_theta=50.0, compress_rope_theta=200.0, rms_norm_eps=1e-5,
        attn_implementation="eager", max_position_embeddings=512,
    )  # fmt: skip
    module = DeepseekV4Attention(config, 0)
    for parameter in module.parameters():
        parameter.data = draw(*parameter.shape) * 0.5
    return module.eval()


def theirs(module, x, kind):
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4RotaryEmbedding

    at = torch.arange(x.shape[0])
    back = at.view(-1, 1) - at
    mask = torch.zeros(back.shape).masked_fill((back < 0) | (back >= WINDOW), float("-inf"))
    rotary = DeepseekV4RotaryEmbedding(module.config)
    tables = {name: rotary(x, at[None], layer_type=name) for name in ("main", "compress")}
    with torch.no_grad():
        return module(x[None], tables, at[None], mask[None, None])[0][0]


def projected(x, *layers):
    y = x
    for layer in layers:
        out = y.new_empty(y.shape[0], layer.weight.shape[0])
        if layer.weight.dim() == 1:
            rmsnorm(y, out, layer.weight.data, eps=1e-5)
        else:
            linear(y, layer.weight.data, out)
        y = out
    return y


def turned(x, positions, theta, heads, inverse=False):
    y = torch.empty_like(x)
    rope(
        x, y, positions, theta=theta, num_heads=heads, dims=ROPE, place="last",
        pairing="interleaved", inverse=inverse,
    )  # fmt: skip
    return y


def compressed(totals, dim, ratio, theta, overlap):
    return Pools(
        totals, dim, size=ratio, overlap=overlap, rule="softmax", norm="rms", norm_eps=1e-5,
        rope_dims=ROPE, rope_place="last", rope_pairing="interleaved", theta=theta,
        scaling="default", scaling_args=(),
    )  # fmt: skip


def ours(module, xs, kind):
    """An op over steps; everything token-wise is made for the whole sequence beforehand."""
    ratio, theta = KINDS[kind], 50.0 if kind == "sliding" else 200.0
    latents = [projected(x, module.q_a_proj, module.q_a_norm) for x in xs]
    kvs = [turned(projected(x, module.kv_proj, module.kv_norm), torch.arange(len(x)), theta, 1)
           for x in xs]  # fmt: skip
    overlap = kind == "csa"
    pools = compressed(TOTALS, DIM, ratio, theta, overlap) if ratio else None
    keys = compressed(TOTALS, DI, ratio, theta, overlap) if kind == "csa" else None

    def write(store, step, source):
        values, gates = ([projected(x, part) for x in xs]
                         for part in (source.kv_proj, source.gate_proj))  # fmt: skip
        store.write(
            step,
            values,
            gates,
            position_bias=source.position_bias.data,
            norm_weight=source.kv_norm.weight.data,
        )
        return store.history(step)

    def choose(step, latent):
        source = module.compressor.indexer
        entry, cu, first = write(keys, step, source)
        q = turned(projected(latent, source.q_b_proj), step.positions, theta, NI)
        selected = step.empty(TOP_K, dtype=torch.int32)
        indexer(
            q, entry, selected, step.cu_seqlens, step.positions, cu, first,
            projected(step.rows(xs), source.scorer.weights_proj), num_heads=NI, head_dim=DI,
            top_k=TOP_K, scale=(NI * DI) ** -0.5, pool="softmax", block=ratio, unit="block",
        )  # fmt: skip
        return selected

    def run(step):
        latent = step.rows(latents)
        raw = projected(latent, module.q_b_proj)
        q = torch.empty_like(raw)
        rmsnorm(raw, q, eps=1e-5, group=DIM)
        q = turned(q, step.positions, theta, HEADS)
        window, cu, first = step.history(kvs, WINDOW)
        more = {}
        if ratio:
            names = ("compressed_entry", "compressed_cu_history", "compressed_history_first")
            more = dict(zip(names, write(pools, step, module.compressor), strict=True))
        if keys is not None:
            more["selected"] = choose(step, latent)
        y = step.empty(HEADS * DIM)
        shared_kv(
            q, module.sinks.data, window, y, step.cu_seqlens, step.positions, cu, first,
            num_heads=HEADS, head_dim=DIM, scale=DIM**-0.5, window=WINDOW, ratio=ratio,
            num_selected=TOP_K if keys is not None else 0, **more,
        )  # fmt: skip
        y = turned(y, step.positions, theta, HEADS, inverse=True)
        out = y.new_empty(y.shape[0], module.o_a_proj.weight.shape[0])
        linear(y, module.o_a_proj.weight.data, out, groups=2)
        return projected(out, module.o_b_proj)

    return run


@pytest.mark.hf
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [None, *CHUNKS])
def test_as_deepseek_v4(seed, kind, chunk):
    draw = drawn(seed)
    module = module_of(kind, draw)
    xs = [draw(t, HIDDEN) for t in TOTALS]
    for x, out in zip(xs, played(ours(module, xs, kind), TOTALS, chunk), strict=True):
        close(out, theirs(module, x, kind), 5e-5)
