"""Launch of the short convolution; tuned on one NVIDIA H200, 2026-11-30."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Channels and rows (prefill) or sequences (decode) of a program, and its warps."""

    block_c: int
    rows: int
    num_warps: int


def prefill_launch(*, channels: int) -> Launch:
    """Four channels per thread."""
    return Launch(block_c=256, rows=64, num_warps=2) if channels >= 256 else _SMALL


def decode_launch(*, num_sequences: int, channels: int) -> Launch:
    """Sequences of a program share the taps, which are as many bytes as four sequences move."""
    if channels < 256:
        return _SMALL
    if num_sequences < 16:
        return Launch(block_c=128, rows=1, num_warps=1)
    return Launch(block_c=256, rows=8 if num_sequences >= 64 else 4, num_warps=1)


_SMALL = Launch(block_c=64, rows=4, num_warps=1)
