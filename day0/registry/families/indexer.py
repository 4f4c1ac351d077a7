"""Lightning indexer: cheap scores over the history, the best k of them."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import (
    Context,
    Family,
    Impl,
    Shapes,
    flag,
    number,
    real,
    reference,
    word,
)

SCALED, SCALED_DIM = ("mxfp8", "fp8_t128"), 128  # keys with scales


def _candidates(shapes: Shapes, context: Context) -> float:
    stored = shapes.attrs["pool"] in ("softmax", "mean")
    return context.seen / (shapes.attrs["block"] if stored else 1)


def _limits(shapes: Shapes) -> tuple[str, ...]:
    """Sizes that a tile of the kernel can have."""
    attrs, reasons = shapes.attrs, []
    heads, dim, block = attrs["num_heads"], attrs["head_dim"], attrs["block"]
    lists = attrs["num_lists"]
    keys = shapes.caches["keys"][0].format
    if keys in SCALED and dim != SCALED_DIM:
        reasons.append(f"head_dim {dim} in {keys} (takes {SCALED_DIM})")
    if dim & (dim - 1) or not 16 <= dim <= 256:
        reasons.append(f"head_dim {dim} (takes powers of two from 16 to 256)")
    each = heads // lists
    if heads % lists or each & (each - 1) or each > 128:
        reasons.append(f"{heads} heads for {lists} lists (takes powers of two up to 128 a list)")
    stored = attrs["pool"] in ("softmax", "mean")
    if attrs["pool"] == "max" and (block & (block - 1) or block > 128):
        reasons.append(f"block {block} (takes powers of two up to 128 where scores are pooled)")
    if attrs["tail"] and block > 1 and not (stored and attrs["unit"] == "token"):
        reasons.append("a tail without tokens of pooled keys")
    picks = attrs["top_k"] - (block - 1 if attrs["tail"] else 0)
    if stored and attrs["unit"] == "token" and picks < block:
        reasons.append(f"top_k {attrs['top_k']} (takes at least one pool of {block})")
    return tuple(reasons)


FAMILY = Family(
    name="indexer",
    what="score = sum_h w_h relu(q_h . k) scale over the cached keys (w or relu may be absent;"
    " num_lists > 1: a list per head, no sum); the best of those that the row sees, `top_k`"
    " numbers a list, -1 where there are fewer; tail: the open pool's tokens always",
    inputs=("q", "head_weights?"),
    caches=("keys", "tail?"),
    outputs=("selected",),
    attrs={
        "num_heads": number(),
        "head_dim": number(),
        "top_k": number(),
        "scale": real(),
        "relu": flag(True),
        # none: single tokens; softmax, mean: keys are pooled in the cache; max: scores are pooled
        "pool": word("none", "softmax", "mean", "max", default="none"),
        "block": number(1),
        # what a number in `selected` names: a token (of chosen pools all), or a block or pool
        "unit": word("token", "block", default="token"),
        "tail": flag(False),
        # blocks that end with the row's own and are always chosen
        "local_blocks": number(0),
        # one list for all heads (1), or one for every index head
        "num_lists": number(1),
    },
    infer=lambda s: {
        "selected": TensorSpec(
            dims=(s.rows("q"), s.attrs["num_lists"] * s.attrs["top_k"]), format="int32"
        )
    },
    flops=lambda s, c: 2.0 * s.attrs["num_heads"] * s.attrs["head_dim"] * _candidates(s, c),
    entries=lambda s, c: {"keys": _candidates(s, c)},
    impls=(
        reference("day0_kernels.indexer.reference:indexer"),
        Impl(
            backend="triton",
            entry="day0_kernels.indexer.best:indexer_paged",
            formats={"keys": ("bf16", "fp16", "fp32", *SCALED)},
            limits=_limits,
            min_capability=(9, 0),
            parity="indexer/bf16",
            launches=3,  # scores, each segment's candidates, the choice among them
        ),
    ),
)
