"""The builder of tiny checkpoints keeps its promises, for every type."""

import json
import math
import threading
from importlib.util import find_spec

import pytest

from tests.tiny import ALL_TYPES, COMPOSITES, TYPES, build, cache_bytes, model, rename
from tests.tiny.shared import build_once

needs_transformers = pytest.mark.skipif(
    find_spec("transformers") is None, reason="transformers is not installed"
)
every_type = pytest.mark.parametrize("type_name", sorted(ALL_TYPES))
PROMPT = 40

# Integers of a config that are no sizes: ids, switches, lengths, seeds, iterations, positions.
NOT_SIZES = {
    "bos_token_id",
    "chunk_size_feed_forward",
    "eos_token_id",
    "max_position_embeddings",
    "original_max_position_embeddings",
    "first_k_dense_replace",
    "max_window_layers",
    "decoder_sparse_step",
    "pretraining_tp",
    "hc_sinkhorn_iters",
    "index_topk_freq",
    "index_skip_topk_offset",
    "index_topk_blocks",
    "index_local_blocks",
    "seed",
    "ple_conv_kernel_size",
    "ngram_size",
    "ngram_vocab_size_base",
    "make_ngram_vocab_size_divisible_by",
    "split_ngram_parts",
    "number_of_conv_states",
    "num_mtp_layers",
    "num_nextn_predict_layers",
    "rope_theta",
    "rotary_dim",
    "full_attn_alpha_factor",
    "full_attn_beta_factor",
    "_sliding_window_pattern",  # layer_types are given
}
# Sizes that a class computes from others or fixes at one value.
FOLLOWS = {
    "*": {"qk_head_dim"},
    "glm5_next": {"num_key_value_heads", "head_dim", "qk_rope_head_dim"},
    "kimi_linear": {"num_key_value_heads", "head_dim"},
    "bailing_hybrid": {
        "num_key_value_heads",
        "head_dim",
        "linear_num_heads",
        "linear_conv_kernel_dim",
    },
    "qwen4_exp": {"indexer_kv_heads"},
    "deepseek_v2": {"num_key_value_heads", "head_dim"},
    "deepseek_v3": {"num_key_value_heads", "head_dim"},
    "deepseek_v32": {"num_key_value_heads", "head_dim"},
    "glm_moe_dsa": {"num_key_value_heads", "head_dim"},
    "deepseek_v4": {"num_key_value_heads", "n_shared_experts"},
    "minimax_m3": {"index_n_heads"},
    "hy_v4": {"num_key_value_heads", "head_dim"},
    "axk2": {"num_key_value_heads", "head_dim"},
    "dots3_note": {"num_key_value_heads"},
    "mistral_large4": {"num_key_value_heads", "head_dim"},
}
# What the classes build, said a second time; composites are their text types.
KINDS = {
    "glm5_next": "kda/glu kda/moe sparse_mla/moe",
    "kimi_linear": "kda/glu kda/moe mla/moe",
    "qwen3_next": "gdn/glu gdn/moe gqa/moe",
    "qwen3_5": "gdn/glu gqa/glu",
    "qwen3_5_moe": "gdn/moe gqa/moe",
    "qwen4_exp": "gdn/moe sparse_gqa/moe",
    "olmo_hybrid": "gdn/glu gqa/glu",
    "bailing_hybrid": "kda/glu kda/moe mla/moe",
    "lara_mini": "gdn/moe gqa/moe sliding_gqa/moe",
    "minimax": "gqa/moe lightning/moe",
    "deepseek_v2": "mla/glu mla/moe",
    "deepseek_v3": "mla/glu mla/moe",
    "deepseek_v32": "sparse_mla/glu sparse_mla/moe",
    "glm_moe_dsa": "sparse_mla/glu sparse_mla/moe sparse_mla_shared/moe",
    "deepseek_v4": (
        "compressed/hash_moe compressed/moe heavily_compressed/moe"
        " sliding_shared_kv/hash_moe sliding_shared_kv/moe"
    ),
    "minimax_m3": "gqa/glu gqa/moe sparse_gqa/moe",
    "hy_v4": "sparse_mla/glu sparse_mla/moe sparse_mla_shared/moe",
    "axk2": "sparse_mla/glu sparse_mla/moe",
    "dots3_note": "sliding_mla/moe sparse_mla/glu sparse_mla/moe",
    "mistral_large4": "sparse_mla/glu sparse_mla/moe sparse_mla_shared/moe",
    "llama": "gqa/glu",
    "mistral": "sliding_gqa/glu",
    "qwen2": "gqa/glu sliding_gqa/glu",
    "qwen3": "gqa/glu",
    "qwen3_moe": "gqa/glu gqa/moe",
    "mixtral": "gqa/moe",
    "glm4_moe": "gqa/glu gqa/moe",
    "gpt_oss": "gqa/moe sliding_gqa/moe",
    "gemma3": "gqa/glu sliding_gqa/glu",
    "gemma4": "gqa/glu sliding_gqa/glu",
}


