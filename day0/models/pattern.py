"""What the config says of each layer: one word for its mixer, one for its feed-forward.

Spellings: architectures.md 3.3. Explicit lists win over intervals; two sources that disagree are
a finding; lists longer than the model carry the drafts' entries (architectures.md 3.3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from day0.ir.fact import Finding
from day0.mechanisms.config import ConfigReader
from day0.mechanisms.moe import NUM_EXPERTS

# layer_types values (transformers 5.24 and older hub files) -> our words
WORDS = {
    "full_attention": "full", "attention": "full", "global": "full", "global_attention": "full",
    "sliding_attention": "sliding", "window_attention": "sliding", "local_attention": "sliding",
    "local": "sliding", "swa": "sliding", "reference_sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear", "mamba": "linear", "mamba2": "linear", "kda": "linear",
    "indexed_attention": "indexed", "deepseek_sparse_attention": "indexed",
    "qwen_sparse_attention": "indexed", "minimax_m3_sparse": "indexed", "sparse": "indexed",
    "compressed_sparse_attention": "csa", "heavily_compressed_attention": "hca",
    "conv": "conv", "moe": "moe", "mlp": "mlp", "hybrid": "hybrid",
    "hybrid_sliding": "hybrid_sliding",
}  # fmt: skip
FFN_WORDS = {"dense": "dense", "sparse": "sparse", "moe": "sparse", "hash_moe": "hash"}


@dataclass(slots=True, kw_only=True)
class Pattern:
    """Words per layer ("" where the config says nothing) and what was noticed."""

    mixers: list[str]
    ffns: list[str]
    findings: list[Finding] = field(default_factory=list)


def read(cfg: ConfigReader, num_layers: int, num_drafts: int) -> Pattern:
    """The pattern of a model of `num_layers` layers and `num_drafts` draft layers."""
    pattern = Pattern(mixers=[""] * num_layers, ffns=[""] * num_layers)
    sources = [
        (name, words)
        for name, words in (
            ("layer_types", _layer_types(cfg)),
            ("linear_attn_config", _numbered(cfg, num_layers, pattern)),
            ("attn_type_list", _binary(cfg, "attn_type_list", ("linear", "full"))),
            ("sparse_attention_config.sparse_attention_freq",
             _binary(cfg, "sparse_attention_config.sparse_attention_freq", ("full", "indexed"))),
            ("hybrid_layer_pattern", _binary(cfg, "hybrid_layer_pattern", ("full", "sliding"))),
            ("attention_chunk_size", _chunked(cfg, num_layers)),
            ("compress_ratios", _ratios(cfg)),
            ("interval", _intervals(cfg, num_layers)),
        )
        if words is not None
    ]  # fmt: skip
    if sources:
        first, words = sources[0]
        _check_length(pattern, first, len(words), num_layers, num_drafts)
        pattern.mixers[: len(words)] = words[:num_layers]
        for name, other in sources[1:]:
            _compare(pattern, first, name, other, num_layers)
    elif (words := _unlisted(cfg, num_layers)) is not None:
        pattern.mixers = words
    _restated(cfg)
    pattern.ffns = _feed_forwards(cfg, num_layers, num_drafts, pattern)
    return pattern


def _layer_types(cfg: ConfigReader) -> list[str] | None:
    values = cfg.word("layer_types", "layers_block_type")
    return None if values is None else [WORDS.get(value, str(value)) for value in values]


def _numbered(cfg: ConfigReader, num_layers: int, pattern: Pattern) -> list[str] | None:
    """linear_attn_config lists layer numbers: 1-based in Kimi's files, 0-based in GLM-5.3's
    (field case 36): the union of both lists tells."""
    linear = cfg.word("linear_attn_config.kda_layers")
    full = cfg.word("linear_attn_config.full_attn_layers")
    if not linear and not full:
        return None
    numbers = sorted([*(linear or ()), *(full or ())])
    for base in (0, 1):
        if numbers == list(range(base, num_layers + base)):
            cfg.note("layers.list_base", base, "config", "union of the two layer lists")
            words = ["full"] * num_layers
            for number in linear or ():
                words[number - base] = "linear"
            return words
    pattern.findings.append(
        Finding(
            code="layer_list",
            severity="warning",
            message=f"linear_attn_config: kda_layers and full_attn_layers hold {len(numbers)} "
            f"numbers {numbers[:1]}..{numbers[-1:]}; their union must be 0..{num_layers - 1} or "
            f"1..{num_layers}",
            evidence=("linear_attn_config.kda_layers", "linear_attn_config.full_attn_layers"),
        )
    )
    return None


def _binary(cfg: ConfigReader, key: str, words: tuple[str, str]) -> list[str] | None:
    values = cfg.word(key)
    return None if values is None else [words[bool(value)] for value in values]


def _chunked(cfg: ConfigReader, num_layers: int) -> list[str] | None:
    """Llama 4: rotated layers see a chunk, the others everything."""
    listed, step = cfg.word("no_rope_layers"), cfg.word("no_rope_layer_interval") or 4
    if not cfg.says("attention_chunk_size", "attn_temperature_tuning") or cfg.says("layer_types"):
        return None
    if not cfg.word("attention_chunk_size"):
        return None
    rotated = listed or [(i + 1) % step for i in range(num_layers)]
    return ["chunked" if rotated[i] else "full" for i in range(num_layers)]


def _ratios(cfg: ConfigReader) -> list[str] | None:
    """DeepSeek-V4: 0 a window only, small ratios with an indexer, large ones without."""
    values = cfg.word("compress_ratios")
    if values is None:
        return None
    return ["sliding" if not value else "csa" if value < 32 else "hca" for value in values]


def _intervals(cfg: ConfigReader, num_layers: int) -> list[str] | None:
    spelled = cfg.word("sliding_window_pattern", "_sliding_window_pattern",
                       "global_attn_every_n_layers")  # fmt: skip
    first = cfg.word("prefix_dense_sliding_window_pattern")
    if spelled and not cfg.says("layer_types"):
        dense = (cfg.word("first_k_dense_replace") or 0) if first else 0
        return [*_slid(first, dense), *_slid(spelled, num_layers - dense)]
    every = cfg.word("full_attention_interval")
    if every:
        return ["linear" if (i + 1) % every else "full" for i in range(num_layers)]
    group = cfg.word("layer_group_size")
    if group and not cfg.says("layer_types"):
        # an incomplete last group is all full attention (vLLM 0.33 bailing_moe_v3.py)
        whole = num_layers // group * group
        return [
            "full" if (i + 1) % group == 0 or i >= whole else "linear" for i in range(num_layers)
        ]
    return None


def _slid(spelled: Any, count: int) -> list[str]:
    """Every nth layer full, or a string of letters (EXAONE: "LLLG")."""
    if isinstance(spelled, str):
        letters = [{"L": "sliding", "G": "full"}.get(letter, "full") for letter in spelled]
        return [letters[i % len(letters)] for i in range(count)]
    return ["full" if (i + 1) % spelled == 0 else "sliding" for i in range(count)]


def _unlisted(cfg: ConfigReader, num_layers: int) -> list[str] | None:
    """The class's own rule: its period of kinds, else a window in every layer."""
    period = cfg.known.get("layers.period")
    if period is not None:
        words = cfg.note("layers.period", *_as_known(period))
        first = cfg.get("layers.first", default=())  # before the period holds (dots3)
        return [*first, *(words[i % len(words)] for i in range(len(first), num_layers))]
    window = cfg.word("sliding_window")
    if window is None and "sliding_window" not in cfg.raw and not cfg.says("use_sliding_window"):
        window = cfg.defaults.get("sliding_window")  # an absent key is not null
    if window is None:
        return None
    switch = cfg.word("use_sliding_window")
    if switch is None:
        switch = cfg.defaults.get("use_sliding_window")
    if switch is False:
        return ["full"] * num_layers
    first = cfg.word("max_window_layers") if switch else None
    return ["sliding" if i >= (first or 0) else "full" for i in range(num_layers)]


