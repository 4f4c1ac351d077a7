"""Multi-token prediction: one more decoder layer that drafts the token after the next
(arXiv:2412.19437 section 2.2; architectures.md 3.7).

u = W [norm(embedding of the next token) | norm(hidden of the trunk)], one layer, a norm, the head.
Two ways of storing it: "tail", as layer L, L + 1, ... of the trunk's own stack (DeepSeek-V3, GLM-5,
Ling), and "module", under "mtp." with layers of its own (Qwen3-Next).
"""

from collections.abc import Callable
from dataclasses import dataclass

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Expr, Tied
from day0.mechanisms.builder import Builder
from day0.mechanisms.config import ConfigReader
from day0.mechanisms.names import Names, Scope
from day0.mechanisms.norm import rms
from day0.mechanisms.spec import Flow, LayerSpec, Part, Shape

JOIN = ("eh_proj", "fc")
NORM_EMBED = ("enorm.weight", "pre_fc_norm_embedding.weight")
NORM_HIDDEN = ("hnorm.weight", "pre_fc_norm_hidden.weight")
NORM_OUT = ("shared_head.norm.weight", "final_layernorm.weight", "norm.weight")
EMBED = ("embed_tokens.weight", "word_embeddings.weight")
HEAD = ("shared_head.head.weight",)
COUNT = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a draft stands. `prefix`: the join, its norms and the head; `stem` and `layer`: its
    decoder layer is "<stem><layer>."; `siblings`: layers of the same stem that tell spellings."""

    form: str
    prefix: str
    stem: str
    layer: int
    siblings: int

    def at(self, names: Names) -> Scope:
        """The scope of the join, its norms and the head."""
        return Scope(names, self.prefix)

    def layer_at(self, names: Names) -> Scope:
        """The scope of the decoder layer."""
        return Scope(
            names,
            f"{self.stem}{self.layer}.",
            stem=self.stem,
            layer=self.layer,
            num_layers=self.siblings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mtp:
    """One draft. `residual`: the stream of its layer, begun and ended inside. `embed_first`: order
    of the join's input. `own_*`: stored beside the draft instead of shared with the trunk.
    `hidden` "normed" or "raw": the trunk's output after or before its final norm."""

    site: Site
    layer: LayerSpec
    residual: Part
    embed_first: bool
    own_embedding: bool
    own_head: bool
    own_norm: bool
    hidden: str
    eps: float
    zero_centered: bool


def seen(at: Scope) -> bool:
    """Whether a draft's join stands here, in a form we can build."""
    return at.has(*(f"{name}.weight" for name in JOIN)) and at.has(*NORM_EMBED)


def traces(at: Scope) -> bool:
    """Whether something of a draft stands here."""
    return at.has(*(f"{name}.weight" for name in JOIN), *NORM_EMBED, *NORM_HIDDEN)


def read(
    cfg: ConfigReader, names: Names, site: Site, layer: LayerSpec, residual: Part, shape: Shape
) -> Mtp:
    """The draft at `site`. Its facts are not decisive: a wrong draft is rejected by the trunk, it
    costs accepted tokens and changes none."""
    at = site.at(names)
    if names:
        own_embedding = cfg.note("mtp.own_embedding", at.has(*EMBED), "header", "its own copy")
        own_head = cfg.note("mtp.own_head", at.has(*HEAD), "header", "its own copy")
        own_norm = at.has(*NORM_OUT)
    else:
        own_embedding = cfg.get("mtp.own_embedding", default=False)
        own_head = cfg.get("mtp.own_head", default=False)
        own_norm = True
    return Mtp(
        site=site,
        layer=layer,
        residual=residual,
        embed_first=not cfg.get("mtp.hidden_first", "mtp_hidden_states_first", default=False),
        own_embedding=own_embedding,
        own_head=own_head,
        own_norm=own_norm,
        hidden=cfg.get("mtp.hidden", assume="normed"),
        eps=shape.norm_eps,
        zero_centered=shape.zero_centered,
    )


def begin(spec: Mtp, b: Builder, at: Scope, *, hidden: int, vocab: int, scale: float) -> Flow:
    """From the next token's id and the trunk's hidden row to the draft layer's input."""
    ids = b.input("next_ids", TensorSpec(dims=("T",), format="int32"))
    trunk = b.input("hidden", TensorSpec(dims=("T", hidden), format=b.plain))
    table = "embed"
    if spec.own_embedding:
        table = b.weight("embed", at.leaf(EMBED, (vocab, hidden)), role="embedding")
    embedded = b.op("embedding", "embedding", {"ids": ids}, {"table": table}, scale=scale)["y"]
    embedded = _norm(spec, b, "embed_norm", embedded, at, NORM_EMBED)
    trunk = _norm(spec, b, "hidden_norm", trunk, at, NORM_HIDDEN)
    first, second = (embedded, trunk) if spec.embed_first else (trunk, embedded)
    both = b.op("concat", "both", {"x0": first, "x1": second})["y"]
    names = tuple(f"{name}.weight" for name in JOIN)
    weight = _shared(b, "join", lambda: at.leaf(names, (hidden, 2 * hidden)), "dense")
    x = b.op("linear", "join", {"x": both}, {"weight": weight})["y"]
    return Flow(x=x, inputs={"ids": ids}, kept={"vocab_size": vocab})


def finish(spec: Mtp, b: Builder, x: str, at: Scope, *, vocab: int, tied: bool) -> str:
    """Logits of each sequence's last row."""
    if spec.own_norm:
        x = _norm(spec, b, "norm", x, at, NORM_OUT)
    else:
        x = rms(b, "norm", x, "norm", eps=spec.eps, zero_centered=spec.zero_centered)
    last = b.op("take_rows", "last", {"x": x}, rows="R")["y"]
    dims = (vocab, b.width(x))
    source: Expr = Tied(weight="embed" if tied else "head", dims=dims)
    if spec.own_head:
        source = at.leaf(HEAD, dims)
    return b.linear("head", last, source, role="head")


def _norm(spec: Mtp, b: Builder, ident: str, x: str, at: Scope, spellings: tuple[str, ...]) -> str:
    dims = (b.width(x),)
    weight = _shared(b, ident, lambda: at.leaf(spellings, dims), "norm")
    return rms(b, ident, x, weight, eps=spec.eps, zero_centered=spec.zero_centered)


def _shared(b: Builder, ident: str, source: Callable[[], Expr], role: str) -> str:
    """A weight that several drafts of one module share: defined by the first of them."""
    expr = source()
    name = next((n for n, weight in b.weights.items() if weight.source == expr), None)
    return b.weight(ident, expr, role=role) if name is None else name
