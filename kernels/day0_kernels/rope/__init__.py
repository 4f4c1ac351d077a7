"""Rotary embedding and all its tables. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["rope"]

__getattr__ = exports(__name__, {"rope": "kernel"})
