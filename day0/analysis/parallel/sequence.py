"""Context parallelism of a model: how its causal work balances, and what recurrent layers send."""

import math
from dataclasses import dataclass

from day0.analysis.kinds import Kinds
from day0.ir.cache import page_size
from day0.registry.index import family
from day0.registry.zigzag import LAYOUTS, break_even, imbalance, relayout_bytes, state_bytes

RANKS = (2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The busiest rank's causal index work over the mean (1 is even), by layout."""

    ranks: int
    tokens: int
    contiguous: float
    zigzag: float
    interleaved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """One recurrent layer over `ranks` ranks in zigzag order, bytes that a rank receives: of states
    handed on, whatever the length, and of rows brought into order and back at `tokens` tokens.
    From `break_even` tokens on states are the less."""

    family: str
    layers: int
    ranks: int
    state_bytes: int
    relayout_bytes: int
    tokens: int
    break_even: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """`unit`: tokens at whose multiples a block of the sequence begins: pages, pools, and what
    states are aligned to."""

    unit: int
    balance: tuple[Balance, ...]
    passing: tuple[Passing, ...]


def sequence(found: Kinds, hidden: int, tokens: int) -> Sequence:
    """At `tokens` tokens, for some numbers of ranks; `hidden`: channels of a row."""
    caches = [held.spec for held in found.held]
    unit = math.lcm(page_size(caches), *(cache.align for cache in caches))
    balance = []
    for ranks in RANKS:
        each = {layout: imbalance(layout, tokens, ranks, unit) for layout in LAYOUTS}
        balance.append(Balance(ranks=ranks, tokens=tokens, **each))
    layers: dict[tuple[str, int], int] = {}
    for kind in found.kinds:
        transition = family(kind.op.family).transition
        if transition is not None:
            key = kind.op.family, transition(kind.shapes)
            layers[key] = layers.get(key, 0) + len(kind.layers)
    passing = tuple(
        Passing(
            family=name,
            layers=number,
            ranks=ranks,
            state_bytes=state_bytes(elements, "zigzag", ranks),
            relayout_bytes=relayout_bytes(tokens, hidden, ranks),
            tokens=tokens,
            break_even=break_even(elements, hidden, "zigzag", ranks),
        )
        for (name, elements), number in layers.items()
        for ranks in RANKS
    )
    return Sequence(unit=unit, balance=tuple(balance), passing=passing)
