"""Two models compared by their features: what differs in meaning, in constants, in sizes.

Nothing is decided by a name: features come from the spec, their words from difference_words.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from day0.analysis.difference_words import (
    CHOICES,
    CONSTANTS,
    DIMS,
    MECHANISMS,
    STORED,
    SWITCHES,
    WORDS,
    end_of,
)
from day0.catalog.features import Features

Told = tuple[str, str, float]  # kind (m, c, s, f: as in Difference), words, what it counts
SLOTS = ("mixer", "ffn", "residual")
# What one difference counts. A mechanism of all layers that only one model has counts MECHANISM.
MECHANISM, MEANING, CONSTANT, SIZE, STORAGE = 4.0, 1.0, 0.1, 0.1, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """From one model to another. `meaning`: other computations, in words; `constants`, `sizes`,
    `stored`: "path HERE instead of THERE". `distance` 0: all features are equal; a mechanism
    counts 4 times its share of the layers, a meaning 1, a constant 0.1, a size up to 0.1 (a factor
    of two or more), a stored form 0.01."""

    distance: float
    meaning: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.distance


def compare(here: Features, there: Features) -> Difference:
    """What `here` has instead of what `there` has."""
    told: dict[str, dict[str, float]] = {kind: {} for kind in ("m", "c", "s", "f")}
    for path in sorted(set(here) | set(there)):
        ours, theirs = here.get(path, {}), there.get(path, {})
        if path in SLOTS:
            for kind, text, counts in _mechanisms(path, ours, theirs):
                told[kind][text] = counts
        elif path != "order" and ours and theirs and ours.keys() != theirs.keys():
            kind, text, counts = _one(path, ours, theirs)
            told[kind][text] = max(counts, told[kind].get(text, 0.0))
    if not any(told.values()) and here.get("order") != there.get("order"):
        told["m"]["layers in another order"] = MEANING
    return Difference(
        distance=round(sum(sum(texts.values()) for texts in told.values()), 3),
        meaning=tuple(sorted(told["m"], key=lambda text: (-told["m"][text], text))),
        constants=tuple(told["c"]),
        sizes=tuple(told["s"]),
        stored=tuple(told["f"]),
    )


def _mechanisms(path: str, ours: Mapping[str, int], theirs: Mapping[str, int]) -> Iterator[Told]:
    """What only one of them has, and what both have in quite another share of their layers."""
    here, there = _shares(ours), _shares(theirs)
    if path == "residual":
        if here != there:
            mine, other = ("+".join(_called(stem) for stem in side) for side in (here, there))
            yield "m", f"{mine} instead of {other}", MECHANISM
        return
    for stem in sorted({*here, *there}):
        away = abs(here.get(stem, 0.0) - there.get(stem, 0.0))
        if stem not in there:
            yield "m", _called(stem), MECHANISM * max(away, 0.25)
        elif stem not in here:
            yield "m", f"no {_called(stem)}", MECHANISM * max(away, 0.25)
        elif away > 0.02:
            shares = f"{here[stem]:.0%} instead of {there[stem]:.0%} of the layers"
            yield "s", f"{_called(stem)} in {shares}", MECHANISM * away


def _shares(values: Mapping[str, int]) -> dict[str, float]:
    total = sum(values.values())
    return {_value(text): count / total for text, count in values.items()}


def _called(stem: str) -> str:
    return MECHANISMS.get(stem, f"{stem} layers")


def _one(path: str, ours: Mapping[str, int], theirs: Mapping[str, int]) -> Told:
    """Of a feature that differs."""
    here, there = _values(ours), _values(theirs)
    name = path.rpartition(".")[2]
    plain = f"{path} {_listed(here)} instead of {_listed(there)}"
    if name in STORED:
        return "f", plain, STORAGE
    if name in CONSTANTS:
        return "c", plain, CONSTANT
    if name in DIMS:
        return "s", plain, SIZE * _factor(here, there)
    if {_sense(path, value) for value in here} != {_sense(path, value) for value in there}:
        return "m", _sentence(path, here, there), MEANING
    if any(isinstance(value, float) for value in (*here, *there)):
        return "c", plain, CONSTANT
    return "s", plain, SIZE * _factor(here, there)


def _values(values: Mapping[str, int]) -> list[Any]:
    return [_value(text) for text in values]


@lru_cache(maxsize=4096)
def _value(text: str) -> Any:
    return json.loads(text)


def _sense(path: str, value: Any) -> Any:
    """What a value means where its size does not matter."""
    if isinstance(value, bool | str):
        return value
    if value is None:
        return False
    if not isinstance(value, int | float):
        return True
    if path.endswith("_of"):  # the number of the layer whose result is read, -1 for none
        return value >= 0
    if path.endswith(("num_groups", "top_groups")):
        return value > 1
    return bool(value) or isinstance(value, float)


def _sentence(path: str, here: list[Any], there: list[Any]) -> str:
    spoken = path.replace("shared_activation", "activation")
    switch = end_of(SWITCHES, spoken)
    if switch is not None:
        senses = [{bool(_sense(path, value)) for value in side} for side in (here, there)]
        return _switched(*SWITCHES[switch], *senses)
    choice = end_of(CHOICES, spoken)
    if choice is None:
        return f"{path} {_listed(here)} instead of {_listed(there)}"
    return _instead(*(_chosen(CHOICES[choice], side) for side in (here, there)))


def _switched(present: str, absent: str, here: set[bool], there: set[bool]) -> str:
    """In words; what only some layers have is there, and said to be so."""
    part = "in a part of the layers"
    if len(here) == len(there) == 1:
        return _instead(*(present if True in side else absent for side in (here, there)))
    called, whole = present or absent, {bool(present)}
    if len(here) == 2:
        return f"{called} {part}{' instead of all' if there == whole else ''}"
    if here == whole:
        return f"{called} in all layers instead of a part"
    return _instead(absent if present else "", f"{called} {part}")


def _chosen(sentence: str, values: list[Any]) -> str:
    words = [WORDS.get(str(value), str(value)) for value in values if value not in (None, "none")]
    words = [MECHANISMS.get(word, word) for word in words]
    return sentence.format(" and ".join(words)) if words else ""


def _instead(mine: str, other: str) -> str:
    if mine and other:
        return f"{mine} instead of {other}"
    return mine or f"no {other}"


def _listed(values: list[Any]) -> str:
    texts = [str(value) for value in values]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts[:4])}{', ...' * (len(texts) > 4)})"


def _factor(here: list[Any], there: list[Any]) -> float:
    """0 for equal sizes, 1 for a factor of two or more; lists by their largest."""
    numbers = [_largest(side) for side in (here, there)]
    if not all(numbers):
        return 1.0
    return min(1.0, abs(math.log2(numbers[0] / numbers[1]))) or 0.5


def _largest(values: list[Any]) -> float:
    return max((abs(value) for value in _numbers(values)), default=0.0)


def _numbers(values: list[Any]) -> Iterator[float]:
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield value
