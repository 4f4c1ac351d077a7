"""Causal depthwise convolution over time with a carried tail. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["short_conv_decode", "short_conv_prefill"]

__getattr__ = exports(__name__, {"short_conv_prefill": "prefill", "short_conv_decode": "decode"})
