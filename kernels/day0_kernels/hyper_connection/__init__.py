"""Residual streams, read and written by small matrices. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["hyper_connection", "hyper_write"]

__getattr__ = exports(__name__, {"hyper_connection": "read", "hyper_write": "write"})
