"""Rows into the pages of a cache, as they are or quantised. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["cache_write", "cache_write_quantised"]

__getattr__ = exports(__name__, {"cache_write": "kernel", "cache_write_quantised": "quantised"})
