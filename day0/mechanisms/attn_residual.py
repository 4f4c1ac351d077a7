"""Block attention residual: every sublayer reads a softmax mix over the stored residual blocks and
the running sum, by one learned query (arXiv:2603.15031; Kimi-K3, AliceAI, Inkling-2).

Bookkeeping, with blocks of `block_size` decoder layers: layer i with i % block_size == 0 stores the
running sum after its mixer's mix, and its mixer's output starts a new sum. One more mix ends the
trunk (formats-and-parallelism.md 2.1).
"""

from dataclasses import dataclass

from day0.ir.weight import Expr, Mul, Reshape
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.residual import Residual
from day0.mechanisms.spec import Flow, Layer

BLOCK_SIZE = ("attn_res_block_size", "block_attn_res_block_size", "attnres_block_size",
              "n_layers_per_attn_res_block")  # fmt: skip
# Spellings of Kimi-K3, FLA and AliceAI, in this order; "end" stands beside the final norm.
PROJ = {
    "mixer": ("self_attention_res_proj.weight", "attn_res_proj.weight"),
    "ffn": ("mlp_res_proj.weight",),
    "end": ("output_attn_res_proj.weight", "res_proj.weight", "attnres_final.res_proj.weight"),
}
GAIN = {
    "mixer": ("self_attention_res_norm.weight", "attn_res_norm.weight", "attn_res_norm_weight"),
    "ffn": ("mlp_res_norm.weight", "mlp_res_norm_weight"),
    "end": ("output_attn_res_norm.weight", "res_norm_weight", "attnres_final.res_norm_weight"),
}
# Inkling-2 stores the query itself.
QUERY = {
    "mixer": ("attention_input.query",),
    "ffn": ("mlp_input.query",),
    "end": ("final_input.query",),
}
_BLOCKS, _RESTART = "attn_residual.blocks", "attn_residual.restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttnResidual:
    """`stores`: this sublayer stores a block and restarts the sum. `query` "norm*proj" (the product
    of a gain and a projection), "proj", "vector", or "none" (one source, no mix). `scale`: factor
    on the scores (1, or hidden_size^-1/2). `normed_values`: the mix sums normed sources instead of
    raw ones."""

    block_size: int
    stores: bool = False
    query: str = "norm*proj"
    eps: float
    scale: float = 1.0
    normed_values: bool = False


def sees(layer: Layer) -> bool:
    return layer.at.has(*PROJ["ffn"], *QUERY["ffn"])


def says(layer: Layer) -> bool:
    return layer.cfg.says(*BLOCK_SIZE)


def read(layer: Layer, name: str) -> AttnResidual:
    cfg = layer.cfg
    # The block size leaves no trace in any shape: a file without the word is a guess.
    size = cfg.get("attn_residual.block_size", *BLOCK_SIZE, assume=12, decisive=True)
    vector = layer.at.has(*QUERY["ffn"])
    scaled = cfg.get("attn_residual.scaled", default=vector)
    return AttnResidual(
        block_size=size,
        stores=name == "mixer" and layer.index % size == 0,
        query=_query_kind(layer, name, vector),
        eps=cfg.get("attn_residual.eps", default=1e-6 if vector else layer.shape.norm_eps),
        scale=layer.shape.hidden_size**-0.5 if scaled else 1.0,
        normed_values=cfg.get("attn_residual.normed_values", default=vector, decisive=True),
    )


def _query_kind(layer: Layer, name: str, vector: bool) -> str:
    if vector:
        first = name in QUERY and not layer.at.has(*QUERY[name])
        return "none" if first else "vector"
    if not layer.at.names or name not in GAIN or layer.at.has(*GAIN[name]):
        return "norm*proj"
    return "proj"  # AliceAI: layer 0 mixes one source, its gain is not stored


def begin(spec: AttnResidual, b: Builder, flow: Flow) -> None:
    flow.kept[_BLOCKS] = ()


def enter(spec: AttnResidual, b: Builder, flow: Flow, at: Scope, name: str) -> str:
    mixed = flow.x if spec.query == "none" else _mix(spec, b, flow, at, name)
    flow.kept[_RESTART] = spec.stores
    if spec.stores:
        flow.kept[_BLOCKS] = (*flow.kept[_BLOCKS], flow.x)
    return mixed


def leave(
    spec: AttnResidual, b: Builder, flow: Flow, y: str, normed: str, at: Scope, name: str
) -> None:
    if flow.kept[_RESTART]:
        flow.x = y
    else:
        flow.x = b.op("add", "residual", {"a": flow.x, "b": y})["y"]


def finish(spec: AttnResidual, b: Builder, flow: Flow, at: Scope) -> str:
    with b.at("end"):
        return _mix(spec, b, flow, at, "end")


def _mix(spec: AttnResidual, b: Builder, flow: Flow, at: Scope, name: str) -> str:
    """The mix of all stored blocks and the running sum (one source: that very source)."""
    sources = (*flow.kept[_BLOCKS], flow.x)
    query = b.weight("mix", _query(spec, at, name, b.width(flow.x)), role="residual")
    return b.op(
        "attn_residual",
        "mix",
        {f"x{i}": source for i, source in enumerate(sources)},
        {"query": query},
        eps=spec.eps,
        scale=spec.scale,
        normed_values=spec.normed_values,
    )["y"]


def _query(spec: AttnResidual, at: Scope, name: str, width: int) -> Expr:
    if spec.query == "vector":
        return at.leaf(QUERY[name], (width,))
    proj = Reshape(of=at.leaf(PROJ[name], (1, width)), dims=(width,))
    if spec.query == "proj":
        return proj
    return Mul(left=at.leaf(GAIN[name], (width,)), right=proj)


ATTN_RESIDUAL = Residual(
    stem="attn_residual",
    spec=AttnResidual,
    sees=sees,
    says=says,
    read=read,
    begin=begin,
    enter=enter,
    leave=leave,
    finish=finish,
)
