"""Reads a decoder: the truth of tensors where headers exist, of config rules otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from day0.checkpoint.headers import Headers
from day0.errors import Day0Error
from day0.ir import format as formats
from day0.ir.fact import Finding
from day0.mechanisms import config_kinds as kinds
from day0.mechanisms import glu, indexer, mtp, norm, positions, rope
from day0.mechanisms.config import ConfigReader
from day0.mechanisms.names import Names, Scope
from day0.mechanisms.spec import (
    Layer,
    LayerSpec,
    ModelSpec,
    Part,
    Shape,
)
from day0.mechanisms.unknown import Unknown
from day0.models import drafts
from day0.models import pattern as patterns
from day0.models.known.harmless import HARMLESS
from day0.models.known.settings import ONLY
from day0.models.known.types import COVERED as COVERED_TYPES
from day0.models.known.types import HEADERS_ONLY
from day0.models.layers import draft_layer, layer_spec, residual_of
from day0.models.places import Places, locate
from day0.models.promised import promised
from day0.models.quant_config import BLOCKS, QuantConfig
from day0.models.stored import alternatives, recognise
from day0.models.words import types_of

EMBED = ("embed_tokens.weight", "word_embeddings.weight", "tok_embeddings.weight", "embed.weight",
         "wte.weight", "embeddings.weight", "embed_in.weight",
         "embeddings.tok_embeddings.weight")  # fmt: skip
HEAD = ("lm_head.weight", "head.weight", "output.weight", "embed_out.weight", "decoder.weight",
        "output_projection.weight", "unembed.weight")  # fmt: skip
FINAL = ("norm", "final_layernorm", "ln_f", "final_norm", "norm_f", "final_layer_norm",
         "layer_norm")  # fmt: skip
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "half": "fp16", "float": "fp32"}
COVERED = frozenset(COVERED_TYPES)


@dataclass(slots=True, kw_only=True)
class Reading:
    """A decoder while it is read: the spec so far, its names, and what was noticed."""

    spec: ModelSpec
    names: Names
    places: Places
    plain: str
    cfg: ConfigReader
    quant: QuantConfig | None
    mtp: drafts.Count
    findings: list[Finding] = field(default_factory=list)


def read(cfg: ConfigReader, headers: Headers | None, quant: QuantConfig | None) -> Reading:
    """ModelSpec and names of the decoder that `cfg` and `headers` describe."""
    places = locate(headers)
    plain = _plain(cfg, headers, places)
    tensors: Mapping[str, Any] = {} if headers is None else headers.tensors
    names = Names(
        tensors,
        recognise=lambda name, dims: (
            promised(name, dims, quant, dtype=plain)
            if headers is None
            else recognise(name, dims, tensors, quant, dtype=plain)
        ),
        forms=alternatives,
    )
    # models.quant_config reads these and reports what it does not know.
    for block in (*BLOCKS, "expert_dtype"):
        cfg.mark_read(block)
        cfg.mark_read(cfg.inside + block)
    findings: list[Finding] = []
    num_drafts = cfg.word(*mtp.COUNT) or 0
    num_layers = _num_layers(cfg, places, num_drafts)
    pattern = patterns.read(cfg, num_layers, _longer(places, num_layers, num_drafts))
    findings.extend(pattern.findings)
    with cfg.layer(0):
        findings.extend(rope.conflicts(cfg))
    root = Scope(names, places.prefix)
    shape = _shape(cfg, num_layers, root)
    owners: dict[str, dict[int, Any]] = {"words": dict(enumerate(pattern.mixers))}

    def layer_at(index: int) -> Layer:
        return Layer(
            index=index,
            word=pattern.mixers[index],
            ffn_word=pattern.ffns[index],
            cfg=cfg,
            at=root.layers(places.stem, index, num_layers),
            shape=shape,
            owners=owners,
        )

    placed = positions.read(cfg, root, shape)
    residual = residual_of(layer_at(0))
    layers = tuple(layer_spec(layer_at(i), residual, owners, findings) for i in range(num_layers))
    findings.extend(indexer.conflicts(layer_at(i) for i in _selecting(layers)))
    mtps, counted, noticed = drafts.read(
        cfg, names, places, drafts.Words(mixers=pattern.mixers, ffns=pattern.ffns), shape, owners,
        lambda layer: draft_layer(layer, owners, findings),
    )  # fmt: skip
    findings.extend(noticed)
    first = layer_at(0)
    with cfg.recording() as because:
        stream = residual.read(first, "stream")
    _settings(cfg)
    spec = ModelSpec(
        name="",
        architectures=_architectures(cfg),
        model_type=cfg.word("^model_type", "model_type") or "",
        dtype=plain,
        context_length=_context_length(cfg, findings),
        vocab_size=cfg.get("vocab_size", "vocab_size", derive=lambda: root.dim(0, *EMBED)),
        shape=shape,
        layers=layers,
        residual=Part(stem=residual.stem, spec=stream, because=tuple(because)),
        norm=_final_norm(cfg, root, shape),
        tied=_tied(cfg, names, places, findings),
        embedding_scale=_embedding_scale(cfg, shape),
        logit_scale=_logit_scale(cfg, shape),
        softcap=cfg.get("logits.softcap", "final_logit_softcapping", default=None),
        head_bias=not names and bool(cfg.get("head.bias", "lm_head_bias", default=False)),
        head_transform=_head_transform(cfg, names, places),
        head_size=cfg.get("head_size", "output_vocab_size", default=0) or 0,
        drafts=mtps,
        positions=placed,
    )
    if headers is None:
        spec = _distrusted(spec, cfg, findings)
    return Reading(
        spec=spec,
        names=names,
        places=places,
        plain=plain,
        cfg=cfg,
        quant=quant,
        mtp=counted,
        findings=findings,
    )


def _settings(cfg: ConfigReader) -> None:
    """Switches at a value that nothing executes become decisive facts."""
    for key, values in ONLY.items():
        value = cfg.word(key)
        if value is not None and value not in values:
            source = f"config.json:{key} is {kinds.shown(value)}, which nothing executes"
            cfg.note(f"setting.{key}", values[0], "assumed", source, decisive=True)


def _architectures(cfg: ConfigReader) -> tuple[str, ...]:
    """Names of classes; nothing depends on them."""
    found = cfg.word("^architectures", "architectures")
    listed = found if isinstance(found, list) else [found]
    return tuple(name for name in listed if isinstance(name, str))


def _context_length(cfg: ConfigReader, findings: list[Finding]) -> int | None:
    """None where the config states no length, or one that means "no limit" or nothing."""
    found = cfg.word(
        "max_position_embeddings",
        "model_max_length",
        "n_positions",
        "context_length",
        "max_seq_len",
        "max_seq_length",
        "seq_length",
    )
    if found is None:
        return None
    taken = kinds.whole(1, 2**40).take(found)
    if taken is not kinds.NO:
        return taken
    findings.append(
        Finding(
            code="context_length",
            severity="info",
            message=f"the context length is given as {kinds.shown(found)}, which is no number of "
            "tokens; it counts as not stated",
            evidence=("max_position_embeddings",),
        )
    )
    return None


def _selecting(layers: tuple[LayerSpec, ...]) -> list[int]:
    """Layers whose latent attention runs over a selection, their own or an earlier one."""
    return [
        index
        for index, layer in enumerate(layers)
        for branch in layer.sublayers[0].branches
        if getattr(branch.spec, "indexer", None) or getattr(branch.spec, "topk_of", -1) >= 0
    ]


def _distrusted(spec: ModelSpec, cfg: ConfigReader, findings: list[Finding]) -> ModelSpec:
    """Without headers nothing corrects a reading. A type we do not know whole, with keys that
    nobody reads, may mean anything: its layers are listed as unknown."""
    types = types_of(cfg.top)
    unread = cfg.unread(HARMLESS)
    if set(types).isdisjoint(HEADERS_ONLY) and (not COVERED.isdisjoint(types) or not unread):
        return spec
    name = types[0] if types else "no model_type"
    findings.append(
        Finding(
            code="type_not_covered",
            severity="warning",
            message=f"{name} is not covered, and {len(unread)} of its keys are not read: without "
            "tensor headers its layers stay unknown",
            evidence=unread[:8],
        )
    )
    unknown = Unknown(modules=(), because=f"{name} is not covered")

    def veiled(layer: LayerSpec) -> LayerSpec:
        return LayerSpec(
            sublayers=tuple(
                replace(sub, branches=(Part(stem="unknown", spec=unknown),))
                for sub in layer.sublayers
            )
        )

    return replace(spec, layers=tuple(veiled(layer) for layer in spec.layers))


def _plain(cfg: ConfigReader, headers: Headers | None, places: Places) -> str:
    word = cfg.word("dtype", "torch_dtype", "^dtype", "^torch_dtype")
    if word is not None and word.removeprefix("torch.") in DTYPES:
        name = word.removeprefix("torch.")
        return cfg.note("dtype", DTYPES[name], "config", "config.json:dtype")
    if headers is not None:
        for name in EMBED:
            header = headers.tensors.get(places.prefix + name)
            if header is not None and header.dtype in ("F32", "BF16", "F16"):
                found = formats.of_dtype(header.dtype)
                return cfg.note("dtype", found, "header", "dtype of the embedding")
    source = "no dtype anywhere" if word is None else f"dtype {kinds.shown(word)} is unknown"
    return cfg.note("dtype", "bf16", "assumed", source)


def _num_layers(cfg: ConfigReader, places: Places, num_drafts: int) -> int:
    def derive() -> int | None:
        return places.num_layers - num_drafts if places.num_layers else None

    listed = cfg.word("layers_block_type", "layer_types")
    count = cfg.get(
        "num_layers", "num_hidden_layers", "n_layer", "n_layers", "num_layers",
        derive=lambda: len(listed) if listed else derive(),
    )  # fmt: skip
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= 10_000:
        raise Day0Error(
            f"num_hidden_layers is {count!r}; it must be a whole number from 1 to 10000",
            hint="mend config.json, or analyze the model's own repository",
        )
    return count


def _longer(places: Places, num_layers: int, num_drafts: int) -> int:
    """Entries that per-layer lists may hold beyond the layers: those of drafts."""
    return max(num_drafts, places.num_layers - num_layers if places.num_layers else 0)


def _shape(cfg: ConfigReader, num_layers: int, root: Scope) -> Shape:
    hidden = cfg.get(
        "hidden_size", "hidden_size", "d_model", "n_embd", derive=lambda: root.dim(1, *EMBED)
    )
    eps = cfg.get(
        "norm.eps", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps",
        "layernorm_epsilon",
        "norm_epsilon", assume=1e-6,
    )  # fmt: skip
    bare = bool(cfg.get("norm.bare", derive=lambda: _bare(root), default=False))
    return Shape(
        hidden_size=hidden,
        num_layers=num_layers,
        norm_eps=float(eps),
        zero_centered=bool(
            cfg.get("norm.zero_centered", "use_gemma_norm", assume=False, decisive=_like_gemma(cfg))
        ),
        norm_kind=_norm_kind(cfg, bare),
        norm_bare=bare,
    )


def _like_gemma(cfg: ConfigReader) -> bool:
    """RMS norms beside gelu: Gemma's have their weight less one, and its embeddings a factor."""
    word = cfg.word("hidden_act", "hidden_activation")
    return cfg.says("rms_norm_eps") and isinstance(word, str) and word.startswith("gelu")


