"""Results of dispatched rows sent back and added up at the rows' places; other rows are zeros."""

from dataclasses import replace

from day0.registry.families.all_reduce import ATTRS, row_bytes
from day0.registry.families.dispatch import reached
from day0.registry.family import Family, Impl, Shapes, number


def _sends(shapes: Shapes) -> float:
    """A row comes in from as many ranks as it is sent to, on average."""
    attrs = shapes.attrs
    return reached(attrs["ranks"], attrs["top_k"]) * row_bytes(shapes) / attrs["sharers"]


FAMILY = Family(
    name="combine",
    what="results of dispatched rows back to where the rows are, and their sum; `into` added",
    inputs=("x", "routes", "into?"),
    outputs=("y",),
    attrs={**ATTRS, "top_k": number(), "sharers": number(1)},
    infer=lambda s: {"y": replace(s.inputs["x"], dims=("T", *s.inputs["x"].dims[1:]))},
    flops=lambda s, c: 1.0 * s.width("x"),
    sends=_sends,
    impls=(Impl(backend="library", entry="day0.runtime.exchange:combine", graph_safe=False),),
)
