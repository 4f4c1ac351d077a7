"""RMS norm per head, then a gate. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["gated_rmsnorm"]

__getattr__ = exports(__name__, {"gated_rmsnorm": "kernel"})