def _norm_kind(cfg: ConfigReader, bare: bool) -> str:
    """Layer norms where the eps is one of theirs; a norm with a bias is one whatever this says."""
    if "norm.kind" not in cfg.known and cfg.says("layer_norm_eps") and not cfg.says("rms_norm_eps"):
        return cfg.note("norm.kind", "layer", "config", "config.json:layer_norm_eps")
    return cfg.get("norm.kind", default="rms", decisive=bare)


def _bare(root: Scope) -> bool | None:
    """Whether the decoder stores a head or an embedding and no norm anywhere: norms that have no
    weight. None without headers."""
    if not root.names:
        return None
    stored = root.has(*(f"{name}.{part}" for name in FINAL for part in ("weight", "norm.weight")))
    return not stored and not any(
        name.endswith(("norm.weight", "norm1.weight")) for name in root.names.below(root.prefix)
    )


def _head_transform(cfg: ConfigReader, names: Names, places: Places) -> str | None:
    """The function between a head's own matrix and its norm, where it has them."""
    if not Scope(names, places.roots[-1]).has("lm_head.dense.weight"):
        return None
    word = cfg.word("classifier_activation") or cfg.word("hidden_activation")
    return glu.FUNCTIONS.get(word or "gelu", "gelu")


def _final_norm(cfg: ConfigReader, root: Scope, shape: Shape) -> Part | None:
    if cfg.get("norm.no_final", default=False):
        return None
    biases = [f"{name}.bias" for name in FINAL]
    spec = norm.Norm(
        names=FINAL,
        kind="layer" if norm.stored_bias(cfg, root, biases) else shape.norm_kind,
        eps=shape.norm_eps,
        zero_centered=bool(cfg.get("norm.final_zero_centered", default=shape.zero_centered)),
        weight=not shape.norm_bare,
        bias=norm.stored_bias(cfg, root, biases),
    )
    return Part(stem="norm", spec=spec, because=("norm.eps", "norm.zero_centered"))


