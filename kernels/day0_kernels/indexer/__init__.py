"""Lightning indexers: the best k tokens or blocks per row. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["indexer_paged"]

__getattr__ = exports(__name__, {"indexer_paged": "best"})
