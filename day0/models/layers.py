"""One layer: which mechanism each part is, by tensors where headers exist, else by words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from day0.ir.fact import Finding
from day0.mechanisms import _moe_read, norm, per_layer_input, sizes
from day0.mechanisms.config import MissingWord
from day0.mechanisms.glu import GLU
from day0.mechanisms.index import RESIDUALS, ffns, mixers
from day0.mechanisms.moe import MOE
from day0.mechanisms.residual import ADD, Residual
from day0.mechanisms.spec import Layer, LayerSpec, Mechanism, Part, Sublayer
from day0.mechanisms.unknown import Unknown, damaged, read_unknown, renamed


def residual_of(layer: Layer) -> Residual:
    """Tensors first, then words; the plain add takes what nobody claims."""
    if layer.at.names:
        for residual in RESIDUALS:
            if residual.sees(layer):
                return residual
    for residual in RESIDUALS:
        if residual.says(layer):
            return residual
    raise AssertionError("the plain residual takes every model")


def layer_spec(
    layer: Layer,
    residual: Residual,
    owners: dict[str, dict[int, Any]],
    findings: list[Finding],
) -> LayerSpec:
    with layer.cfg.layer(layer.index, _overrides(layer)):
        mixer = _part(layer, mixers(), "mixer", findings)
        if getattr(mixer.spec, "indexer", None) is not None:
            owners.setdefault("indexer", {})[layer.index] = mixer.spec
        ffn = _part(layer, ffns(), "ffn", findings)
        if norm.arrangement(layer) == "parallel":
            return LayerSpec(sublayers=(_parallel(layer, mixer, ffn, residual),))
        if _moe_read.beside(layer):
            sublayers = _with_experts_beside(layer, mixer, residual, findings)
        else:
            parts = [("mixer", mixer, norm.FIRST), ("ffn", ffn, norm.SECOND)]
            sublayers = [_sublayer(layer, name, own, names, residual) for name, own, names in parts]
        if per_layer_input.sees(layer) if layer.at.names else per_layer_input.says(layer):
            sublayers.append(_own_embedding(layer, residual))
        return LayerSpec(sublayers=tuple(sublayers))


def draft_layer(
    layer: Layer, owners: dict[str, dict[int, Any]], findings: list[Finding]
) -> tuple[LayerSpec, Part]:
    """A draft's layer, and the residual that its own tensors show: plain where they show none."""
    residual = ADD
    if layer.at.names:
        residual = next(residual for residual in RESIDUALS if residual.sees(layer))
    known = {stem: {**specs} for stem, specs in owners.items()}
    spec = layer_spec(layer, residual, known, findings)
    return spec, Part(stem=residual.stem, spec=residual.read(layer, "stream"))


def _overrides(layer: Layer) -> Mapping[str, Any]:
    """per_layer_config {"<index>": {...}} (gemma4, dots3_note); indices may be zero padded."""
    table = layer.cfg.word("per_layer_config")
    if not isinstance(table, Mapping):
        return {}
    for key, value in table.items():
        if str(key).isdigit() and int(key) == layer.index and isinstance(value, Mapping):
            return value
    return {}


def _sublayer(
    layer: Layer, name: str, part: Part, norms: tuple[str, ...], residual: Residual
) -> Sublayer:
    with layer.cfg.recording() as because:
        spec = residual.read(layer, name)
    norm_in, norm_out = norm.around(layer, name, norms)
    return Sublayer(
        name=name,
        branches=(part,),
        residual=Part(stem=residual.stem, spec=spec, because=tuple(because)),
        norm_in=norm_in,
        norm_out=norm_out,
    )


