"""A node of the Graph."""

from dataclasses import dataclass
from typing import Any

Slots = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """A use of a cache by an op: its slot, the cache's name and "r", "w" or "rw"."""

    slot: str
    cache: str
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operator. Slots are named, so optional ones need no position.

    `inputs`, `outputs`: (slot, value name). `weights`: (slot, weight name). `attrs`: sorted
    (name, value) pairs, closed by the family. `because`: paths of the facts behind it.
    `parts`: the canonical ops a fused op replaced.
    """

    id: str
    family: str
    layer: int
    inputs: Slots
    outputs: Slots
    weights: Slots = ()
    caches: tuple[CacheUse, ...] = ()
    attrs: tuple[tuple[str, Any], ...] = ()
    because: tuple[str, ...] = ()
    parts: tuple["Op", ...] = ()

    def attr(self, name: str) -> Any:
        """The attribute's value; KeyError when the family does not have it."""
        for key, value in self.attrs:
            if key == name:
                return value
        raise KeyError(name)
