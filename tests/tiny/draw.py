"""Drawing the sizes of a tiny checkpoint: small, random per seed, pairwise distinct."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

ATTEMPTS = 2000


class NoCandidateLeft(Exception):
    """A draw ran into a corner, mostly because other sizes have taken all candidates of one."""


class Draw:
    """Draws sizes that differ from each other, so that a swapped dimension cannot go unnoticed.

    `pick` gives a size nobody else has, `claim` reserves products of sizes (a projection's rows),
    `either` gives a value that need not be distinct (factors, epsilons, flags).
    """

    def __init__(self, generator: random.Random) -> None:
        self.generator = generator
        self.taken: set[int] = set()

    def pick(self, *candidates: int) -> int:
        """One of the candidates that is not taken yet; it is taken from now on."""
        free = [candidate for candidate in candidates if candidate not in self.taken]
        if not free:
            raise NoCandidateLeft
        chosen = self.generator.choice(free)
        self.taken.add(chosen)
        return chosen

    def pick_together(self, *candidates: tuple[int, ...]) -> tuple[int, ...]:
        """One of the tuples (heads with their groups, say) none of whose members is taken."""
        free = [candidate for candidate in candidates if not self.taken & set(candidate)]
        if not free:
            raise NoCandidateLeft
        chosen = self.generator.choice(free)
        self.claim(*chosen)
        return chosen

    def claim(self, *values: int) -> None:
        """Reserve values that follow from sizes already drawn."""
        if len(set(values)) < len(values) or self.taken & set(values):
            raise NoCandidateLeft
        self.taken.update(values)

    def differ(self, value: int, default: int) -> None:
        """Give this draw up if a size came out at its class's default."""
        if value == default:
            raise NoCandidateLeft

    def either(self, *candidates: Any) -> Any:
        """One of the candidates, whoever else has it."""
        return self.generator.choice(candidates)


def draw_config(
    describe: Callable[[Draw], Mapping[str, Any]], type_name: str, seed: int
) -> dict[str, Any]:
    """The config words of one tiny checkpoint; equal for equal (type_name, seed)."""
    generator = random.Random(f"{type_name}:{seed}")
    for _ in range(ATTEMPTS):
        try:
            return dict(describe(Draw(generator)))
        except NoCandidateLeft:
            continue
    raise RuntimeError(f"no distinct sizes for {type_name} in {ATTEMPTS} draws with seed {seed}")
