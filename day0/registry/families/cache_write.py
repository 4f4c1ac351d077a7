"""Entries of the step's tokens written into a cache."""

from day0.registry.family import Family

FAMILY = Family(
    name="cache_write",
    what="each row's values written as the parts of its cache entry",
    inputs=("part*",),
    caches=("cache",),
    outputs=(),
    infer=lambda s: {},
    flops=lambda s, c: 0.0,
    entries=lambda s, c: {"cache": 1.0},
)