def _tied(cfg: ConfigReader, names: Names, places: Places, findings: list[Finding]) -> bool:
    """The file decides; the flag of the top level counts before the decoder's own (case 9)."""
    top = cfg.word("^tie_word_embeddings")
    inner = cfg.word("tie_word_embeddings")
    flag = top if top is not None else inner
    if flag is None:
        flag = cfg.get("tied", "tie_word_embeddings", default=True)
    stored = [root + name for root in places.roots for name in HEAD if names.exists(root + name)]
    if not names:
        return bool(cfg.note("tied", bool(flag), "config", "tie_word_embeddings"))
    if stored and flag:
        findings.append(
            Finding(
                code="tie_conflict",
                severity="warning",
                message="tie_word_embeddings is true, but the checkpoint stores a head of its own; "
                "the stored head is used",
                evidence=(stored[0], "tie_word_embeddings"),
            )
        )
    if not stored and not flag and not inner:
        # a file without any prefix is a base model's: nobody expects a head in it
        bare = not places.prefix
        findings.append(
            Finding(
                code="no_head" if bare else "tie_conflict",
                severity="info" if bare else "warning",
                message="tie_word_embeddings is false, but no head is stored; the embedding is "
                "taken for it",
                evidence=("lm_head.weight", "tie_word_embeddings"),
            )
        )
    return bool(cfg.note("tied", not stored, "header", "whether a head is stored"))


