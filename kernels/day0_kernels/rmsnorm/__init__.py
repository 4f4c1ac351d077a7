"""RMS norm over groups of channels, with a residual add and an FP8 output. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["add_rmsnorm", "rmsnorm", "rmsnorm_mx", "rmsnorm_tile"]

__getattr__ = exports(
    __name__,
    {
        "rmsnorm": "kernel",
        "add_rmsnorm": "kernel",
        "rmsnorm_tile": "quantised",
        "rmsnorm_mx": "quantised",
    },
)
