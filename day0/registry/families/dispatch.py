"""Rows sent to the ranks that hold their experts, each row once to every rank it needs.

What comes in is counted while it runs: its rows are called E. `routes` says where a row came from:
rows sent to and received from every rank, then the numbers of the rows sent, rank by rank.
"""

from dataclasses import replace

from day0.ir.tensor import TensorSpec
from day0.registry.families.all_reduce import ATTRS, row_bytes
from day0.registry.family import Attr, Family, Impl, Shapes, number

ROUTED, SENT = "E", "S"


def _came(shapes: Shapes) -> dict[str, TensorSpec]:
    found = {
        slot: replace(spec, dims=(ROUTED, *spec.dims[1:])) for slot, spec in shapes.inputs.items()
    }
    return {**found, "routes": TensorSpec(dims=(SENT,), format="int64")}


def reached(ranks: int, top_k: int) -> float:
    """Other ranks that a row is expected to reach, its choices falling evenly."""
    return (ranks - 1) * (1 - (1 - 1 / ranks) ** top_k)


def _sends(shapes: Shapes) -> float:
    attrs, top_k = shapes.attrs, shapes.width("experts")
    row = sum(row_bytes(shapes, slot) for slot in ("x", "experts", "weights"))
    return reached(attrs["ranks"], top_k) * row / attrs["sharers"]


FAMILY = Family(
    name="dispatch",
    what="rows with their choices to the ranks that hold the chosen experts; experts counted there",
    inputs=("x", "experts", "weights"),
    outputs=("x", "experts", "weights", "routes"),
    attrs={
        **ATTRS,
        # first expert of every rank of the axis, and the number of all
        "borders": Attr(kinds=(tuple,)),
        # ranks that have the same rows: each sends its share of them
        "sharers": number(1),
        "sharer": number(0),
        # rows may go in several chunks, so that one is computed while the next is on the wire
        "chunks": number(1),
        "chunk": number(0),
    },
    infer=_came,
    flops=lambda s, c: 0.0,
    sends=_sends,
    impls=(Impl(backend="library", entry="day0.runtime.exchange:dispatch", graph_safe=False),),
)
