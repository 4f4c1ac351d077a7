"""Tiny checkpoints of every supported type, built with transformers as the oracle.

All sizes of a checkpoint are pairwise distinct where its class allows, drawn anew from a seed, and
every weight is random, so that a swapped dimension, a dropped norm or a wrong order shows.
Importing this package loads neither torch nor transformers; building does.
"""

from .caches import CacheGroup, CacheTensor
from .checkpoint import (
    TinyCheckpoint,
    TinyModel,
    build,
    cache_bytes,
    model,
    random_ids,
    rename,
)
from .shared import shared
from .table import ALL_TYPES, COMPOSITES, TYPES

__all__ = [
    "ALL_TYPES",
    "COMPOSITES",
    "TYPES",
    "CacheGroup",
    "CacheTensor",
    "TinyCheckpoint",
    "TinyModel",
    "build",
    "cache_bytes",
    "model",
    "random_ids",
    "rename",
    "shared",
]
