"""Matrix product of FP8 rows and FP8 weights with scales per tile. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["fp8_gemm", "linear"]

__getattr__ = exports(__name__, {"fp8_gemm": "gemm", "linear": "linear"})
