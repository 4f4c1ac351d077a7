"""Activations to FP8 with one scale per tile of channels, fp32 or E8M0. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["quant_mx", "quant_tile"]

__getattr__ = exports(__name__, {"quant_mx": "quantise", "quant_tile": "quantise"})
