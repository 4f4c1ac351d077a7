"""Grouped-query attention over selected blocks. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["sparse_gqa_paged"]

__getattr__ = exports(__name__, {"sparse_gqa_paged": "attention"})
