"""Pipeline stages: how many of each kind of op, weight and cache the distinct ones among them hold.

Layers repeat, so stages do: of 64 stages a handful differ, and only those are priced.
"""

from collections import Counter
from dataclasses import dataclass

from day0.analysis.kinds import Kinds, within


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`alike` stages with the same content: counts of ops and of weights (by slot) by number of the
    kind, of caches by number in Kinds.held, of collectives by number of their spot."""

    alike: int
    kinds: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    held: tuple[int, ...]
    spots: tuple[int, ...]


class Stages:
    """`spots`: for every kind of collective the layers of its occurrences, rising."""

    def __init__(self, found: Kinds, spots: tuple[tuple[int, ...], ...]) -> None:
        self.found = found
        self.spots = spots
        self._known: dict[int, tuple[Stage, ...]] = {}

    def bounds(self, pp: int) -> list[tuple[int, int]]:
        """First layer and end of every stage, as even as whole layers allow."""
        cuts = [stage * self.found.num_layers // pp for stage in range(pp + 1)]
        return list(zip(cuts, cuts[1:], strict=False))

    def of(self, pp: int) -> tuple[Stage, ...]:
        """The distinct stages of `pp`."""
        if pp not in self._known:
            counted = Counter(self._counts(*bound) for bound in self.bounds(pp))
            self._known[pp] = tuple(
                Stage(alike=alike, kinds=kinds, weights=weights, held=held, spots=spots)
                for (kinds, weights, held, spots), alike in counted.items()
            )
        return self._known[pp]

    def _counts(self, first: int, end: int) -> tuple[
        tuple[int, ...], tuple[tuple[int, ...], ...], tuple[int, ...], tuple[int, ...]
    ]:  # fmt: skip
        kinds = self.found.kinds
        return (
            tuple(within(kind.layers, first, end) for kind in kinds),
            tuple(
                tuple(kind.weights(slot, first, end) for slot, _ in kind.op.weights)
                for kind in kinds
            ),
            tuple(within(held.layers, first, end) for held in self.found.held),
            tuple(within(layers, first, end) for layers in self.spots),
        )
