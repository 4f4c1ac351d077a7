"""How the lightning kernels are launched: tables over shape and nothing else.

Guesses for one NVIDIA H200 (132 multiprocessors), to be tuned; other chips get the same.
"""

from dataclasses import dataclass

from day0_kernels.common.recurrence import DecodeLaunch
from day0_kernels.common.windows import NUM_MULTIPROCESSORS


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillLaunch:
    """Chunk length, value columns of a program, its warps and pipeline; `segments` > 1 cuts every
    sequence for more programs."""

    chunk: int
    block_v: int
    num_warps: int
    stages: int
    segments: int


def prefill_launch(
    *, num_tokens: int, num_sequences: int, num_heads: int, head_dim: int, exact: bool
) -> PrefillLaunch:
    """Launch of a prefill; `exact` means fp32 inputs."""
    chunk, block_v = (16, 32) if exact else (64, 64)
    block_v = min(block_v, head_dim)
    programs = num_heads * (head_dim // block_v) * max(num_sequences, 1)
    chunks = num_tokens // max(num_sequences, 1) // chunk
    segments = 1
    # a segment costs a second pass over keys and values: worth it while most of the chip idles
    while 2 * programs * segments <= NUM_MULTIPROCESSORS and chunks >= 16 * segments:
        segments *= 2
    return PrefillLaunch(
        chunk=chunk, block_v=block_v, num_warps=4, stages=1 if exact else 3, segments=segments
    )


def decode_launch(*, num_programs: int, head_dim: int) -> DecodeLaunch:
    """Launch of a decode step; `num_programs` is sequences times heads."""
    if num_programs * head_dim <= 64 * NUM_MULTIPROCESSORS:
        return DecodeLaunch(block_v=min(16, head_dim), num_warps=1)
    return DecodeLaunch(block_v=min(32, head_dim), num_warps=4)
