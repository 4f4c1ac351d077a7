"""How multi-head latent attention is read: names, spec, sizes, and the facts no shape fixes."""

from dataclasses import dataclass
from typing import Any

from day0.errors import Day0Error
from day0.mechanisms import indexer as dsa
from day0.mechanisms.names import Scope
from day0.mechanisms.rope import Rope, Table, said_pairing, table, yarn_scale
from day0.mechanisms.spec import Layer

MODULES = ("self_attn", "attention", "attn")
Q = ("q_proj", "wq")
KV_A = ("kv_a_proj_with_mqa", "wkv_a_with_mqa")
KV_A_NORM = ("kv_a_layernorm.weight", "kv_a_norm.weight")
KV_B = ("kv_b_proj", "wkv_b")
OUT = ("o_proj", "wo", "dense")
GATE = ("g_proj", "linear_gate", "gate_proj")
SINK = ("learnable_sink_param", "sinks")
ALPHA = ("lerope.alpha", "rotary_emb.alpha")  # beside the layers, one for all of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Mla:
    """`q_rank` 0: no query latent. `kv_of`: the layer whose latents are read (this one: -1).
    `topk_of`: the layer whose selection is read (-1: none). `out_gate` "none", "head", "element",
    or "fused" (rows of q_b_proj, which then reads [normed | raw] latent; A.X-K2). `window` > 0:
    only the last tokens. `q_scale`, `kv_scale`: factors after the latent norms (dots3)."""

    num_heads: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    q_rank: int
    kv_rank: int
    latent_eps: float
    scale: float
    rope: Rope | None
    out_gate: str = "none"
    sink: bool = False
    window: int = 0
    q_scale: float = 1.0
    kv_scale: float = 1.0
    k_rope_norm: bool = False
    ssmax: bool = False
    learned_rope: bool = False
    kv_of: int = -1
    indexer: dsa.Indexer | None = None
    topk_of: int = -1
    bias: bool = False


def sees(layer: Layer) -> bool:
    at = layer.at.child(*MODULES)
    return at.has(*(f"{name}.weight" for name in (*KV_A, *KV_B)))


def says(layer: Layer) -> bool:
    return layer.word != "linear" and layer.cfg.says("kv_lora_rank")


def read(layer: Layer) -> Mla:
    cfg, at = layer.cfg, layer.at.child(*MODULES)
    # Neither says anything of latent attention: head_dim restates one of the parts (which one
    # depends on who wrote the file; GLM-5.2 says 192 for 64, field cases 3 and 4), and the number
    # of key heads is not that of the cache.
    cfg.word("head_dim")
    cfg.word("num_key_value_heads")
    cfg.word("swa_num_key_value_heads")
    q_rank = _q_rank(layer, at)
    kv_rank = _size(layer, "kv_rank", "kv_lora_rank", derive=lambda: at.dim(0, *KV_A_NORM))
    heads = _size(layer, "num_heads", "num_attention_heads")
    nope = _size(layer, "nope_dim", "qk_nope_head_dim")
    value = _size(layer, "value_dim", "v_head_dim")
    rope_dim = _rope_dim(layer, nope)
    found = None if _no_rope(layer, rope_dim) else _table(layer)
    if cfg.says("no_rope_layers", "no_rope_layer_interval") and found is None:
        nope, rope_dim = nope + rope_dim, 0  # mistral_large4: the rotated part becomes plain
    rope = None
    if found is not None and rope_dim:
        rope = Rope(
            dims=rope_dim,
            theta=found.theta,
            scaling=found.scaling,
            args=found.args,
            pairing=_pairing(layer),
            place="last",
        )
    spec_indexer, topk_of = _selection(layer, rope)
    # Only dots3 norms the rotary key, and it scales its latents; a guess under another name.
    k_rope_norm = at.has("k_rope_only_layernorm.weight")
    if k_rope_norm:
        scaled = cfg.get("mla.scaled_latents", assume=True, decisive=True)
    else:
        scaled = cfg.get("mla.scaled_latents", default=False, decisive=True)
    hidden = layer.shape.hidden_size
    return Mla(
        num_heads=heads,
        nope_dim=nope,
        rope_dim=rope_dim,
        value_dim=value,
        q_rank=q_rank,
        kv_rank=kv_rank,
        latent_eps=_latent_eps(layer),
        scale=_scale(layer, nope + rope_dim, found),
        rope=rope,
        out_gate=_out_gate(layer, at, heads, value, q_rank),
        sink=cfg.says("learnable_sink_init") or at.has(*SINK),
        window=_window(layer),
        q_scale=(hidden / q_rank) ** 0.5 if scaled and q_rank else 1.0,
        kv_scale=(hidden / kv_rank) ** 0.5 if scaled else 1.0,
        k_rope_norm=k_rope_norm or (not at.names and scaled),
        ssmax=at.has("ssmax_scaling.s") or (not at.names and cfg.get("mla.ssmax", default=False)),
        learned_rope=rope is not None and _learned_rope(layer),
        kv_of=_kv_owner(layer),
        indexer=spec_indexer,
        topk_of=topk_of,
        bias=bool(cfg.get("mla.bias", "attention_bias", default=False)),
    )


def _size(layer: Layer, name: str, key: str, **options: Any) -> Any:
    """A size that sliding layers may have of their own: as swa_<key> (dots3 on the hub), in
    per_layer_config (the same model saved by transformers), or as a known default."""
    cfg = layer.cfg
    if layer.word != "sliding":
        return cfg.get(f"mla.{name}", key, **options)
    path = f"mla.sliding.{name}"
    if not cfg.says(f"swa_{key}") and path in cfg.known:
        return cfg.get(path, **options)
    return cfg.get(path, f"swa_{key}", key, **options)


