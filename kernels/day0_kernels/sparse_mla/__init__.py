"""Latent attention over selected tokens. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["selected_attention", "sparse_mla_paged"]

__getattr__ = exports(
    __name__, {"selected_attention": "attention", "sparse_mla_paged": "attention"}
)
