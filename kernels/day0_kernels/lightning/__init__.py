"""Lightning attention: a fixed decay per head. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["lightning_decode", "lightning_prefill"]

__getattr__ = exports(__name__, {"lightning_prefill": "prefill", "lightning_decode": "decode"})
