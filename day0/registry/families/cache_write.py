"""Entries of the step's tokens written into a cache."""

from day0.registry.family import Family, Impl

PLAIN = ("bf16", "fp16", "fp32")

FAMILY = Family(
    name="cache_write",
    what="each row's values written as the parts of its cache entry",
    inputs=("part*",),
    caches=("cache",),
    outputs=(),
    infer=lambda s: {},
    flops=lambda s, c: 0.0,
    entries=lambda s, c: {"cache": 1.0},
    impls=(
        Impl(
            backend="triton",
            entry="day0_kernels.cache_write.kernel:cache_write",
            formats={"cache": PLAIN},
            min_capability=(8, 0),
            parity="cache_write/bf16",
        ),
        # parts that stay plain (rotated keys) are written by the one above
        Impl(
            backend="triton",
            entry="day0_kernels.cache_write.quantised:cache_write_quantised",
            formats={"cache": (*PLAIN, "fp8_t128", "mxfp8")},
            min_capability=(9, 0),
            parity="cache_write/fp8-bf16",
        ),
    ),
)
