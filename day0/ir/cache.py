"""What a layer keeps between steps."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from day0.ir.tensor import TensorSpec

# Tokens between two states that a prefix cache keeps, unless a user states another number.
STATE_INTERVAL = 2048
GROWTHS = ("per-token", "window", "pooled", "per-sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """One cache of one layer.

    `growth`: "per-token" one entry for every token; "window" the last `span` tokens; "pooled" one
    entry for every `every` tokens; "per-sequence" one entry in all.
    `parts` name the tensors of an entry and their specs (dims of one entry, no rows).
    `role`: which word of a recipe decides the format: "kv" (keys, values, latents), "index",
    "state" (recurrent state), "conv" (tails of raw inputs).
    `rollback`: "overwrite" (addressed by position) or "versions" (one slot a draft token).
    `slotted`: a window that lives in the sequence's slot (conv tails, open pools), not in pages.
    `align`: entries are complete at multiples of this many tokens; what is open lies in slots.
    """

    name: str
    growth: str
    parts: tuple[tuple[str, TensorSpec], ...]
    role: str = "kv"
    layer: int = -1
    every: int = 1
    span: int = 0
    rollback: str = "overwrite"
    align: int = 1
    slotted: bool = False

    @property
    def elements(self) -> int:
        """Elements of one entry."""
        return sum(spec.width for _, spec in self.parts)

    def entries(self, num_tokens: int) -> int:
        """Entries held for one sequence of `num_tokens` tokens (complete pools only)."""
        if self.growth == "per-token":
            return num_tokens
        if self.growth == "window":
            return min(num_tokens, self.span)
        if self.growth == "pooled":
            return num_tokens // self.every
        return 1


def page_size(caches: Iterable[CacheSpec], least: int = 16) -> int:
    """Tokens of a page: the smallest multiple of every pool size that is at least `least`."""
    pools = math.lcm(*(cache.every for cache in caches if cache.growth == "pooled"), 1)
    return pools * max(1, -(-least // pools))
