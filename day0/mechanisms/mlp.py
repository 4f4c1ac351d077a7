"""The dense feed-forward without a gate: down(f(up x)) (architectures.md 1a)."""

from dataclasses import dataclass

from day0.mechanisms.builder import Builder
from day0.mechanisms.glu import FUNCTIONS
from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = ("mlp", "ffn", "feed_forward")
UP = ("up_proj", "fc1", "c_fc", "dense_h_to_4h", "fc_in")
DOWN = ("down_proj", "fc2", "c_proj", "dense_4h_to_h", "fc_out")
GATED = ("gate_proj", "gate_up_proj", "w1", "linear_gate", "c_fc_0")
KEYS = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """`function` "xielu" has four scalars of its own a layer, stored beside the matrices."""

    intermediate: int
    function: str
    bias: bool = False


def sees(layer: Layer) -> bool:
    at = _place(layer.at)
    return at.has(*_of(UP)) and at.has(*_of(DOWN)) and not at.has(*_of(GATED))


def says(layer: Layer) -> bool:
    if layer.at.names:
        return sees(layer)
    return "ffn.gated" in layer.cfg.known and not layer.cfg.get("ffn.gated")


def read(layer: Layer) -> Mlp:
    cfg, at = layer.cfg, _place(layer.at)
    width = layer.shape.hidden_size
    return Mlp(
        intermediate=cfg.get(
            "ffn.intermediate",
            *KEYS,
            derive=lambda: at.dim(0, *_of(UP)),
            default=(cfg.word("intermediate_multiple_size", "expansion_ratio") or 4) * width,
        ),  # fmt: skip
        function=_function(layer),
        bias=bool(cfg.get("ffn.bias", "mlp_bias", "use_bias", "bias", default=False)),
    )


def _function(layer: Layer) -> str:
    cfg = layer.cfg
    name = cfg.get("ffn.activation", "hidden_act", "hidden_activation", "activation_function",
                   "activation", assume="gelu", decisive=True)  # fmt: skip
    name = "xielu" if name == "xielu" else FUNCTIONS.get(name)
    if name is None:
        return cfg.get("ffn.function", assume="gelu", decisive=True)
    return cfg.note("ffn.function", name, "config", "hidden_act")


def flow(spec: Mlp, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = _place(at)
    up = b.project("up_proj", x, at, UP, spec.intermediate, role="dense", bias=spec.bias)
    if spec.function == "xielu":
        inner = at.child("act_fn")
        scalars = {
            name: b.weight(name, inner.leaf(name, dims), role="state")
            for name, dims in (("alpha_p", (1,)), ("alpha_n", (1,)), ("beta", ()), ("eps", ()))
        }
        up = b.op("xielu", "act", {"x": up}, scalars)["y"]
    else:
        up = b.op("activation", "act", {"x": up}, function=spec.function)["y"]
    return b.project("down_proj", up, at, DOWN, b.width(x), role="dense", bias=spec.bias)


def _place(at: Scope) -> Scope:
    """The module, or the layer itself (OPT: fc1 and fc2 stand there)."""
    return at if at.has("fc1.weight") else at.child(*MODULES)


def _of(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{name}.weight" for name in names)


MLP = Mechanism(stem="mlp", spec=Mlp, sees=sees, says=says, read=read, flow=flow)
