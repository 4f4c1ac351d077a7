"""Launch tables of the indexers, and what of a batch is scored at a time."""

from dataclasses import dataclass

import triton

NUM_PROCESSORS = 132
SCORE_BYTES = 32 << 20  # scratch of the rows at a time: it stays in the second level cache
FOLDED = 128  # entries of a program that folds
MX_DIM = 128  # channels of an FP8 entry: its four scales are read as one word
FOLD_BYTES = 20 << 20  # scratch of MXFP8 keys under one scale each: 158,000 entries
PLAIN, GROUPS, ROWS = 0, 1, 2  # as in score.py


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLaunch:
    """Scoring: `pairs` (row, list) at a time, of which a program takes `block_pairs`, against
    `chunk` entries in steps of `block_entries`. Selection: `segments` of a row looked through for
    candidates, at most `segment_candidates` each and `row_candidates` a row (0 segments: all
    scores of a row are candidates), above a bound from `sample` scores, `margin` standard
    deviations low. `mode` as in score.py; `fold`: MXFP8 entries are first
    brought under one scale each."""

    mode: int
    fold: bool
    pairs: int
    block_pairs: int
    block_entries: int
    chunk: int
    score_warps: int
    score_stages: int
    segments: int
    segment_candidates: int
    row_candidates: int
    sample: int
    margin: float
    block_scores: int
    collect_warps: int
    choose_warps: int


def index_launch(
    capability: tuple[int, int], *, num_rows: int, num_lists: int, num_sequences: int,
    heads: int, head_dim: int, capacity: int, picks: int, pooled: int, itemsize: int,
    fp8: bool, mx: bool,
) -> IndexLaunch:  # fmt: skip
    """Guess of 2026-12-01, before any run. `heads` of a list; `capacity`: entries that a row can
    see by the width of the page table; `pooled`: entries of a block (1: none)."""
    wide, total, scores = itemsize == 4, num_rows * num_lists, triton.cdiv(capacity, pooled)
    # folding reads and writes every key once: worth it where each is multiplied many times
    small = num_sequences * up(capacity, FOLDED) * (head_dim + 4) <= FOLD_BYTES
    fold = mx and small and num_rows >= 32 * num_sequences
    mode = (GROUPS if mx and not fold else ROWS) if fp8 else PLAIN
    # pairs of one sequence share its keys; a tile of several sequences reads them in turn
    shared = max(num_rows // max(num_sequences, 1), 1) * num_lists
    # groups need two accumulators
    columns = 32 if wide else (128 if mode == GROUPS else 256 * 128 // max(head_dim, 128))
    most, least = max(columns // heads, 1), max(16 // heads, 1)
    block_pairs = max(min(most, 1 << (shared.bit_length() - 1)), least)
    # a tile within a page needs one page number
    block_entries = max(32 if wide else 64, pooled)
    row_candidates = max(triton.next_power_of_2(4 * picks), 1024)
    each = width_of(scores) + (row_candidates if scores > row_candidates else 0)
    each_bytes = 4 * each + (heads * (head_dim + 4) if fp8 else 0)
    tiles = max(triton.cdiv(total * each_bytes, SCORE_BYTES), 1)
    pairs = max(triton.cdiv(total, tiles * block_pairs), 1) * block_pairs
    # enough programs for two waves of two on each multiprocessor, of four steps or more
    waves = max(4 * NUM_PROCESSORS * block_pairs // pairs, 1)
    steps = min(max(triton.cdiv(capacity, waves * block_entries), 4), 64)
    block_scores, segments, held = 4096, 0, row_candidates
    if scores > row_candidates:
        segments = max(min(2 * NUM_PROCESSORS // pairs, triton.cdiv(scores, 2048)), 1)
        block_scores = 2048 if segments > 1 else block_scores
        held = min(row_candidates, up(triton.cdiv(scores, segments), block_scores))
    sample = triton.next_power_of_2(max(32 * scores // picks, 1))
    wide_groups = mode == GROUPS and block_pairs * heads > 64
    warps = 8 if block_entries > 64 or wide_groups else 4
    return IndexLaunch(
        mode=mode, fold=fold, pairs=pairs, block_pairs=block_pairs, block_entries=block_entries,
        chunk=steps * block_entries, score_warps=warps,
        # few rows wait for memory: more steps in flight
        score_stages=2 if wide else (3 if block_pairs * heads > 128 else 5),
        segments=segments, segment_candidates=held, row_candidates=row_candidates,
        sample=min(max(sample, 512), 16384), margin=6.0, block_scores=block_scores,
        collect_warps=8, choose_warps=8,
    )  # fmt: skip


def up(count: int, size: int) -> int:
    """`count` rounded up to a multiple of `size`."""
    return -(-count // size) * size


def width_of(scores: int) -> int:
    """Scores between two rows of the scratch: whole lines."""
    return up(max(scores, 1), 32)