def _embedding_scale(cfg: ConfigReader, shape: Shape) -> float:
    """A number, or the root of the width: by our tables (Gemma) or a switch (BioGPT, AFMoE)."""
    path, root = "embedding.scale", shape.hidden_size**0.5
    switch = cfg.word("scale_embedding", "mup_enabled")
    if switch is not None:
        return cfg.note(path, root if switch else 1.0, "config", "a switch")
    if cfg.known.get(path, ("",))[0] == "sqrt_hidden":
        return cfg.note(path, root, "known", cfg.known[path][1])
    keys = ("embedding_multiplier", "scale_emb", "embedding_scale")
    if _like_gemma(cfg) and not cfg.says(*keys) and path not in cfg.known:
        return float(cfg.get(path, assume=1.0, decisive=True))
    return float(cfg.get(path, *keys, default=1.0))


def _logit_scale(cfg: ConfigReader, shape: Shape) -> float:
    """A factor, a divisor, or the width over a base width (MiniCPM)."""
    base = cfg.word("dim_model_base")
    divisor = shape.hidden_size / base if base else cfg.word("logits_scaling")
    if divisor:
        return cfg.note("logits.scale", 1.0 / divisor, "config", "a divisor of logits")
    return float(
        cfg.get("logits.scale", "logit_scale", "lm_head_multiplier", "output_multiplier",
                default=1.0)
    )  # fmt: skip
