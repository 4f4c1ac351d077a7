"""When a value's memory may be given to another one, in the lanes of a schedule.

Memory that an op asks for comes from what its own lane gave back, so a lane may give a value back
only when every op that uses it is known to have ended: by the lane's order, or by a wait.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace

from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.registry.cost import stored_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a runner needs, by number of the op in program order: its `lane`, the ops it `waits`
    for, whether one of another lane waits for it (`awaited`), and the values that are dropped just
    before it starts (`drops`). Ops are issued in program order."""

    lane: tuple[int, ...]
    waits: tuple[tuple[int, ...], ...]
    awaited: frozenset[int]
    drops: Mapping[int, tuple[str, ...]]

    @property
    def num_lanes(self) -> int:
        return max(self.lane, default=0) + 1


def lanes_of(graph: Graph) -> tuple[int, ...]:
    """The lane of every op in program order; 0 for all without a schedule."""
    lanes = () if graph.schedule is None else graph.schedule.lanes
    own = {name: lane for lane, names in enumerate(lanes) for name in names}
    return tuple(own.get(op.id, 0) for op in graph.ops)


def order_of(graph: Graph) -> Order:
    """The order of a graph by its schedule; one lane without one."""
    lane, number = list(lanes_of(graph)), {op.id: at for at, op in enumerate(graph.ops)}
    waits: list[tuple[int, ...]] = [()] * len(graph.ops)
    for name, others in graph.schedule.waits if graph.schedule is not None else ():
        waits[number[name]] = tuple(number[other] for other in others)
    return Order(
        lane=tuple(lane),
        waits=tuple(waits),
        awaited=frozenset(other for others in waits for other in others),
        drops=_drops(graph.ops, graph.outputs, lane, waits),
    )


def peak_bytes(graph: Graph) -> int:
    """The most bytes per row that are alive at once, one op after another. Rows that are fewer
    than the step's count in full."""
    alive, most = 0, 0
    size = {
        value: stored_bytes(graph.values[value].format, graph.values[value].dims)
        for op in graph.ops
        for _, value in op.outputs
    }
    drops = order_of(replace(graph, schedule=None)).drops
    for number, op in enumerate(graph.ops):
        alive -= sum(size[value] for value in drops.get(number, ()))
        alive += sum(size[value] for _, value in op.outputs)
        most = max(most, alive)
    return most


def known_before(lane: list[int], waits: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """For every op, per lane, the latest op that has ended before it starts (-1: none)."""
    last = [-1] * (max(lane, default=0) + 1)
    ended: list[tuple[int, ...]] = []  # per op, what has ended when it has
    result = []
    for number, own in enumerate(lane):
        known = list(ended[last[own]]) if last[own] >= 0 else [-1] * len(last)
        for other in waits[number]:
            known = [max(pair) for pair in zip(known, ended[other], strict=True)]
        result.append(tuple(known))
        known[own] = number
        ended.append(tuple(known))
        last[own] = number
    return result


def _drops(
    ops: tuple[Op, ...], outputs: tuple[str, ...], lane: list[int], waits: list[tuple[int, ...]]
) -> dict[int, tuple[str, ...]]:
    """Values by the op before which they go: the first one of their maker's lane that knows all
    their users to have ended. What no such op is found for stays until the end."""
    uses: dict[str, list[int]] = {}
    for number, op in enumerate(ops):
        for value in dict.fromkeys(value for _, value in (*op.outputs, *op.inputs)):
            uses.setdefault(value, []).append(number)
    of_lane: dict[int, list[int]] = {}
    for number, own in enumerate(lane):
        of_lane.setdefault(own, []).append(number)
    known = known_before(lane, waits)
    made = {value: number for number, op in enumerate(ops) for _, value in op.outputs}
    drops: dict[int, list[str]] = {}
    for value, maker in made.items():
        if value in outputs:
            continue
        latest: dict[int, int] = {}  # per lane, its last user
        for user in uses[value]:
            latest[lane[user]] = max(latest.get(lane[user], -1), user)
        own = of_lane[lane[maker]]
        for number in own[bisect_right(own, maker) :]:
            if all(known[number][at] >= user for at, user in latest.items()):
                drops.setdefault(number, []).append(value)
                break
    return {number: tuple(values) for number, values in drops.items()}
