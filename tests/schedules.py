"""Random graphs and random orders that a schedule allows."""

import random
from collections.abc import Callable

from hypothesis import strategies as st

from day0.ir.graph import Graph
from day0.ir.op import CacheUse, Op
from day0.ir.tensor import TensorSpec
from day0.passes.lifetimes import Order

SPEC = TensorSpec(dims=("T", 4))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Ops of up to three earlier values and up to two of three caches; the last value and some
    others are outputs."""
    count = draw(st.integers(1, 20))
    ops = []
    for number in range(count):
        names = ["in", *(f"v{n}" for n in range(number))]
        read = draw(st.lists(st.sampled_from(names), max_size=3))
        caches = draw(st.lists(st.sampled_from("ABC"), max_size=2, unique=True))
        ops.append(
            Op(
                id=f"op{number}",
                family="any",
                layer=0,
                inputs=tuple((f"x{at}", name) for at, name in enumerate(read)),
                outputs=(("y", f"v{number}"),),
                caches=tuple(
                    CacheUse(slot=name, cache=name, mode=draw(st.sampled_from(("r", "w", "rw"))))
                    for name in caches
                ),
            )
        )
    kept = draw(st.sets(st.integers(0, count - 1), max_size=3)) | {count - 1}
    return Graph(
        rows=(),
        inputs=("in",),
        outputs=tuple(f"v{number}" for number in sorted(kept)),
        values=dict.fromkeys(["in", *(f"v{n}" for n in range(count))], SPEC),
        ops=tuple(ops),
    )


def any_order(order: Order, choose: Callable[[int], int]) -> list[int]:
    """Op numbers in an order in which the lanes could run them; `choose(n)` gives one of n."""
    queues = [
        [n for n, own in enumerate(order.lane) if own == lane] for lane in range(order.num_lanes)
    ]
    done: set[int] = set()
    result = []
    while any(queues):
        ready = [queue for queue in queues if queue and set(order.waits[queue[0]]) <= done]
        queue = ready[choose(len(ready))]  # an IndexError here is a deadlock
        result.append(queue.pop(0))
        done.add(result[-1])
    return result


def chooser(seed: int) -> Callable[[int], int]:
    """Now and then one lane runs far ahead of the others."""
    generator = random.Random(seed)
    favourite = generator.randrange(8)

    def choose(count: int) -> int:
        return favourite % count if generator.random() < 0.7 else generator.randrange(count)

    return choose
