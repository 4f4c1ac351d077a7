"""Launch tables of the indexers, and what of a batch is scored at a time."""

from dataclasses import dataclass

import triton

NUM_PROCESSORS = 132
SCORE_BYTES = 32 << 20  # scratch of scores: most of it stays in the second level cache
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
    heads: int, capacity: int, picks: int, pooled: int, itemsize: int, fp8: bool, mx: bool,
) -> IndexLaunch:  # fmt: skip
    """Guess of 2026-12-01, before any run. `heads` of a list; `capacity`: entries that a row can
    see by the width of the page table; `pooled`: entries of a block (1: none)."""
    wide = itemsize == 4
    total = num_rows * num_lists
    columns = 32 if wide else 128
    # pairs of one sequence share its keys; a tile of several sequences reads them in turn
    shared = max(num_rows // max(num_sequences, 1), 1) * num_lists
    most = max(columns // heads, 1)
    least = max(16 // heads, 1)
    block_pairs = max(min(most, 1 << (shared.bit_length() - 1)), least)
    block_entries = max(32 if wide else 128, pooled)
    scores = triton.cdiv(capacity, pooled)
    fitting = max(SCORE_BYTES // (4 * width_of(scores)), block_pairs)
    tiles = max(triton.cdiv(total, fitting), 1)
    pairs = max(triton.cdiv(triton.cdiv(total, tiles), block_pairs), 1) * block_pairs
    # enough programs for two waves, of four steps or more
    waves = max(2 * NUM_PROCESSORS * block_pairs // pairs, 1)
    chunk = max(triton.cdiv(capacity, waves * block_entries), 4) * block_entries
    chunk = min(chunk, 32 * block_entries)
    row_candidates = max(triton.next_power_of_2(4 * picks), 1024)
    block_scores = 4096
    segments, held = 0, row_candidates
    if scores > row_candidates:
        segments = max(min(2 * NUM_PROCESSORS // pairs, triton.cdiv(scores, 2048)), 1)
        if segments > 1:
            block_scores = 2048
        held = min(row_candidates, up(triton.cdiv(scores, segments), block_scores))
    sample = triton.next_power_of_2(max(32 * scores // picks, 1))
    # folding reads and writes every key once: worth it where each is multiplied many times
    small = num_sequences * up(capacity, FOLDED) * (MX_DIM + 4) <= FOLD_BYTES
    fold = mx and small and num_rows >= 32 * num_sequences
    mode = (GROUPS if mx and not fold else ROWS) if fp8 else PLAIN
    return IndexLaunch(
        mode=mode, fold=fold, pairs=pairs, block_pairs=block_pairs,
        block_entries=block_entries, chunk=chunk, score_warps=4 if wide else 8,
        score_stages=2 if wide else 3, segments=segments, segment_candidates=held,
        row_candidates=row_candidates, sample=min(max(sample, 512), 16384), margin=6.0,
        block_scores=block_scores, collect_warps=8, choose_warps=8,
    )  # fmt: skip


def up(count: int, size: int) -> int:
    """`count` rounded up to a multiple of `size`."""
    return -(-count // size) * size


def width_of(scores: int) -> int:
    """Scores between two rows of the scratch: whole lines."""
    return up(max(scores, 1), 32)
