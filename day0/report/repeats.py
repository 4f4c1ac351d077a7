"""A long sequence of layer kinds in few words: (B B B C) x 16."""

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_UNIT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """`unit` (letters), `times` in a row, from layer `start` on."""

    unit: tuple[str, ...]
    times: int
    start: int

    @property
    def length(self) -> int:
        return len(self.unit) * self.times

    @property
    def text(self) -> str:
        letters = " ".join(self.unit)
        if self.times == 1:
            return letters
        return f"({letters}) x {self.times}" if len(self.unit) > 1 else f"{letters} x {self.times}"


def runs(letters: Sequence[str], start: int = 0) -> tuple[Run, ...]:
    """The shortest way to write the sequence: letters written plus one for each run. Among equals,
    units that begin or end with their rarest letter, and long repeats that come late."""
    best: list[tuple[float, tuple[Run, ...]]] = [(0.0, ())]
    for end in range(1, len(letters) + 1):
        options = []
        for unit, times in _endings(letters, end):
            begin = end - len(unit) * times
            cost, before = best[begin]
            run = Run(unit=unit, times=times, start=start + begin)
            options.append((cost + _cost(run, begin), (*before, run)))
        best.append(min(options, key=lambda option: option[0]))
    return best[-1][1]


def _cost(run: Run, begin: int) -> float:
    letters = len(run.unit) + 1.0
    if run.times == 1:
        return letters
    rarest = min(run.unit, key=run.unit.count)
    inside = rarest not in (run.unit[0], run.unit[-1])
    return letters + inside * 1e-2 - begin * run.length**2 * 1e-9


def _endings(letters: Sequence[str], end: int) -> list[tuple[tuple[str, ...], int]]:
    """Units and how often each may stand in a row before `end`."""
    found = []
    for width in range(1, min(LONGEST_UNIT, end) + 1):
        unit = tuple(letters[end - width : end])
        times = 0
        while tuple(letters[max(end - (times + 1) * width, 0) : end - times * width]) == unit:
            times += 1
            found.append((unit, times))
    return found
