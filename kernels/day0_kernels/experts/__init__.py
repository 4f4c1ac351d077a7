"""The chosen experts' gated feed-forwards, weighted and summed. See README.md."""

from day0_kernels.common.lazy import exports

__all__ = ["combine", "down", "experts", "gate_up"]

__getattr__ = exports(
    __name__,
    {"experts": "experts", "gate_up": "gate_up", "down": "down", "combine": "combine"},
)
