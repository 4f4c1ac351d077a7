"""Drafts (multi-token prediction): what is declared, what is shipped, and their graphs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from day0.ir.fact import Finding
from day0.ir.graph import Graph
from day0.ir.rows import LAST, TOKENS
from day0.mechanisms import mtp
from day0.mechanisms.builder import Builder
from day0.mechanisms.config import ConfigReader
from day0.mechanisms.index import RESIDUAL
from day0.mechanisms.mtp import Mtp, Site
from day0.mechanisms.names import Names, Scope
from day0.mechanisms.spec import Flow, Layer, LayerSpec, ModelSpec, Part, Shape
from day0.models.places import Places

MODULES = ("mtp", "mtp_layers", "mtp_dspark")
# Draft layers are one of a kind, so their mixer is the trunk's costliest one.
_NEVER = ("linear", "sliding", "chunked", "conv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """MTP layers: `declared` by the config, `shipped` by the file, of whatever form (without
    headers: as many as are declared)."""

    declared: int = 0
    shipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The trunk's words per layer, of which a draft takes the last that is no cheap one."""

    mixers: Sequence[str]
    ffns: Sequence[str]

    def mixer(self) -> str:
        """Word of a draft's mixer."""
        return next((word for word in reversed(self.mixers) if word not in _NEVER), "full")

    def ffn(self) -> str:
        """Word of a draft's feed-forward: that of the last layer."""
        return self.ffns[-1] if self.ffns else ""


def read(
    cfg: ConfigReader,
    names: Names,
    places: Places,
    words: Words,
    shape: Shape,
    owners: dict[str, dict[int, Any]],
    read_layer: Callable[[Layer], tuple[LayerSpec, Part]],
) -> tuple[tuple[Part, ...], Count, list[Finding]]:
    """Drafts that can be built, how many there are, and what was noticed. `read_layer` reads a
    decoder layer and its residual. What is stored decides; without headers, the config's count
    does."""
    declared = cfg.word(*mtp.COUNT) or 0
    # Whether repeated steps of one draft share a top-k list: a matter of the draft loop.
    cfg.word("index_share_for_mtp_iteration")
    cfg.word("num_mtp_modules")  # a second count (MiniMax-M3); what is stored decides
    if not names:
        sites = _declared(cfg, names, places, shape.num_layers, declared)
        shipped = declared
    else:
        sites, shipped = _shipped(names, places, shape.num_layers)
    findings = _compare(declared, shipped)
    parts = []
    for site in sites:
        layer = Layer(
            index=shape.num_layers + len(parts),
            word=words.mixer(),
            ffn_word=words.ffn(),
            cfg=cfg,
            at=site.layer_at(names),
            shape=shape,
            owners=owners,
        )
        with cfg.recording() as because:
            spec = mtp.read(cfg, names, site, *read_layer(layer), shape)
        if _buildable(spec):
            parts.append(Part(stem="mtp", spec=spec, because=tuple(because)))
    return tuple(parts), Count(declared=declared, shipped=shipped), findings


def _declared(
    cfg: ConfigReader, names: Names, places: Places, num_layers: int, count: int
) -> list[Site]:
    form = cfg.get("mtp.form", default="module" if cfg.says("mtp_num_hidden_layers") else "tail")
    if form == "tail":
        return [tail(places, num_layers, num_layers + i) for i in range(count)]
    if form == "module":
        return [_in_module("mtp.", i, count) for i in range(count)]
    return []


