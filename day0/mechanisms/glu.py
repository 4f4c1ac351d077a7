"""The dense gated feed-forward: down(f(gate x) * up x)."""

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from day0.errors import Day0Error
from day0.ir.weight import Expr, Pick
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.norm import weighted_rms
from day0.mechanisms.spec import Flow, Layer, Mechanism

MODULES = ("mlp", "block_sparse_moe", "ffn", "feed_forward", "")
GATE = ("gate_proj", "w1", "linear_gate", "c_fc_0")
UP = ("up_proj", "w3", "c_fc_1")
DOWN = ("down_proj", "w2", "c_proj", "output_linear", "Wo")
FUSED = ("gate_up_proj", "input_linear", "Wi")
INNER = "ffn_sub_norm.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """The function inside a gated feed-forward, with the constants of `glu.ATTRS`."""

    function: str
    limit: float | None = None
    alpha: float | None = None
    beta: float | None = None
    linear_beta: float | None = None

    def attrs(self) -> dict[str, Any]:
        return {
            "function": self.function,
            "limit": self.limit,
            "alpha": self.alpha,
            "beta": self.beta,
            "linear_beta": self.linear_beta,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Glu:
    """`intermediate` channels. `inner_norm`: an RMS norm before the last matrix (BitNet).
    `sparsity`: the share of the gate's values that is cut away (Gemma 3n)."""

    intermediate: int
    activation: Activation
    bias: bool = False
    sparsity: float = 0.0
    inner_norm: bool = False
    norm_eps: float = 0.0


FUNCTIONS = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh", "relu2": "relu2", "relu": "relu", "situ": "situ",
    "swigluoai": "swigluoai",
}  # fmt: skip


def activation(layer: Layer, scope: str) -> Activation:
    """The activation as the config spells it; `scope` "dense", "shared" or "experts" selects
    among facts that differ by place (clamps)."""
    cfg = layer.cfg
    function = _function(layer)
    limit = None
    if cfg.get(f"ffn.clamped.{scope}", default=True):
        limit = cfg.get("ffn.limit", "swiglu_limit", default=None)
    return Activation(
        function=function,
        limit=limit if limit and limit > 0 else None,
        alpha=cfg.get("ffn.alpha", "swiglu_alpha", default=1.702)
        if function == "swigluoai"
        else None,
        beta=cfg.get("ffn.situ_beta", "activation_situ_beta", default=1.0)
        if function == "situ"
        else None,
        linear_beta=cfg.get("ffn.situ_linear_beta", "activation_situ_linear_beta", default=None)
        if function == "situ"
        else None,
    )


def _function(layer: Layer) -> str:
    """Our tables win over the word: gpt-oss says silu and means swigluoai."""
    cfg = layer.cfg
    name = cfg.get("ffn.activation", "hidden_act", "hidden_activation", "activation_function",
                   assume="silu")  # fmt: skip
    if "ffn.function" in cfg.known:
        return FUNCTIONS[cfg.get("ffn.function", decisive=True)]
    if name in FUNCTIONS:
        return cfg.note("ffn.function", FUNCTIONS[name], "config", f"activation {name}")
    return cfg.get("ffn.function", assume="silu", decisive=True)


def sees(layer: Layer) -> bool:
    at = layer.at.child(*MODULES)
    return at.has(*(f"{name}.weight" for name in (*GATE, *FUSED))) and at.has(
        *(f"{name}.weight" for name in DOWN)
    )


def says(layer: Layer) -> bool:
    return layer.ffn_word in ("dense", "") and layer.cfg.says(
        "intermediate_size", "dense_intermediate_size", "ffn_hidden_size", "ffn_dim"
    )


def _sparsity(layer: Layer) -> float:
    """Day0Error for a share that is none."""
    share = float(layer.cfg.get("ffn.sparsity", "activation_sparsity_pattern", default=0.0))
    if not 0 <= share < 1:
        raise Day0Error(
            f"ffn.sparsity is {share}; the share of the gate that is cut is 0 or more and below 1",
            hint="mend activation_sparsity_pattern in config.json, or the fact ffn.sparsity",
        )
    return share


