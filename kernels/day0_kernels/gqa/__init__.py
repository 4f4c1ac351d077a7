"""Grouped-query softmax attention: windows, sinks, soft cap. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["gqa_gathered", "gqa_paged"]

__getattr__ = exports(__name__, {"gqa_gathered": "gathered", "gqa_paged": "attention"})
