"""The sum of a value over the ranks of an axis.

A ring sends 2 (n-1)/n of the value from every rank (Thakur et al., 2005, doi
10.1177/1094342005051521).
"""

from day0.registry.cost import stored_bytes
from day0.registry.family import Family, Impl, Shapes, number, word

# Axes of a mesh that a collective may run over.
AXES = ("tp", "cp", "ep", "expert_tp", "all")
ATTRS = {"axis": word(*AXES), "ranks": number()}


def row_bytes(shapes: Shapes, slot: str = "x") -> int:
    """Bytes of one row of an input."""
    spec = shapes.inputs[slot]
    return stored_bytes(spec.format, spec.dims)


def _sends(shapes: Shapes) -> float:
    n = shapes.attrs["ranks"]
    return 2 * (n - 1) / n * row_bytes(shapes)


FAMILY = Family(
    name="all_reduce",
    rowwise=True,
    what="the sum over the ranks of a mesh axis, on all of them",
    inputs=("x",),
    outputs=("y",),
    attrs=ATTRS,
    infer=lambda s: {"y": s.inputs["x"]},
    flops=lambda s, c: 1.0 * s.width("x"),
    sends=_sends,
    impls=(Impl(backend="library", entry="day0.runtime.exchange:all_reduce"),),
)