def _as_known(entry: tuple[Any, str]) -> tuple[Any, str, str]:
    value, source = entry
    return value, "known", source


def _restated(cfg: ConfigReader) -> None:
    """Keys that the list of layers has settled, or that belong to windows nobody has."""
    cfg.word("use_sliding_window")
    cfg.word("max_window_layers")
    cfg.word("sliding_window")


def _feed_forwards(
    cfg: ConfigReader, num_layers: int, num_drafts: int, pattern: Pattern
) -> list[str]:
    listed = cfg.word("mlp_layer_types")
    prefix = cfg.get("layers.dense_prefix", "first_k_dense_replace", "num_dense_layers",
                     default=None)  # fmt: skip
    freq = cfg.word("moe_layer_freq")
    if listed is not None:
        _check_length(pattern, "mlp_layer_types", len(listed), num_layers, num_drafts)
        words = [FFN_WORDS.get(value, str(value)) for value in listed[:num_layers]]
        words += [""] * (num_layers - len(words))
        if prefix is not None:
            _compare_prefix(pattern, words, prefix)
        return words
    if isinstance(freq, Sequence):
        _check_length(pattern, "moe_layer_freq", len(freq), num_layers, num_drafts)
        return [
            "sparse" if i < len(freq) and freq[i] and i >= (prefix or 0) else "dense"
            for i in range(num_layers)
        ]
    if prefix is not None:
        return [
            "sparse" if i >= prefix and i % (freq or 1) == 0 else "dense" for i in range(num_layers)
        ]
    start = cfg.word("moe_layer_start_index")
    if start is not None:
        last, step = cfg.word("moe_layer_end_index"), cfg.word("moe_layer_interval") or 1
        stop = num_layers - 1 if last is None or last < 0 else last
        return [
            "sparse" if (i + 1) % step == 0 and start <= i <= stop else "dense"
            for i in range(num_layers)
        ]
    places, every = cfg.word("moe_layers"), cfg.word("interleave_moe_layer_step")
    if places is not None:
        return ["sparse" if i in places else "dense" for i in range(num_layers)]
    if every:
        return ["sparse" if (i + 1) % every == 0 else "dense" for i in range(num_layers)]
    hashed = cfg.word("num_hash_layers")
    if hashed is not None:
        return ["hash" if i < hashed else "sparse" for i in range(num_layers)]
    step, only = cfg.word("decoder_sparse_step"), cfg.word("mlp_only_layers")
    if step is not None or only is not None:
        if cfg.word(*NUM_EXPERTS) == 0:
            return ["dense"] * num_layers
        return [
            "sparse" if i not in (only or ()) and (i + 1) % (step or 1) == 0 else "dense"
            for i in range(num_layers)
        ]
    return [""] * num_layers


