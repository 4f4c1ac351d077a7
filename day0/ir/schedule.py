"""Which ops of a Graph run side by side: lanes, and what waits for what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`lanes`: op ids of each lane in the order in which they run; together they are the Graph's
    ops, each lane in program order, and lane 0 is the step's own. `waits`: (op, ops of other lanes
    that must have ended before it starts); whatever else an op depends on follows from its lane's
    order and from what was waited for before.

    Predicted seconds: `serial_s` one op after another, `scheduled_s` in these lanes, `critical_s`
    along the longest chain of dependencies, which no number of lanes beats.
    """

    lanes: tuple[tuple[str, ...], ...]
    waits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    serial_s: float = 0.0
    scheduled_s: float = 0.0
    critical_s: float = 0.0
