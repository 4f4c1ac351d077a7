"""The plan `nearest`: known models by their distance in mechanisms and attributes.

The catalog's features are generated, so nothing but this model is taken apart.
"""

from dataclasses import dataclass
from typing import Any

from day0.analysis.compare import Difference, compare
from day0.catalog.features import features, known
from day0.models import ModelSpec

DESCRIBED = 8  # nearest models whose differences are spelled out


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A known model: catalog name, hub id, and what the analysed one has instead."""

    name: str
    id: str
    difference: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """All known models, nearest first. The very model, by its id, is none of its neighbours."""

    neighbours: tuple[Neighbour, ...]


def nearest(spec: ModelSpec, *, id: str = "") -> Nearest:
    """`id`: of the analysed model, "org/name" or "catalog:NAME"."""
    own = features(spec)
    itself = {id.removeprefix("catalog:"), id.partition("@")[0]}
    found = [
        Neighbour(name=other.name, id=other.id, difference=compare(own, other.features))
        for other in known()
        if not {other.name, other.id} & itself
    ]
    found.sort(key=lambda one: (one.difference.distance, one.name))
    return Nearest(neighbours=tuple(found))


def rows(plan: Nearest) -> list[dict[str, Any]]:
    """As JSON: name and distance of all, the words of the first few."""
    return [
        {
            "name": one.name,
            "id": one.id,
            "distance": one.difference.distance,
            "differences": list(one.difference.meaning) if at < DESCRIBED else [],
            "constants": list(one.difference.constants) if at < DESCRIBED else [],
            "sizes": list(one.difference.sizes) if at < DESCRIBED else [],
            "stored": list(one.difference.stored) if at < DESCRIBED else [],
        }
        for at, one in enumerate(plan.neighbours)
    ]
