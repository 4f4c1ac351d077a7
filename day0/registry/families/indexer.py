"""Lightning indexer: cheap scores over the history, the best k of them."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Context, Family, Shapes, flag, number, real, reference, word


def _candidates(shapes: Shapes, context: Context) -> float:
    stored = shapes.attrs["pool"] in ("softmax", "mean")
    return context.seen / (shapes.attrs["block"] if stored else 1)


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
    impls=(reference("day0_kernels.indexer.reference:indexer"),),
)
