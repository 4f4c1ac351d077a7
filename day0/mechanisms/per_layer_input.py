"""Per-layer embeddings (Gemma 3n, Gemma 4): every layer adds a narrow embedding of its own, of the
token and of its first hidden row, through a gate (architectures.md 1c)."""

from dataclasses import dataclass

from day0.ir.weight import Pick
from day0.mechanisms import norm
from day0.mechanisms.builder import Builder
from day0.mechanisms.glu import FUNCTIONS
from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Flow, Layer, Mechanism

TABLE = "embed_tokens_per_layer.weight"
PROJECTION = "per_layer_model_projection.weight"
NORM = "per_layer_projection_norm.weight"
GATE = "per_layer_input_gate"
BACK = "per_layer_projection"
AFTER = "post_per_layer_input_norm"
KEPT = "per_layer.embedding"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerLayerInput:
    """`width` channels of each of `num_layers` layers; `vocab_size` rows of the table. `layer` is
    this one's number: its channels are cut out of the table and of the projection."""

    width: int
    num_layers: int
    layer: int
    vocab_size: int
    function: str
    norm_eps: float


def sees(layer: Layer) -> bool:
    return layer.at.has(f"{GATE}.weight")


def says(layer: Layer) -> bool:
    layer.cfg.word("vocab_size_per_layer_input")
    return bool(layer.cfg.word("hidden_size_per_layer_input"))


def read(layer: Layer) -> PerLayerInput:
    cfg = layer.cfg
    name = cfg.word("hidden_activation", "hidden_act") or "gelu_pytorch_tanh"
    return PerLayerInput(
        width=cfg.get(
            "per_layer.width", "hidden_size_per_layer_input",
            derive=lambda: layer.at.dim(0, f"{GATE}.weight"),
        ),
        num_layers=layer.shape.num_layers,
        layer=layer.index,
        vocab_size=cfg.get(
            "per_layer.vocab_size", "vocab_size_per_layer_input",
            derive=lambda: layer.at.root().dim(0, TABLE), default=cfg.word("vocab_size"),
        ),
        function=FUNCTIONS.get(name, "gelu_tanh"),
        norm_eps=layer.shape.norm_eps,
    )  # fmt: skip


def flow(spec: PerLayerInput, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    """The layer's own embedding, gated by x, back at the stream's width."""
    gate = b.project("gate", x, at, GATE, spec.width, role="dense")
    own = _own(spec, b, at.root(), flow)
    y = b.op("glu", "act", {"gate": gate, "up": own}, function=spec.function)["y"]
    return b.project("projection", y, at, BACK, b.width(x), role="dense")


def _own(spec: PerLayerInput, b: Builder, root: Scope, flow: Flow) -> str:
    """(norm of the projected first row + embedding of the token) / sqrt 2, for this layer."""
    first = flow.kept[KEPT]
    total, start = spec.num_layers * spec.width, spec.layer * spec.width
    stop = start + spec.width

    def cut(name: str, dims: tuple[int, int], dim: int) -> Pick:
        return Pick(of=root.leaf(name, dims), dim=dim, period=total, start=start, stop=stop)

    rows = cut(PROJECTION, (total, b.width(first)), 0)
    table = b.weight("table", cut(TABLE, (spec.vocab_size, total), 1), role="lookup")
    ids = flow.inputs["ids"]
    token = b.op("embedding", "token", {"ids": ids}, {"table": table}, scale=spec.width**0.5)["y"]
    context = b.linear("context", first, rows, role="dense")
    if "per_layer.norm" not in b.weights:
        b.weight("per_layer.norm", root.leaf(NORM, (spec.width,)), role="norm", top=True)
    # the factor hidden_size^-1/2 in front of the norm shows only in its eps
    eps = spec.norm_eps * b.width(first)
    context = norm.rms(b, "norm", context, "per_layer.norm", eps=eps)
    half = 2.0**-0.5
    return b.op("add", "own", {"a": context, "b": token}, scale_a=half, scale_b=half)["y"]


PER_LAYER_INPUT = Mechanism(
    stem="per_layer_input", spec=PerLayerInput, sees=sees, says=says, read=read, flow=flow
)
