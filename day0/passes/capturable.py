"""What of a program a CUDA graph may hold: operators that ask the host nothing."""

from collections.abc import Iterable

from day0.registry.index import family


def refusals(calls: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Of (family, entry) of a step's calls those that cannot be captured, once each, in words."""
    found = []
    for name, entry in dict.fromkeys(calls):
        kind = family(name)
        impl = next((impl for impl in kind.impls if impl.entry == entry), None)
        # definitions ask for lengths, but for those whose rows do not see each other
        safe = impl is None or (impl.graph_safe if impl.optimised else kind.rowwise)
        if not safe:
            found.append(f"{name} by {entry}")
    return tuple(found)