def _with_experts_beside(
    layer: Layer, mixer: Part, residual: Residual, findings: list[Finding]
) -> list[Sublayer]:
    """Gemma 4 with experts: they stand beside the dense feed-forward, each between norms."""
    dense = replace(
        _part(layer, (GLU,), "ffn", findings), slot="ffn",
        norm=norm.read(layer, "pre_feedforward_layernorm"),
        norm_out=norm.read(layer, "post_feedforward_layernorm_1"),
    )  # fmt: skip
    experts = replace(
        _part(layer, (MOE,), "ffn", findings), slot="experts",
        norm_out=norm.read(layer, "post_feedforward_layernorm_2"),
    )  # fmt: skip
    first = _sublayer(layer, "mixer", mixer, norm.FIRST, residual)
    second = _sublayer(layer, "ffn", dense, norm.SECOND, residual)
    both = replace(second, branches=(dense, experts), norm_in=None)
    return [first, both]


def _own_embedding(layer: Layer, residual: Residual) -> Sublayer:
    """The layer's own embedding joins the stream after its feed-forward."""
    with layer.cfg.recording() as because:
        spec = per_layer_input.read(layer)
        joined = residual.read(layer, "per_layer")
    return Sublayer(
        name="per_layer",
        branches=(Part(stem="per_layer_input", spec=spec, because=tuple(because)),),
        residual=Part(stem=residual.stem, spec=joined),
        norm_out=norm.read(layer, per_layer_input.AFTER),
    )


def _parallel(layer: Layer, mixer: Part, ffn: Part, residual: Residual) -> Sublayer:
    """Mixer and feed-forward of the same input: behind one norm, or each behind its own."""
    with layer.cfg.recording() as because:
        spec = residual.read(layer, "mixer")
    first = norm.read(layer, *norm.FIRST)
    twice = layer.at.has(*(f"{name}.weight" for name in norm.SECOND))
    if twice or (not layer.at.names and layer.cfg.get("norm.branches", default=False)):
        second = norm.read(layer, *norm.SECOND)
        branches = replace(mixer, slot="mixer", norm=first), replace(ffn, slot="ffn", norm=second)
        first = None
    else:
        branches = replace(mixer, slot="mixer"), replace(ffn, slot="ffn")
    return Sublayer(
        name="mixer",
        branches=branches,
        residual=Part(stem=residual.stem, spec=spec, because=tuple(because)),
        norm_in=first,
    )


def _part(
    layer: Layer, mechanisms: tuple[Mechanism, ...], slot: str, findings: list[Finding]
) -> Part:
    """The mechanism of one slot of the layer: tensors decide, words where there are none."""
    seen = next((m for m in mechanisms if layer.at.names and m.sees(layer)), None)
    said = next((m for m in mechanisms if m.says(layer)), None)
    if seen is not None and said is not None and seen is not said:
        findings.append(
            Finding(
                code="layer_kind_conflict",
                severity="warning",
                message=f"layer {layer.index}: config.json says {said.stem}, the tensors are "
                f"{seen.stem}; the tensors count",
                evidence=(layer.at.prefix, layer.word or layer.ffn_word),
            )
        )
    if slot == "mixer" and layer.at.names and seen is None:
        other = read_unknown(layer, slot)
        if other is not None and not (
            said is not None and (renamed(layer, other) or damaged(layer, said, other))
        ):
            return Part(stem="unknown", spec=other)
    chosen = seen or said
    if chosen is None:
        other = read_unknown(layer, slot) or Unknown(modules=(), because="no config word names it")
        return Part(stem="unknown", spec=other)
    try:
        with layer.cfg.recording() as because:
            spec = chosen.read(layer)
            sizes.check(f"layer {layer.index}: {chosen.stem}", spec)
    except MissingWord as error:
        findings.append(
            Finding(
                code="missing_word",
                severity="warning",
                message=f"layer {layer.index}: {chosen.stem} cannot be read: {error.message}",
                evidence=(layer.at.prefix,),
            )
        )
        return Part(stem="unknown", spec=Unknown(modules=(), because=error.message))
    return Part(stem=chosen.stem, spec=spec, because=tuple(because))
