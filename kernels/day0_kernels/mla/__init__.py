"""Latent attention. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["mla_paged"]

__getattr__ = exports(__name__, {"mla_paged": "decode"})
