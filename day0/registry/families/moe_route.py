"""Which experts a token goes to, and with what weight."""

from day0.ir.tensor import TensorSpec
from day0.registry.family import Family, Impl, Shapes, flag, number, real, reference, word


def _chosen(shapes: Shapes) -> dict[str, TensorSpec]:
    dims = (shapes.rows("logits"), shapes.attrs["top_k"])
    return {
        "experts": TensorSpec(dims=dims, format="int32"),
        "weights": TensorSpec(dims=dims, format="fp32"),
    }


FAMILY = Family(
    name="moe_route",
    rowwise=True,
    what="scores of logits, group limit, selection by score + bias (or by token id), weights",
    inputs=("logits", "ids?"),
    weights=("bias?", "table?"),
    whole=("table",),
    outputs=("experts", "weights"),
    attrs={
        "score": word(
            "softmax", "sigmoid", "sqrtsoftplus", "topk_softmax", "topk_sigmoid", "sparsemixer"
        ),
        "top_k": number(),
        "num_groups": number(1),
        "top_groups": number(1),
        # a group's score: the sum of its two best, or its best
        "group_score": word("top2", "max", default="top2"),
        # what experts outside the chosen groups score: nothing beats "lowest", a biased score below
        # zero loses to "zero"
        "left_out": word("lowest", "zero", default="lowest"),
        "renormalise": flag(),
        "renormalise_eps": real(0.0),
        "scale": real(1.0),
    },
    infer=_chosen,
    flops=lambda s, c: 4.0 * s.width("logits"),
    impls=(
        reference("day0_kernels.moe_route.reference:moe_route_general"),
        Impl(
            backend="triton",
            entry="day0_kernels.moe_route.route:moe_route",
            attrs={
                "left_out": ("lowest",),
                "score": ("softmax", "sigmoid", "sqrtsoftplus", "topk_softmax"),
            },
            min_capability=(9, 0),
            parity="moe_route/deepseek-v3",
        ),
    ),
)
