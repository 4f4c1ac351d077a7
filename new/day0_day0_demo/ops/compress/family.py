"""The kernel of compress for what this model asks; it counts once its parity has passed."""

from pathlib import Path

from day0.models.plugin import Registry
from day0.registry.family import Impl
from day0.registry.written import parity

IMPLEMENTATION = Impl(
    backend="triton",
    entry="day0_day0_demo.ops.compress.kernel:compress",
    formats={
        "position_bias": ("fp32",),
        "tail": ("bf16",),
        "pooled": ("bf16",),
    },
    attrs={
        "norm": ("none",),
        "norm_eps": (None,),
        "overlap": (False,),
        "rope_dims": (0,),
        "rope_pairing": ("none",),
        "rope_place": ("first",),
        "rule": ("softmax",),
        "scaling": (None,),
        "scaling_args": (None,),
        "size": (4,),
        "theta": (None,),
        "zero_centered": (False,),
    },
    parity=parity(Path(__file__).parent),
)


def register(registry: Registry) -> None:
    """One more implementation of a family that there is."""
    registry.implementation("compress", IMPLEMENTATION)
