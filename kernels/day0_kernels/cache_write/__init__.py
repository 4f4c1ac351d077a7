"""Rows into the pages of a cache. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["cache_write"]

__getattr__ = exports(__name__, {"cache_write": "kernel"})
