"""Where the matrices of queries, keys and values stand: apart, or as rows of one tensor."""

from day0.ir.weight import Expr, Pick
from day0.mechanisms.builder import Builder
from day0.mechanisms.names import Scope
from day0.mechanisms.spec import Layer

Q, K, V = ("q_proj",), ("k_proj",), ("v_proj",)
FUSED = ("qkv_proj", "query_key_value", "Wqkv", "W_pack", "c_attn")
SHARDS = 4  # of CodeGen's training, which its rows still show


def named(names: tuple[str, ...], part: str = "weight") -> tuple[str, ...]:
    """The tensors called so: "q_proj.weight"."""
    return tuple(f"{name}.{part}" for name in names)


def fused(layer: Layer, at: Scope, kv_heads: int) -> str:
    """How the rows of one tensor are ordered: "rows" [all q | all k | all v], "groups" [its queries
    | k | v] for each key head, "shards" four times [q | v | k] (CodeGen), "" not fused.

    Shapes do not tell; one key head makes the first two the same."""
    cfg = layer.cfg
    if at.names:
        if not at.has(*named(FUSED)):
            return ""
    elif "gqa.fused" not in cfg.known:
        return ""
    if kv_heads == 1 and "gqa.fused" not in cfg.known:
        return cfg.note("gqa.fused", "rows", "header", "one key head")
    return cfg.get("gqa.fused", assume="rows", decisive=True)


def parts(
    at: Scope,
    order: str,
    width: int,
    num_heads: int,
    num_kv_heads: int,
    dims: tuple[int, int],
    *,
    biased: bool = False,
) -> dict[str, tuple[Expr, Expr | None]]:
    """(matrix, bias or None) of "q", "k", "v" cut out of the fused tensor. `width`: channels of
    the input, `dims` those of a key and of a value; `biased`: without headers there is a bias."""
    dk, dv = dims
    rows = {"q": num_heads * dk, "k": num_kv_heads * dk, "v": num_kv_heads * dv}
    blocks = {"rows": 1, "groups": num_kv_heads, "shards": SHARDS}[order]
    names = ("q", "v", "k") if order == "shards" else ("q", "k", "v")
    total = sum(rows.values())
    matrix = at.leaf(named(FUSED), (total, width))
    has_bias = at.has(*named(FUSED, "bias")) if at.names else biased
    bias = at.leaf(named(FUSED, "bias"), (total,)) if has_bias else None
    found: dict[str, tuple[Expr, Expr | None]] = {}
    start = 0
    for name in names:
        stop = start + rows[name] // blocks
        cuts = [
            None
            if leaf is None
            else Pick(of=leaf, dim=0, period=total // blocks, start=start, stop=stop)
            for leaf in (matrix, bias)
        ]
        assert cuts[0] is not None
        found[name] = cuts[0], cuts[1]
        start = stop
    return found


def project(
    b: Builder, x: str, at: Scope, name: str, out: int, *, bias: bool,
    cut: dict[str, tuple[Expr, Expr | None]],
) -> str:  # fmt: skip
    """Queries, keys or values ("q", "k", "v") of x."""
    if cut:
        return b.linear(f"{name}_proj", x, cut[name][0], role="attention_proj", bias=cut[name][1])
    spellings = {"q": Q, "k": K, "v": V}[name]
    return b.project(f"{name}_proj", x, at, spellings, out, role="attention_proj", bias=bias)
