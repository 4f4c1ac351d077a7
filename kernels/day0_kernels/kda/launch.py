"""How the KDA kernels are launched: pure tables over shape and compute capability, tuned offline.

Tuned on one NVIDIA H200 (132 multiprocessors), 2026-11-30; other chips get the same figures.
"""

from dataclasses import dataclass

NUM_MULTIPROCESSORS = 132
WINDOW_BYTES = 2 << 30  # chunk-local results of a long batch are made in windows of about this size


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillLaunch:
    """Tile sizes and warps of the prefill; `segments` > 1 cuts every sequence for more programs.

    `window` is the number of chunk slots whose local results are in memory at one time.
    """

    chunk: int
    diagonal: int
    chunk_warps: int
    block_v: int
    scan_warps: int
    scan_stages: int
    segments: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeLaunch:
    """Value columns of a program and its warps."""

    block_v: int
    num_warps: int


def diagonal_block(chunk: int, lower_bound: float | None) -> int:
    """Rows of a block whose pairs can be factored: exponents stay within 80 of its middle row."""
    per_token = 16.0 if lower_bound is None else min(-lower_bound, 16.0)
    block = 32
    while block > 2 and block // 2 * per_token > 80.0:
        block //= 2
    return min(block, chunk)


def prefill_launch(
    *,
    num_tokens: int,
    num_sequences: int,
    num_heads: int,
    head_dim: int,
    value_dim: int,
    exact: bool,
    lower_bound: float | None,
    capability: tuple[int, int],
) -> PrefillLaunch:
    """Launch of a prefill of `num_tokens` packed tokens; `exact` means fp32 inputs."""
    chunk = 32 if exact else 64
    slots = -(-num_tokens // chunk) + num_sequences
    element = 4 if exact else 2
    slot_bytes = num_heads * chunk * (3 * head_dim + value_dim + 2 * chunk) * element
    window = max(min(slots, WINDOW_BYTES // slot_bytes), 64)
    block_v = 64 if not exact else 32
    programs = num_heads * max(value_dim // block_v, 1) * num_sequences
    per_sequence = min(slots, window) // max(num_sequences, 1)
    segments = 1
    # a segment costs a second scan: worth it while half of the chip would idle and it is long
    while programs * segments <= NUM_MULTIPROCESSORS // 4 and per_sequence >= 32 * segments:
        segments *= 2
    return PrefillLaunch(
        chunk=chunk,
        diagonal=diagonal_block(chunk, lower_bound),
        chunk_warps=4,
        block_v=min(block_v, value_dim, head_dim),
        scan_warps=4,
        scan_stages=3,
        segments=segments if capability[0] else 1,
        window=window,
    )


def decode_launch(*, num_programs: int, value_dim: int) -> DecodeLaunch:
    """Launch of decode and verify; `num_programs` is sequences times heads."""
    if num_programs * value_dim <= 64 * NUM_MULTIPROCESSORS:
        return DecodeLaunch(block_v=min(16, value_dim), num_warps=1)
    return DecodeLaunch(block_v=min(64, value_dim), num_warps=4)


def fused_launch(*, value_dim: int) -> DecodeLaunch:
    """Launch of the fused decode step: a head in one tile beats two (0.84 against 0.82 of the floor
    at 256 sequences of 48 heads), although two would double the occupancy."""
    return DecodeLaunch(block_v=value_dim, num_warps=4)
