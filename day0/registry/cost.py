"""The one cost model: flops and bytes of an operator, from its family and its shapes."""

from dataclasses import dataclass
from functools import lru_cache

from day0.ir import format as formats
from day0.registry.family import Context, Shapes
from day0.registry.index import family


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """`flops` (a multiply and an add are two) and `cache_bytes` read and written per token;
    `weight_bytes` per step of Context.rows tokens, which is batch 1 unless asked otherwise. Values
    between ops are not counted: fusion decides about them."""

    flops: float = 0.0
    weight_bytes: float = 0.0
    cache_bytes: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            flops=self.flops + other.flops,
            weight_bytes=self.weight_bytes + other.weight_bytes,
            cache_bytes=self.cache_bytes + other.cache_bytes,
        )

    @property
    def bytes(self) -> float:
        return self.weight_bytes + self.cache_bytes


def cost(*, family_name: str, shapes: Shapes, context: Context) -> Cost:
    """Cost per row of the first input."""
    kind = family(family_name)
    share = kind.share(shapes, context)
    weights = sum(
        stored_bytes(spec.format, spec.dims) * share.get(slot, 1.0)
        for slot, spec in shapes.weights.items()
    )
    entries = kind.entries(shapes, context)
    caches = sum(
        count * sum(stored_bytes(spec.format, spec.dims) for spec in shapes.caches[slot])
        for slot, count in entries.items()
        if slot in shapes.caches
    )
    return Cost(flops=kind.flops(shapes, context), weight_bytes=weights, cache_bytes=caches)


@lru_cache(maxsize=8192)
def stored_bytes(format_name: str, dims: tuple[int | str, ...]) -> int:
    """Bytes of a tensor in a format, scales included."""
    return formats.get(format_name).bytes(tuple(dim for dim in dims if isinstance(dim, int)))
