"""Latent attention. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["latent_attention", "mla_paged"]

__getattr__ = exports(__name__, {"latent_attention": "core", "mla_paged": "decode"})