def text_type(type_name):
    return type_name.removesuffix("_composite")


def text_words(config):
    """The decoder's part of a config.json."""
    return config.get("text_config", config)


def sizes_of(type_name, words):
    """The integers of a config that are sizes and free to choose, nested tables included."""
    skipped = NOT_SIZES | FOLLOWS["*"] | FOLLOWS.get(text_type(type_name), set())
    found = {}
    for key, value in words.items():
        if key in skipped or isinstance(value, bool):
            continue
        if isinstance(value, int):
            found[key] = value
        elif key == "compress_rates":
            found |= value
        elif key == "per_layer_config":
            layer = next(iter(value.values()))
            found |= {
                f"sliding {name}": size
                for name, size in layer.items()
                if name != "num_key_value_heads"
            }
    return found


@needs_transformers
@pytest.mark.hf
class TestEveryType:
    @every_type
    def test_a_forward_pass_is_finite_and_positions_differ(self, tiny, type_name, seed):
        import torch

        checkpoint = tiny(type_name)
        loaded = model(checkpoint)
        # No token twice: attention over two equal first tokens gives equal rows.
        generator = torch.Generator().manual_seed(seed)
        ids = torch.randperm(checkpoint.text_config.vocab_size, generator=generator)[:PROMPT]
        hidden = loaded.hidden(ids)
        assert hidden.shape == (PROMPT, checkpoint.text_config.hidden_size)
        if type_name in ("glm5_next", "mistral_large4"):
            with pytest.raises(ValueError, match="no head"):
                loaded.logits(ids)
            values = hidden
        else:
            values = loaded.logits(ids)
            assert values.shape == (PROMPT, checkpoint.text_config.vocab_size)
        assert torch.isfinite(values).all()
        assert 0.3 < values.std() < 3.0
        assert torch.pdist(values).min() > 0.1

    @every_type
    def test_the_oracle_agrees_with_itself_on_clear_prompts(self, tiny, type_name, seed):
        loaded = model(tiny(type_name))
        ids = loaded.clear_prompt(PROMPT, seed=seed)
        whole = loaded.hidden(ids)
        for length in (1, PROMPT // 3, PROMPT - 1):
            alone = loaded.hidden(ids[:length])
            error = (alone - whole[:length]).abs().max() / whole.abs().max()
            assert error < 5e-5, f"the first {length} tokens alone"

    @every_type
    def test_the_file_holds_the_parameters_and_buffers(self, tiny, type_name):
        from safetensors import safe_open

        checkpoint = tiny(type_name)
        with safe_open(checkpoint.folder / "model.safetensors", framework="pt") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
        elements = sum(math.prod(shape) for shape in shapes.values())
        assert elements == checkpoint.num_params + checkpoint.num_buffer_elements
        assert (checkpoint.num_tower_params > 0) == (type_name in COMPOSITES)

    @every_type
    def test_no_weight_is_left_at_a_constant(self, tiny, type_name):
        module = model(tiny(type_name)).module
        constant = [
            name
            for name, value in module.named_parameters()
            if value.numel() > 1 and bool((value == value.flatten()[0]).all())
        ]
        assert constant == []

    @every_type
    def test_sizes_are_distinct_and_no_defaults(self, tiny, type_name):
        checkpoint = tiny(type_name)
        words = text_words(json.loads((checkpoint.folder / "config.json").read_text()))
        sizes = sizes_of(type_name, words)
        assert len(set(sizes.values())) == len(sizes), sorted(sizes.items(), key=lambda i: i[1])
        assert sizes["vocab_size"] <= 128
        default = type(checkpoint.text_config)().to_dict()
        same = {key for key, size in sizes.items() if default.get(key) == size}
        assert same == set()
        for key in ("num_experts_per_tok", "sliding_window", "index_topk", "indexer_budget"):
            assert sizes.get(key, 0) < PROMPT

    @every_type
    def test_layers_are_what_the_classes_build(self, tiny, type_name):
        kinds = tiny(type_name).layer_kinds
        expected = KINDS[text_type(type_name)].split()
        found = {"/".join(kind) for kind in kinds}
        # Which of two neighbouring layers is the last dense one is drawn.
        assert {kind.split("/")[0] for kind in found} == {kind.split("/")[0] for kind in expected}
        assert {kind.split("/")[1] for kind in found} == {kind.split("/")[1] for kind in expected}

    @every_type
    def test_the_cache_grows_as_its_groups_say(self, tiny, type_name):
        checkpoint = tiny(type_name)
        short, long = cache_bytes(checkpoint, PROMPT), cache_bytes(checkpoint, 2 * PROMPT)
        config = checkpoint.text_config
        assert len(short) == len(long) == len(checkpoint.layer_kinds)
        held = 0
        for layer, (before, after) in enumerate(zip(short, long, strict=True)):
            mixer = checkpoint.layer_kinds[layer][0]
            assert before["state"] == after["state"]
            assert (before["state"].elements > 0) == (mixer in ("kda", "gdn", "lightning"))
            if mixer in ("compressed", "heavily_compressed"):
                rate = config.compress_rates[config.layer_types[layer]]
                assert before["kv"].elements == PROMPT // rate * config.head_dim
                assert after["kv"].elements == 2 * PROMPT // rate * config.head_dim
                continue
            assert before["window"] == after["window"]
            for group in ("kv", "index"):
                assert after[group].elements == 2 * before[group].elements
                assert after[group].bytes == 4 * after[group].elements
            held += before["kv"].elements + before["window"].elements
        assert held > 0

    @every_type
    def test_a_shared_checkpoint_is_the_built_one(self, tiny, tmp_path, type_name):
        first = tiny(type_name)
        again = build(type_name, tmp_path / "again", seed=first.seed)
        assert again.layer_kinds == first.layer_kinds
        assert again.buffers == first.buffers
        assert (again.num_params, again.num_tower_params) == (
            first.num_params,
            first.num_tower_params,
        )
        assert again.config.to_diff_dict() == first.config.to_diff_dict()
        for name in ("config.json", "model.safetensors"):
            assert (again.folder / name).read_bytes() == (first.folder / name).read_bytes()

    @every_type
    def test_renaming_changes_names_only(self, tiny, tmp_path, type_name):
        first = tiny(type_name)
        other = rename(first, tmp_path / "renamed")
        before, after = (
            json.loads((folder / "config.json").read_text())
            for folder in (first.folder, other.folder)
        )
        assert "unheard_of" in after["model_type"]
        levels = [(before, after)]
        levels += [(before[key], after[key]) for key in before if isinstance(before[key], dict)]
        for old, new in levels:
            changed = {key for key in old if old[key] != new[key]}
            named = {key for key in ("model_type", "architectures") if key in old}
            assert old.keys() == new.keys()
            assert changed - {"text_config", "vision_config"} == named
        assert before["architectures"][0] not in json.dumps(after)
        file = "model.safetensors"
        assert (other.folder / file).read_bytes() == (first.folder / file).read_bytes()


@needs_transformers
@pytest.mark.hf
def test_another_seed_draws_other_sizes_and_weights(tiny, tmp_path):
    first = tiny("kimi_linear")
    other = build("kimi_linear", tmp_path, seed=first.seed + 1)
    words = [
        sizes_of("kimi_linear", json.loads((folder / "config.json").read_text()))
        for folder in (first.folder, other.folder)
    ]
    assert words[0] != words[1]
    assert first.num_params != other.num_params


@needs_transformers
@pytest.mark.hf
def test_overrides_replace_drawn_words(tiny):
    checkpoint = tiny("deepseek_v3", q_lora_rank=None)
    assert checkpoint.config.q_lora_rank is None
    assert checkpoint.folder != tiny("deepseek_v3").folder


@needs_transformers
def test_ties_at_zero_and_near_ties_are_unclear():
    import torch

    from tests.tiny.choices import unclear_positions

    scores = torch.tensor(
        [
            [4.0, 3.0, 2.0, 1.0],
            [4.0, 0.0, 0.0, -1.0],
            [4.0, 2.0, 2.0 - 1e-6, 1.0],
            [4.0, 4.0, 1.0, 1.0],
            [4.0, float("-inf"), float("-inf"), float("-inf")],
        ]
    )
    assert unclear_positions(scores, 2, 5).tolist() == [False, True, True, False, False]
    assert unclear_positions(scores, 4, 5).tolist() == [False] * 5
    # Per head, the queries in the middle: any head makes the query unclear.
    heads = torch.stack([scores, scores.flip(0)])
    assert unclear_positions(heads, 2, 5).tolist() == [False, True, True, True, False]


def test_only_composites_carry_the_suffix():
    assert set(KINDS) == set(TYPES)
    assert {text_type(name) for name in COMPOSITES} <= set(TYPES)


def test_one_of_many_builds(tmp_path):
    made = []

    def make():
        made.append(threading.get_ident())
        return {"number": len(made)}

    results = []
    threads = [
        threading.Thread(target=lambda: results.append(build_once(tmp_path / "it", make)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [{"number": 1}] * 8
    assert len(made) == 1


def test_a_failed_build_lets_the_next_one_try(tmp_path):
    def fail():
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        build_once(tmp_path / "it", fail)
    assert build_once(tmp_path / "it", lambda: {"number": 2}) == {"number": 2}