def _rope_dim(layer: Layer, nope: int) -> int:
    cfg = layer.cfg
    head_dim = cfg.word("swa_head_dim")
    if layer.word == "sliding" and head_dim and not cfg.says("swa_qk_rope_head_dim"):
        return cfg.note("mla.sliding.rope_dim", head_dim - nope, "config", "config.json:swa_*")
    return _size(layer, "rope_dim", "qk_rope_head_dim", default=0)


def _q_rank(layer: Layer, at: Scope) -> int:
    rank = _size(
        layer, "q_rank", "q_lora_rank", derive=lambda: at.dim(0, "q_a_layernorm.weight"), default=0
    )
    plain = at.names and at.has(*(f"{name}.weight" for name in Q))
    if rank and plain and not at.has("q_a_proj.weight"):
        return layer.cfg.note("mla.q_rank", 0, "header", "q_proj stands where q_a_proj would")
    return rank


def _no_rope(layer: Layer, rope_dim: int) -> bool:
    cfg = layer.cfg
    no_rope_layers = cfg.word("no_rope_layers")
    interval = cfg.word("no_rope_layer_interval")
    if not rope_dim:
        cfg.word("mla_use_nope")  # restated by a rotated part of 0 channels
        return True
    if no_rope_layers:
        return not no_rope_layers[min(layer.index, len(no_rope_layers) - 1)]
    if interval:
        return (layer.index + 1) % interval == 0
    return cfg.get("mla.no_rope", "mla_use_nope", default=False, decisive=True)


def _table(layer: Layer) -> Table | None:
    keys = ("swa_rope_theta",) if layer.word == "sliding" else ()
    label = {"sliding": "sliding_attention", "indexed": "indexed_attention"}
    found = table(layer.cfg, label.get(layer.word, "full_attention"), *keys)
    if found is None:
        layer.cfg.note("mla.no_rope", True, "assumed", "no rotary word at all", decisive=True)
    return found


def _pairing(layer: Layer) -> str:
    return said_pairing(layer.cfg, "mla.rope_pairing", "rope_interleave", assume="interleaved")


def _latent_eps(layer: Layer) -> float:
    """Most published classes leave these norms at 1e-6 whatever rms_norm_eps says; some do not
    (architectures.md 3.6). "norm.eps" stands for the config's own."""
    own = layer.shape.norm_eps
    if own == 1e-6:
        return layer.cfg.get("mla.latent_norm_eps", default=own)
    value = layer.cfg.get("mla.latent_norm_eps", assume=1e-6, decisive=True)
    return own if value == "norm.eps" else value


def _scale(layer: Layer, width: int, found: Table | None) -> float:
    """width^-1/2, times yarn's second correction where mscale_all_dim is given (field case 16)."""
    path = "mla.sliding.scale" if layer.word == "sliding" else "mla.scale"
    factor = yarn_scale(found)
    source = "(nope + rope)^-1/2" + (" times yarn's mscale_all_dim squared" if factor != 1 else "")
    return layer.cfg.note(path, max(width, 1) ** -0.5 * factor, "config", source)


def _window(layer: Layer) -> int:
    if layer.word != "sliding":
        return 0
    return layer.cfg.get("mla.window", "sliding_window", "sliding_window_size")


def _learned_rope(layer: Layer) -> bool:
    if layer.at.names:
        return layer.at.root().has(*ALPHA)
    return layer.cfg.get("mla.learned_rope", default=False)


def _selection(layer: Layer, rope: Rope | None) -> tuple[dsa.Indexer | None, int]:
    """(own indexer, layer whose list is read)."""
    none = layer.word == "sliding" or layer.cfg.word("use_dsa") is False
    if none or not layer.cfg.says("index_topk", "index_n_heads"):
        return None, -1
    if dsa.owned(layer):
        return dsa.read(layer, rope), -1
    before = [index for index in layer.owners.get("indexer", {}) if index < layer.index]
    return None, max(before, default=-1)


def _kv_owner(layer: Layer) -> int:
    sources = layer.cfg.word("kv_source_layers")
    if sources is None or layer.index >= len(sources) or sources[layer.index] == layer.index:
        return -1
    owner = layer.cfg.note(
        "mla.kv_of", sources[layer.index], "config", "config.json:kv_source_layers"
    )
    if not 0 <= owner < layer.index:
        raise Day0Error(
            f"layer {layer.index} reads the keys and values of layer {owner} (kv_source_layers); "
            f"it must be an earlier one, 0 to {layer.index - 1}",
            hint="mend kv_source_layers in config.json",
        )
    return owner


def _out_gate(layer: Layer, at: Scope, heads: int, value: int, q_rank: int) -> str:
    cfg = layer.cfg
    says_element = cfg.word("mla_use_output_gate")
    word = cfg.word("gated_attention_proj_granularity_type")
    rows = at.dim(0, *(f"{name}.weight" for name in GATE))
    if rows is not None:
        kind = "head" if rows == heads and value != 1 else "element"
        return cfg.note("mla.out_gate", kind, "header", "rows of the gate projection")
    if q_rank and at.dim(1, "q_b_proj.weight") == 2 * q_rank:
        return cfg.note("mla.out_gate", "fused", "header", "columns of q_b_proj")
    if at.has(*(f"{name}.weight" for name in GATE)):  # stored packed: its rows are not told
        return cfg.get("mla.out_gate", assume="element", decisive=True)
    if at.names:
        return "none"
    if says_element:
        return cfg.note("mla.out_gate", "element", "config", "mla_use_output_gate")
    if word is not None:
        kind = {"head_wise": "head", "element_wise": "element"}.get(word, "none")
        return cfg.note("mla.out_gate", kind, "config", "gated_attention_proj_granularity_type")
    return cfg.get("mla.out_gate", default="none")
