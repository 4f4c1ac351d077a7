"""Kimi delta attention: per-channel decay, delta rule, state [dk, dv] per head. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["kda_decode", "kda_decode_fused", "kda_prefill", "kda_segment", "kda_verify"]

__getattr__ = exports(
    __name__,
    {
        "kda_prefill": "prefill",
        "kda_segment": "segment",
        "kda_decode": "decode",
        "kda_verify": "decode",
        "kda_decode_fused": "decode_fused",
    },
)
