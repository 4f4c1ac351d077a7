"""Attention over depth by one learned query. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["attn_residual"]

__getattr__ = exports(__name__, {"attn_residual": "mix"})
