"""RMS norm over the last dim, with an optional residual add before it. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["add_rmsnorm", "rmsnorm"]

__getattr__ = exports(__name__, {"rmsnorm": "kernel", "add_rmsnorm": "kernel"})
