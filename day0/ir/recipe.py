"""Which format each role of weights and caches runs in."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from day0.ir import format as formats
from day0.ir.cache import CacheSpec
from day0.ir.weight import Weight

ROLES = (
    "experts", "shared_expert", "dense", "attention_proj", "index_q", "index_k", "head",
    "embedding", "router", "norm", "state", "conv", "residual", "lookup", "kv", "index",
    "recurrent",
)  # fmt: skip
# Roles of weights that no recipe narrows: small, and read by something sharp.
KEPT = ("router", "norm", "state", "conv", "residual", "lookup")
# In a recipe: a quantised weight runs as its checkpoint stores it, any other in the plain format.
STORED = "stored"
# Parts of a cache entry that stay plain. FlashMLA's and Ascend's FP8 entries hold the rotated 64
# channels of a latent in bf16 beside the FP8 rest (656 bytes in all).
WIDE_PARTS = ("k_rope",)
# Where a bias has the role of its matrices: the rank that a matrix has at least.
_MATRIX = {"experts": 3}
_INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`plain` is the format of what no entry names; `formats` maps roles to formats."""

    name: str
    plain: str = "bf16"
    formats: Mapping[str, str] = field(default_factory=dict)

    def weight(self, weight: Weight) -> str:
        """The format a weight runs in. Biases are plain, kept roles plain (routers and states
        fp32) unless an entry names another plain format; integers stay what they are."""
        stored = weight.spec.format
        if stored in _INTEGERS:
            return stored
        if weight.role in KEPT:
            usual = "fp32" if weight.role in ("router", "state") else self.plain
            return self.formats.get(weight.role, usual)
        if len(weight.spec.dims) < _MATRIX.get(weight.role, 2):
            return self.plain
        wanted = self.formats.get(weight.role, self.plain)
        if wanted == STORED:
            return stored if formats.get(stored).quantised else self.plain
        return wanted

    def cache(self, cache: CacheSpec) -> str:
        """The format of a cache's entries. A recurrent state keeps the one its model gives it (fp32
        unless the config says otherwise), whatever the activations are in; tails of raw inputs
        (convolutions, open pools) are activations."""
        if cache.role == "state":
            return self.formats.get("recurrent", cache.parts[0][1].format)
        role = "conv" if cache.slotted else cache.role
        return self.formats.get(role, self.plain)

    def part(self, cache: CacheSpec, name: str) -> str:
        """The format of one part of a cache's entries."""
        return self.plain if name in WIDE_PARTS else self.cache(cache)


RECIPES: Mapping[str, Recipe] = {
    "fp32": Recipe(name="fp32", plain="fp32", formats={"recurrent": "fp32"}),
    "bf16": Recipe(name="bf16"),
    "fp8": Recipe(
        name="fp8",
        formats={
            "experts": "fp8_b128",
            "shared_expert": "fp8_b128",
            "dense": "fp8_b128",
            "index_q": STORED,
            "index_k": STORED,
            "kv": "fp8_t128",
            "index": "mxfp8",
        },
    ),
}