def _shipped(names: Names, places: Places, num_layers: int) -> tuple[list[Site], int]:
    """(sites of known forms, how many drafts the file holds, of whatever form)."""
    sites, count = [], 0
    for index in range(num_layers, places.num_layers):
        site = tail(places, num_layers, index)
        if mtp.traces(site.at(names)):
            count += 1
            sites.append(site)
    for root in places.roots:
        for module in MODULES:
            prefix = f"{root}{module}."
            if not names.any_below(prefix):
                continue
            children = names.children(prefix)
            if mtp.seen(Scope(names, prefix)) and "layers" in children:
                layers = [int(c) for c in names.children(f"{prefix}layers.") if c.isdigit()]
                sites.extend(_in_module(prefix, i, len(layers)) for i in sorted(layers))
                count += len(layers)
                continue
            numbers = sorted(int(child) for child in children if child.isdigit())
            sites.extend(
                Site(form="tail", prefix=f"{prefix}{i}.", stem=prefix, layer=i, siblings=1)
                for i in numbers
            )
            count += max(len(numbers), 1)
    return [site for site in sites if mtp.seen(site.at(names))], count


def tail(places: Places, num_layers: int, index: int) -> Site:
    stem = f"{places.prefix}{places.stem}."
    return Site(form="tail", prefix=f"{stem}{index}.", stem=stem, layer=index, siblings=num_layers)


def _in_module(prefix: str, index: int, count: int) -> Site:
    return Site(form="module", prefix=prefix, stem=f"{prefix}layers.", layer=index, siblings=count)


def _compare(declared: int, shipped: int) -> list[Finding]:
    if shipped < declared:
        return [
            Finding(
                code="mtp_missing",
                severity="warning",
                message=f"config.json promises {declared} MTP layers, the checkpoint holds "
                f"{shipped}; no speculation can be planned with the missing ones",
                evidence=mtp.COUNT[:1],
            )
        ]
    if shipped > declared:
        return [
            Finding(
                code="mtp_undeclared",
                severity="info",
                message=f"the checkpoint ships {shipped} MTP layers, config.json declares "
                f"{declared}",
                evidence=mtp.COUNT[:1],
            )
        ]
    return []


def _buildable(spec: Mtp) -> bool:
    """All parts of the layer are known, and it reads nothing of the trunk's layers."""
    return not any(
        branch.stem == "unknown"
        or getattr(branch.spec, "topk_of", -1) >= 0
        or getattr(branch.spec, "kv_of", -1) >= 0
        for sublayer in spec.layer.sublayers
        for branch in sublayer.branches
    )


def graph_name(index: int) -> str:
    """Name of a draft's graph: "mtp", "mtp1", ..."""
    return f"mtp{index}" if index else "mtp"


def build(
    spec: ModelSpec,
    trunk: Builder,
    names: Names,
    run_layer: Callable[[LayerSpec, Builder, Flow, Scope], None],
) -> dict[str, Graph]:
    """One graph per draft, over the trunk's weights and caches; its own are called "mtp.<i>.*".

    Inputs: the ids one step ahead, and the trunk's hidden rows. Outputs: logits of the last rows,
    and the draft's own hidden rows, which a next draft reads.
    """
    graphs = {}
    for index, part in enumerate(spec.drafts):
        b = Builder(plain=spec.dtype, weights=trunk.weights, caches=trunk.caches)
        draft: Mtp = part.spec
        at = draft.site.at(names)
        with b.at(f"mtp.{index}", layer=spec.shape.num_layers + index, because=part.because):
            flow = mtp.begin(
                draft, b, at,
                hidden=spec.shape.hidden_size, vocab=spec.vocab_size, scale=spec.embedding_scale,
            )  # fmt: skip
            residual = RESIDUAL[draft.residual.stem]
            residual.begin(draft.residual.spec, b, flow)
            run_layer(draft.layer, b, flow, draft.site.layer_at(names))
            hidden = residual.finish(draft.residual.spec, b, flow, at)
            logits = mtp.finish(draft, b, hidden, at, vocab=spec.vocab_size, tied=spec.tied)
        graph = Graph(
            rows=(TOKENS, LAST),
            inputs=("next_ids", "hidden"),
            outputs=(logits, hidden),
            values=b.values,
            ops=tuple(b.ops),
        )
        graph.check()
        graphs[graph_name(index)] = graph
    return graphs
