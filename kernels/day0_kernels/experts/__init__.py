"""The chosen experts' gated feed-forwards, weighted and summed. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["combine", "down", "experts", "gate_up"]

__getattr__ = exports(
    __name__, {"experts": "whole", "gate_up": "first", "down": "second", "combine": "total"}
)