def _check_length(
    pattern: Pattern, key: str, length: int, num_layers: int, num_drafts: int
) -> None:
    if length == num_layers or (length > num_layers and length - num_layers <= max(num_drafts, 0)):
        return
    longer = length > num_layers
    pattern.findings.append(
        Finding(
            code="list_length",
            severity="info" if longer and key == "compress_ratios" else "warning",
            message=f"{key} has {length} entries for {num_layers} layers; "
            + ("the surplus is not read" if longer else "the rest is told by tensors"),
            evidence=(key,),
        )
    )


def _compare(
    pattern: Pattern, first: str, name: str, other: Sequence[str], num_layers: int
) -> None:
    different = [
        i
        for i, (one, two) in enumerate(zip(pattern.mixers, other[:num_layers], strict=False))
        if one and one != two and not (two == "full" and one in ("indexed", "sliding", "full"))
    ]
    if different:
        pattern.findings.append(
            Finding(
                code="pattern_conflict",
                severity="warning",
                message=f"{first} and {name} disagree on layers {_some(different)}; "
                f"{first} is used",
                evidence=(first, name),
            )
        )


def _compare_prefix(pattern: Pattern, words: Sequence[str], prefix: int) -> None:
    wrong = [i for i, word in enumerate(words) if word == "dense" and i >= prefix or
             word in ("sparse", "hash") and i < prefix]  # fmt: skip
    if wrong:
        pattern.findings.append(
            Finding(
                code="pattern_conflict",
                severity="warning",
                message=f"mlp_layer_types and first_k_dense_replace={prefix} disagree on layers "
                f"{_some(wrong)}; mlp_layer_types is used",
                evidence=("mlp_layer_types", "first_k_dense_replace"),
            )
        )


def _some(numbers: Sequence[int]) -> str:
    text = ", ".join(map(str, numbers[:6]))
    return text + (", ..." if len(numbers) > 6 else "")
