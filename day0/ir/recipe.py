"""Which format each role of weights and caches runs in."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from day0.ir.cache import CacheSpec
from day0.ir.weight import Weight

ROLES = (
    "experts", "shared_expert", "dense", "attention_proj", "index_q", "index_k", "head",
    "embedding", "router", "norm", "state", "conv", "residual", "lookup", "kv", "index",
    "recurrent",
)  # fmt: skip
# Roles that every recipe keeps as they are stored: small, and read by something sharp.
KEPT = ("router", "norm", "state", "conv", "residual", "lookup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`plain` is the format of what no entry names; `formats` maps roles to formats."""

    name: str
    plain: str = "bf16"
    formats: Mapping[str, str] = field(default_factory=dict)

    def weight(self, weight: Weight) -> str:
        """The format a weight runs in."""
        if weight.role in KEPT or len(weight.spec.dims) < 2:
            return "fp32" if weight.role in ("router", "state") else self.plain
        return self.formats.get(weight.role, self.plain)

    def cache(self, cache: CacheSpec) -> str:
        """The format of a cache's entries. A recurrent state keeps the one its model gives it (fp32
        unless the config says otherwise), whatever the activations are in; conv tails are
        activations."""
        if cache.role == "state":
            return self.formats.get("recurrent", cache.parts[0][1].format)
        return self.formats.get(cache.role, self.plain)


RECIPES: Mapping[str, Recipe] = {
    "fp32": Recipe(name="fp32", plain="fp32", formats={"recurrent": "fp32"}),
    "bf16": Recipe(name="bf16"),
    "fp8": Recipe(
        name="fp8",
        formats={
            "experts": "fp8_b128",
            "shared_expert": "fp8_b128",
            "dense": "fp8_b128",
            "kv": "fp8_t128",
            "index": "mxfp8",
        },
    ),
}
