"""Launch of the short convolution; tuned on one NVIDIA H200, 2026-11-30."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Channels and rows (prefill) or sequences (decode) of a program, and its warps."""

    block_c: int
    rows: int
    num_warps: int


def prefill_launch(*, channels: int) -> Launch:
    """Eight channels per thread, one 16-byte access."""
    return Launch(block_c=256 if channels >= 256 else 64, rows=32, num_warps=1)


def decode_launch(*, num_sequences: int, channels: int) -> Launch:
    """Several sequences per program share the taps once there are enough programs."""
    rows = 1 if num_sequences * channels <= 132 * 8192 else 4
    return Launch(block_c=256 if channels >= 256 else 64, rows=rows, num_warps=1)
