"""What happens to a token's embedding before the first layer: learned absolute positions (OPT,
GPT-BigCode) and a norm (BLOOM, ModernBERT)."""

from dataclasses import dataclass

from day0.mechanisms import norm as norms
from day0.mechanisms.builder import Builder
from day0.mechanisms.config import ConfigReader
from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Flow, Part, Shape

TABLE = ("embed_positions.weight", "wpe.weight")
NORMS = ("word_embeddings_layernorm", "embeddings.norm", "embed_norm", "embed_tokens.embed_norm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """`rows` of the table (0: none), the first `offset` of which stand for no position."""

    rows: int = 0
    offset: int = 0
    norm: norms.Norm | None = None


def read(cfg: ConfigReader, root: Scope, shape: Shape) -> Part | None:
    """None where the embedding is the stream as it is."""
    with cfg.recording() as because:
        rows = cfg.get("position.rows", derive=lambda: _rows(root), default=_promised(cfg))
        offset = 0
        if rows:
            lengths = ("max_position_embeddings", "n_positions")
            offset = cfg.get("position.offset", assume=rows - (cfg.word(*lengths) or rows),
                             decisive=True)  # fmt: skip
        spec = Positions(rows=rows, offset=offset, norm=_norm(cfg, root, shape))
    return (
        None if spec == Positions() else Part(stem="positions", spec=spec, because=tuple(because))
    )


def _promised(cfg: ConfigReader) -> int:
    """Rows of the table without headers: positions, and those that stand for none."""
    if "position.offset" not in cfg.known:
        return 0
    return (cfg.word("max_position_embeddings", "n_positions") or 0) + cfg.known["position.offset"][
        0
    ]


def _rows(root: Scope) -> int | None:
    return (root.dim(0, *TABLE) or 0) if root.names else None


def _norm(cfg: ConfigReader, root: Scope, shape: Shape) -> norms.Norm | None:
    bare = shape.norm_bare or "embedding.norm" in cfg.known
    if bare and cfg.get("embedding.norm", assume=False, decisive=True):
        return norms.Norm(names=(), kind=shape.norm_kind, eps=shape.norm_eps, weight=False)
    found = next((name for name in NORMS if root.has(f"{name}.weight")), None)
    if not root.names and cfg.get("embedding.weighted_norm", default=False):
        found = NORMS[0]
    if found is None:
        return None
    bias = norms.stored_bias(cfg, root, [f"{found}.bias"])
    return norms.Norm(
        names=(found,), kind="layer" if bias else shape.norm_kind, eps=shape.norm_eps,
        zero_centered=shape.zero_centered, bias=bias,
    )  # fmt: skip


def flow(spec: Positions, b: Builder, flow: Flow, at: Scope) -> None:
    """The stream with positions added, and normed."""
    if spec.rows:
        table = b.weight(
            "positions", at.leaf(TABLE, (spec.rows, b.width(flow.x))), role="embedding"
        )
        flow.x = b.op("position_embedding", "position", {"x": flow.x}, {"table": table},
                      offset=spec.offset)["y"]  # fmt: skip
    if spec.norm is not None:
        flow.x = norms.apply(spec.norm, b, "embedding_norm", flow.x, at)
