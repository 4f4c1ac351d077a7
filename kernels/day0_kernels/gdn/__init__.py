"""Gated delta net: one decay per value head, delta rule. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["gdn_decode", "gdn_prefill", "gdn_verify"]

__getattr__ = exports(
    __name__,
    {"gdn_prefill": "prefill", "gdn_decode": "decode", "gdn_verify": "decode"},
)
