"""How many kernels an op starts, as its implementation declares it."""

from day0.ir.op import Op
from day0.passes.choose import Choice
from day0.registry.family import Shapes
from day0.registry.index import family


def launches_of(op: Op, shapes: Shapes, choice: Choice) -> int:
    """Kernels that one run of `op` by `choice` starts. Definitions are plain torch of no fixed
    number: they count as one."""
    for impl in family(op.family).impls:
        if impl.entry == choice.entry:
            count = impl.launches
            return count(shapes) if callable(count) else count
    # a part after another of a cache entry, by the runtime's own writing
    return max(1, len(op.inputs)) if op.family == "cache_write" else 1
