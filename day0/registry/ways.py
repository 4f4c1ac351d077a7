"""Ways to cut an op over the ranks of a mesh axis: what is dealt out, and what comes of it.

Pure data: a family says which ways it has, `placement` chooses one for every op of a graph, `split`
says whether n ranks may take it, and `local` what a rank then holds. The plan and the shard pass
read the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

YIELDS = ("split", "partial")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What is dealt out in equal units.

    `units` of `what` (heads, channels, experts). `shared`: with fewer units than ranks, several
    ranks may hold the same one (key heads). `inputs`: slots that come split in these units;
    `weights`, `caches`: (slot, dim that is cut), a cache's dim counted in one entry; `counts`:
    attributes that shrink with the share; `first`, `total`: attributes that say where in all units
    the share begins, and how many these are ("": none).
    """

    units: int
    what: str
    shared: bool = False
    inputs: tuple[str, ...] = ()
    weights: tuple[tuple[str, int], ...] = ()
    caches: tuple[tuple[str, int], ...] = ()
    counts: tuple[str, ...] = ()
    first: str = ""
    total: str = ""

    def parts(self, n: int) -> int:
        """Into how many parts n ranks cut the units; 0 when they cannot."""
        if self.units % n == 0:
            return n
        return self.units if self.shared and n % self.units == 0 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to cut an op.

    `yields`: "split" (the output's channels, dealt as the first cut's units) or "partial" (sums
    over the ranks are missing). `padded`: a share may be rounded up, the rest is nothing (rows of a
    vocabulary, experts). `optional`: where n ranks cannot, each does all of the op and the first
    alone adds it.
    """

    name: str
    cuts: tuple[Cut, ...]
    yields: str
    axis: str = "tp"
    padded: bool = False
    optional: bool = False

    @property
    def inputs(self) -> dict[str, Cut]:
        """The input slots that come split, each with its cut."""
        return {slot: cut for cut in self.cuts for slot in cut.inputs}


def heads(attrs: Mapping[str, Any], inputs: tuple[str, ...], **cut: Any) -> Way:
    """Query heads dealt out; what `cut` names besides goes with them."""
    count = attrs["num_heads"]
    first = Cut(units=count, what="heads", inputs=inputs, counts=("num_heads",), **cut)
    return Way(name="heads", cuts=(first,), yields="split")


def grouped_heads(attrs: Mapping[str, Any], inputs: tuple[str, ...], **cut: Any) -> Way:
    """Query heads and, with them, the key/value heads of the cache `kv`."""
    keys = Cut(
        units=attrs["num_kv_heads"],
        what="key/value heads",
        shared=True,
        caches=(("kv", 0),),
        counts=("num_kv_heads",),
    )
    first = heads(attrs, inputs, **cut).cuts
    return Way(name="heads", cuts=(*first, keys), yields="split")


def channels(width: int, inputs: tuple[str, ...], group: int = 1, **cut: Any) -> Way:
    """Channels dealt out, a group of them at a time: what goes in split comes out split."""
    first = Cut(units=width // group, what="channels" if group == 1 else "groups of channels",
                inputs=inputs, **cut)  # fmt: skip
    return Way(name="channels", cuts=(first,), yields="split")
