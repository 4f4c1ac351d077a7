"""Ops that do not depend on each other run side by side, where that pays.

The graph falls apart at its waists (ops that everything comes before or after); between two of them
ops are put into two lanes by when they could end, and then moved as long as the part gets shorter.
A part whose lanes do not pay stays in one.
"""

from collections.abc import Mapping, Sequence

from day0.ir.graph import Graph
from day0.ir.recipe import Recipe
from day0.ir.schedule import Schedule
from day0.passes.choose import Choice
from day0.passes.dependencies import dependencies, waists
from day0.passes.duration import CONTEXTS, Duration, durations
from day0.registry.rates import H200, Rates
from day0.registry.shapes import Named

LANES = 2
# A part is left alone unless more of it than this, and more than one more wait, is saved: the
# prediction is no finer.
PAYS = 0.02
LEAST = 0.001  # of the whole: less than this is not worth a second lane anywhere
# Longer parts keep the first assignment: trying every move would take too long.
LONGEST_MENDED = 48

Before = tuple[tuple[int, ...], ...]


def streams(
    graph: Graph,
    model: Named,
    recipe: Recipe,
    choices: Mapping[str, Choice],
    phase: str,
    rates: Rates = H200,
) -> Schedule:
    """The schedule of a lowered graph; `model` has its weights and caches."""
    times = durations(graph, model, recipe, choices, CONTEXTS[phase], rates)
    before = dependencies(graph)
    lane, predicted = assign(before, times, rates.wait_s[phase])
    names = [op.id for op in graph.ops]
    waits = waits_of(before, lane)
    return Schedule(
        lanes=tuple(
            tuple(name for name, at in zip(names, lane, strict=True) if at == number)
            for number in range(max(lane, default=0) + 1)
        ),
        waits=tuple(
            (names[number], tuple(names[other] for other in others))
            for number, others in enumerate(waits)
            if others
        ),
        serial_s=sum(time.total for time in times),
        scheduled_s=predicted,
        critical_s=critical(before, times),
    )


def assign(before: Before, times: Sequence[Duration], wait_s: float) -> tuple[list[int], float]:
    """The lane of every op, and the predicted seconds of all."""
    lane, total = [0] * len(before), 0.0
    known: dict[object, tuple[list[int], float]] = {}
    start = 0
    for waist in (*waists(before), len(before)):
        part = range(start, waist)
        # dependencies outside a part have all ended where it starts
        own = tuple(tuple(dep - start for dep in before[n] if dep >= start) for n in part)
        spent = tuple(times[n] for n in part)
        key = own, spent
        if key not in known:
            known[key] = _part(own, spent, wait_s)
        lane[start:waist], seconds = known[key]
        total += seconds + (times[waist].total if waist < len(before) else 0.0)
        start = waist + 1
    serial = sum(time.total for time in times)
    if serial - total <= LEAST * serial:
        return [0] * len(before), serial
    return lane, total


def _part(before: Before, times: Sequence[Duration], wait_s: float) -> tuple[list[int], float]:
    """Lanes between two waists, and their seconds."""
    serial = sum(time.total for time in times)
    lane: list[int] = []
    free, ends = _start(wait_s), []
    for deps, time in zip(before, times, strict=True):
        own = min(range(LANES), key=lambda at: _ready(at, deps, lane, free, ends, wait_s))
        ends.append(_ready(own, deps, lane, free, ends, wait_s) + time.total)
        free[own] = ends[-1]
        lane.append(own)
    best = _rank(before, times, lane, wait_s)
    moving = len(before) <= LONGEST_MENDED
    while moving:
        moving = False
        for number in range(len(before)):
            tried = [*lane[:number], 1 - lane[number], *lane[number + 1 :]]
            rank = _rank(before, times, tried, wait_s)
            if rank < best:
                lane, best, moving = tried, rank, True
    seconds = seconds_of(before, times, lane, wait_s)
    if serial - seconds <= max(PAYS * serial, wait_s):
        return [0] * len(before), serial
    return lane, seconds


def _rank(
    before: Before, times: Sequence[Duration], lane: list[int], wait_s: float
) -> tuple[int, int, int]:
    """Smaller is better: whole nanoseconds, then edges between lanes, then ops in the other one."""
    edges = sum(lane[dep] != own for own, deps in zip(lane, before, strict=True) for dep in deps)
    return round(seconds_of(before, times, lane, wait_s) * 1e9), edges, sum(lane)


def _start(wait_s: float) -> list[float]:
    """When each lane is free: a part begins in lane 0, the others wait for it."""
    return [0.0] + [wait_s] * (LANES - 1)


def _ready(
    own: int,
    deps: tuple[int, ...],
    lane: list[int],
    free: list[float],
    ends: list[float],
    wait_s: float,
) -> float:
    """When an op could start in lane `own`."""
    return max([free[own], *(ends[dep] + (wait_s if lane[dep] != own else 0.0) for dep in deps)])


def seconds_of(before: Before, times: Sequence[Duration], lane: list[int], wait_s: float) -> float:
    """Of a whole part: until lane 0 has waited for the others, but never faster than the device
    works."""
    free, ends = _start(wait_s), []
    for own, deps, time in zip(lane, before, times, strict=True):
        ends.append(_ready(own, deps, lane, free, ends, wait_s) + time.total)
        free[own] = ends[-1]
    last = [end + (wait_s if own else 0.0) for end, own in zip(ends, lane, strict=True)]
    return max(max(last, default=0.0), sum(time.work for time in times))


def critical(before: Before, times: Sequence[Duration]) -> float:
    """Seconds along the longest chain of dependencies."""
    ends: list[float] = []
    for deps, time in zip(before, times, strict=True):
        ends.append(max((ends[dep] for dep in deps), default=0.0) + time.total)
    return max(ends, default=0.0)


def waits_of(before: Before, lane: Sequence[int]) -> list[tuple[int, ...]]:
    """For every op the ops of other lanes it has to wait for: its dependencies, less those that
    its lane knows to have ended by its order and by earlier waits."""
    count = max(lane, default=0) + 1
    last = [-1] * count  # the latest op of each lane
    knows: list[list[int]] = []  # per op, the latest op of each lane that ended before it did
    result = []
    for number, deps in enumerate(before):
        own = lane[number]
        known = list(knows[last[own]]) if last[own] >= 0 else [-1] * count
        waits = []
        for dep in sorted(deps, reverse=True):
            if lane[dep] != own and known[lane[dep]] < dep:
                waits.append(dep)
                known = [max(pair) for pair in zip(known, knows[dep], strict=True)]
        known[own] = number
        knows.append(known)
        last[own] = number
        result.append(tuple(reversed(waits)))
    return result
