"""Routed experts over the ranks of a mesh.

Where all ranks of an expert group have the same rows, each runs its own experts on all of them and
the sum over the ranks is the result: nothing is sent but that sum. Where their rows differ (they
share a sequence), rows travel to the ranks of their experts and results travel back.
"""

from typing import TYPE_CHECKING

from day0.ir.op import Op
from day0.parallel.mesh import shares
from day0.passes.pieces import Ways
from day0.registry.index import family
from day0.registry.split import expert_way
from day0.registry.ways import Way

if TYPE_CHECKING:
    from day0.passes.shard import Sharding


def add_experts(sharding: "Sharding", op: Op, way: Way | None) -> None:
    """The experts of one layer; `way`: how the ranks that share an expert cut it."""
    mesh, at = sharding.at.mesh, sharding.at
    ways: Ways = () if way is None else ((way, at.axis("expert_tp")),)
    whole = expert_way(family(op.family), sharding.shapes[op.id])
    (value,) = (name for _, name in op.outputs)
    named = {value: sharding.own(op, value)}
    sharding.yields[value] = sharding.placement.yields[op.id] if sharding.tp.size > 1 else "whole"
    if mesh.ep == 1 or whole is None:
        sharding.put(op, ways, op.inputs, named, summed=sharding.summed(op))
        return
    ways = (*ways, (whole, at.axis("ep")))
    # of the ranks that hold different experts, those that have the same rows
    alike = mesh.ep if sharding.state.phase == "decode" else mesh.ep // mesh.cp
    # in decode the cp ranks have them too; their sums are no part of what tp ranks add up
    spread = mesh.cp > 1 and alike == mesh.ep
    summed = f"{value}.spread" if spread else named[value]
    if at.exchange or alike < mesh.ep:
        _sent(sharding, op, ways, alike, summed)
    else:
        _in_place(sharding, op, ways, summed)
    if spread:
        sharding.add("all_reduce", op.layer, {"x": summed}, named[value], axis="cp", ranks=mesh.cp)


def _in_place(sharding: "Sharding", op: Op, ways: Ways, output: str) -> None:
    """Every rank's experts on all rows."""
    given = dict(op.inputs)
    first, end = _borders(sharding, op)[sharding.at.axis("ep").place]
    own = f"{given['experts']}.own"
    sharding.add("local_experts", op.layer, {"experts": given["experts"]}, own, first=first)
    inputs = tuple({**given, "experts": own}.items())
    sharding.put(op, ways, inputs, {op.outputs[0][1]: output}, summed=True, num_experts=end - first)


def _sent(sharding: "Sharding", op: Op, ways: Ways, alike: int, output: str) -> None:
    """Rows to their experts and back, `chunks` times; the last adds up what the others gave."""
    at, given, (slot, value) = sharding.at, dict(op.inputs), op.outputs[0]
    ep = at.axis("ep")
    borders = _borders(sharding, op)
    first, end = borders[ep.place]
    where = {"axis": "ep", "ranks": ep.size, "sharers": alike}
    routes = []
    for chunk in range(at.chunks):
        came = f"{value}.{chunk}" if at.chunks > 1 else f"{value}.routed"
        sharding.add(
            "dispatch", op.layer, given, came, **where, chunks=at.chunks, chunk=chunk,
            sharer=ep.place % alike, borders=(*(low for low, _ in borders), borders[-1][1]),
        )  # fmt: skip
        routes.append(came)
    before: dict[str, str] = {}
    for chunk, came in enumerate(routes):
        inputs = tuple((name, came if name == "x" else f"{came}.{name}") for name in given)
        done = f"{came}.{slot}"
        ident = op.id if at.chunks == 1 else f"{op.id}.{chunk}"
        sharding.put(
            op, ways, inputs, {value: done}, ident=ident, summed=True, num_experts=end - first
        )
        last = chunk == at.chunks - 1
        name = output if last else f"{came}.sum"
        sharding.add(
            "combine", op.layer, {"x": done, "routes": f"{came}.routes", **before}, name,
            **where, top_k=op.attr("top_k"),
        )  # fmt: skip
        before = {"into": name}


def _borders(sharding: "Sharding", op: Op) -> tuple[tuple[int, int], ...]:
    """First expert and end of every rank of the axis."""
    return shares(op.attr("num_experts"), sharding.at.axis("ep").size)