def read(layer: Layer) -> Glu:
    cfg, at = layer.cfg, layer.at.child(*MODULES)
    inner = at.has(INNER) or (not at.names and bool(cfg.get("ffn.inner_norm", default=False)))
    wide = cfg.word("use_double_wide_mlp") and layer.index >= layer.shape.num_layers - (
        cfg.word("num_kv_shared_layers") or 0
    )
    return Glu(
        intermediate=(2 if wide else 1)
        * cfg.get(
            "ffn.intermediate",
            "dense_intermediate_size",
            "intermediate_size_mlp",
            "intermediate_size",
            "ffn_hidden_size",
            "ffn_dim",
            derive=lambda: at.dim(0, *(f"{name}.weight" for name in UP)),
        ),  # fmt: skip
        activation=activation(layer, "dense"),
        bias=bool(cfg.get("ffn.bias", "mlp_bias", default=False)),
        sparsity=_sparsity(layer),
        inner_norm=inner,
        norm_eps=layer.shape.norm_eps if inner else 0.0,
    )


def flow(spec: Glu, b: Builder, x: str, at: Scope, flow: Flow) -> str:
    at = at.child(*MODULES)
    return feed_forward(
        b, x, at, spec.intermediate, spec.activation, role="dense", bias=spec.bias,
        inner=spec.norm_eps if spec.inner_norm else None, sparsity=spec.sparsity,
    )  # fmt: skip


def feed_forward(
    b: Builder,
    x: str,
    at: Scope,
    intermediate: int,
    act: Activation,
    *,
    role: str,
    bias: bool = False,
    inner: float | None = None,
    sparsity: float = 0.0,
) -> str:
    """A gated feed-forward whose tensors stand directly in `at`; `inner`: the eps of a norm
    before the last matrix; `sparsity`: the share of the gate that is cut."""
    width = b.width(x)
    gate_source, up_source = gate_and_up(at, intermediate, width)
    biases: list[Expr | None] = [None, None]
    if bias or at.has("gate_proj.bias", "gate_up_proj.bias"):
        if at.has(*(f"{name}.bias" for name in FUSED)):
            fused = at.leaf(tuple(f"{name}.bias" for name in FUSED), (2 * intermediate,))
            biases = list(_halves(fused, intermediate, 0))
        else:
            biases = [at.leaf("gate_proj.bias", (intermediate,)),
                      at.leaf("up_proj.bias", (intermediate,))]  # fmt: skip
    gate = b.linear("gate_proj", x, gate_source, role=role, bias=biases[0])
    if sparsity:
        multiplier = NormalDist().inv_cdf(sparsity)
        gate = b.op("sparse_threshold", "cut", {"x": gate}, multiplier=multiplier)["y"]
    up = b.linear("up_proj", x, up_source, role=role, bias=biases[1])
    y = b.op("glu", "act", {"gate": gate, "up": up}, **act.attrs())["y"]
    if inner is not None:
        y = weighted_rms(b, "inner_norm", y, at, INNER, eps=inner, size=intermediate)
    return b.project("down_proj", y, at, DOWN, width, role=role, bias=bias)


def gate_and_up(at: Scope, intermediate: int, width: int) -> tuple[Expr, Expr]:
    """The two input matrices, from one fused tensor where it is stored so."""
    fused = tuple(f"{name}.weight" for name in FUSED)
    if at.has(*fused):
        gate, up = _halves(at.leaf(fused, (2 * intermediate, width)), intermediate, 0)
        return gate, up
    gate_names = tuple(f"{name}.weight" for name in GATE)
    up_names = tuple(f"{name}.weight" for name in UP)
    return at.leaf(gate_names, (intermediate, width)), at.leaf(up_names, (intermediate, width))


def _halves(leaf: Expr, half: int, dim: int) -> tuple[Expr, Expr]:
    low, high = (
        Pick(of=leaf, dim=dim, period=2 * half, start=start, stop=start + half)  # type: ignore[arg-type]
        for start in (0, half)
    )
    return low, high


GLU = Mechanism(stem="glu", spec=Glu, sees=sees, says=says, read=read, flow=flow)
