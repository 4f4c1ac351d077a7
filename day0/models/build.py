"""ModelSpec -> Model: the spec's mechanisms, run over a Builder, yield the Graph."""

from day0.ir.graph import Graph, Model
from day0.ir.rows import LAST, TOKENS
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Tied
from day0.mechanisms import norm, per_layer_input, positions
from day0.mechanisms.builder import Builder
from day0.mechanisms.index import MECHANISMS, RESIDUAL
from day0.mechanisms.names import Names, Scope
from day0.mechanisms.spec import Flow, LayerSpec, ModelSpec, Part, Sublayer
from day0.models import drafts
from day0.models.decoder import EMBED, HEAD
from day0.models.places import Places


def build(spec: ModelSpec, names: Names, places: Places) -> Model:
    """The model with its main graph; weights carry the stored forms that `names` knows."""
    b = Builder(plain=spec.dtype)
    root = Scope(names, places.prefix)
    flow = begin(spec, b, root)
    for index, layer in enumerate(spec.layers):
        at = root.layers(places.stem, index, len(spec.layers))
        with b.at(f"layers.{index}", layer=index):
            run_layer(layer, b, flow, at)
    hidden = finish(spec, b, flow, root)
    logits = head(spec, b, hidden, root, places, names)
    graph = Graph(
        rows=(TOKENS, LAST),
        inputs=tuple(flow.inputs.values()),
        outputs=(logits, *taps(spec, b, hidden)),
        values=b.values,
        ops=tuple(b.ops),
    )
    graph.check()
    graphs = {"main": graph, **drafts.build(spec, b, names, run_layer)}
    return Model(spec=spec, graphs=graphs, weights=b.weights, caches=b.caches)


def taps(spec: ModelSpec, b: Builder, normed: str) -> tuple[str, ...]:
    """The hidden rows that the drafts ask the trunk for: after its final norm, or before it."""
    last = next(op for op in b.ops if normed in dict(op.outputs).values())
    wanted = {"normed": normed, "raw": dict(last.inputs).get("x", normed)}
    return tuple(dict.fromkeys(wanted[draft.spec.hidden] for draft in spec.drafts))


def begin(spec: ModelSpec, b: Builder, root: Scope) -> Flow:
    """Embedding, then the residual's stream."""
    ids = b.input("ids", TensorSpec(dims=("T",), format="int32"))
    b.because = ("vocab_size", "hidden_size", "embedding.scale")
    dims = (spec.vocab_size, spec.shape.hidden_size)
    table = b.weight("embed", root.leaf(EMBED, dims), role="embedding")
    x = b.op("embedding", "embedding", {"ids": ids}, {"table": table}, scale=spec.embedding_scale)
    flow = Flow(x=x["y"], inputs={"ids": ids}, kept={"vocab_size": spec.vocab_size})
    flow.kept[per_layer_input.KEPT] = flow.x
    if spec.positions is not None:
        with b.at("", because=spec.positions.because):
            positions.flow(spec.positions.spec, b, flow, root)
    residual = RESIDUAL[spec.residual.stem]
    with b.at("", because=spec.residual.because):
        residual.begin(spec.residual.spec, b, flow)
    return flow


def run_layer(layer: LayerSpec, b: Builder, flow: Flow, at: Scope) -> None:
    """All sublayers of one layer."""
    for sublayer in layer.sublayers:
        with b.at(sublayer.name):
            _run_sublayer(sublayer, b, flow, at)


def _run_sublayer(sublayer: Sublayer, b: Builder, flow: Flow, at: Scope) -> None:
    residual = RESIDUAL[sublayer.residual.stem]
    spec, because = sublayer.residual.spec, sublayer.residual.because
    with b.at("", because=because):
        x = residual.enter(spec, b, flow, at, sublayer.name)
    normed = _normed(sublayer.norm_in, b, "norm", x, at)
    total = ""
    for number, branch in enumerate(sublayer.branches):
        with b.at(branch.slot if number else ""):
            own = _normed(branch.norm, b, "norm", normed, at)
            y = _run_branch(branch, b, own, at, flow)
            y = _normed(branch.norm_out, b, "norm_out1", y, at)
        if number:
            y = b.op("add", f"sum{number}", {"a": total, "b": y}, scale_b=branch.multiplier)["y"]
        total = y
    total = _normed(sublayer.norm_out, b, "norm_out", total, at)
    with b.at("", because=because):
        residual.leave(spec, b, flow, total, normed, at, sublayer.name)


def _normed(part: Part | None, b: Builder, ident: str, x: str, at: Scope) -> str:
    if part is None:
        return x
    with b.at("", because=part.because):
        return norm.apply(part.spec, b, ident, x, at)


def _run_branch(branch: Part, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    mechanism = MECHANISMS[branch.stem]
    with b.at("", because=branch.because):
        return mechanism.flow(branch.spec, b, x, at, flow)


def finish(spec: ModelSpec, b: Builder, flow: Flow, root: Scope) -> str:
    """The residual's end, only the rows that yield logits, then the final norm."""
    residual = RESIDUAL[spec.residual.stem]
    with b.at("", because=spec.residual.because):
        x = residual.finish(spec.residual.spec, b, flow, root)
    return _normed(spec.norm, b, "norm", x, root)


def _transformed(spec: ModelSpec, b: Builder, x: str, at: Scope) -> str:
    """ModernBERT's head: a matrix, a function and a norm before the embedding's own rows."""
    x = b.project("head_dense", x, at, "dense", spec.shape.hidden_size, role="head")
    x = b.op("activation", "head_act", {"x": x}, function=spec.head_transform)["y"]
    layer = norm.Norm(names=("norm",), kind=spec.shape.norm_kind, eps=spec.shape.norm_eps,
                      bias=at.has("norm.bias"))  # fmt: skip
    return norm.apply(layer, b, "head_norm", x, at)


def head(
    spec: ModelSpec, b: Builder, hidden: str, root: Scope, places: Places, names: Names
) -> str:
    """Logits of each sequence's last row."""
    with b.at("", because=("tied", "logits.scale", "logits.softcap")):
        last = b.op("take_rows", "last", {"x": hidden}, rows="R")["y"]
        dims = (spec.head_size or spec.vocab_size, spec.shape.hidden_size)
        if spec.tied:
            source, at = Tied(weight="embed", dims=dims), root
        else:
            at = next(
                (Scope(names, r) for r in places.roots if Scope(names, r).has(*HEAD)),
                Scope(names, places.roots[-1]),
            )
            source = at.leaf(HEAD, dims)
        if spec.head_transform is not None:
            last = _transformed(spec, b, last, Scope(names, places.roots[-1]).child("lm_head"))
        biases = tuple(name.replace(".weight", ".bias") for name in HEAD)
        stored = next((s for r in places.roots if (s := Scope(names, r)).has(*biases)), None)
        if stored is None and spec.head_bias:
            stored = Scope(names, places.roots[-1])
        bias = None if stored is None else stored.leaf(biases, dims[:1])
        logits = b.linear("head", last, source, role="head", bias=bias)
        if spec.softcap is not None or spec.logit_scale != 1.0:
            inputs = {"x": logits}
            logits = b.op("softcap", "logits", inputs, cap=spec.softcap, scale=spec.logit_scale)[
                "y"
            ]
    return logits
