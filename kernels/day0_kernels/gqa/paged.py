"""The definition of grouped-query attention over paged caches."""

import torch

from day0_kernels.common.paged import history_of, lengths_of
from day0_kernels.common.plain import borders, causal, named, wide
from day0_kernels.gqa.reference import attended


def gqa_paged(
    q: torch.Tensor,
    key_pages: torch.Tensor,
    value_pages: torch.Tensor,
    table: torch.Tensor,
    cu_seqlens: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    y: torch.Tensor,
    sink: torch.Tensor | None = None,
    key_scale_pages: torch.Tensor | None = None,
    value_scale_pages: torch.Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    value_dim: int,
    scale: float,
    window: int = 0,
    softcap: float | None = None,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write y [T, n*dv]: `gqa` of reference.py over pages.

    Row t sees the entries of sequence seq[t] up to positions[t], of these the last `window`. Rows
    of a sequence lie together (cu_seqlens) and their positions follow one another. key_pages
    [P, S, nkv*dk], value_pages [P, S, nkv*dv], table [N, M]; pages that fell out of every row's
    window may be missing in the table (0). Caches in FP8 have scales fp32 [P, S, nkv*tiles], one
    for each token, head and 128 channels of it.
    """
    through(
        q, key_pages, value_pages, table, cu_seqlens, positions, seq, y, sink, key_scale_pages,
        value_scale_pages, None, num_heads=num_heads, num_kv_heads=num_kv_heads, scale=scale,
        window=window, softcap=softcap,
    )  # fmt: skip


def through(
    q: torch.Tensor, key_pages: torch.Tensor, value_pages: torch.Tensor, table: torch.Tensor,
    cu_seqlens: torch.Tensor, positions: torch.Tensor, seq: torch.Tensor, y: torch.Tensor,
    sink: torch.Tensor | None, key_scale_pages: torch.Tensor | None,
    value_scale_pages: torch.Tensor | None, selected: torch.Tensor | None, *, num_heads: int,
    num_kv_heads: int, scale: float, window: int = 0, softcap: float | None = None,
    block: int = 1, num_lists: int = 1,
) -> None:  # fmt: skip
    """Over all entries that a row sees, or those of the blocks that selected [T, lists * k]
    names."""
    dtype, lengths = wide(q), lengths_of(positions, seq, len(table))
    keys, entries = _entries(key_pages, key_scale_pages, table, lengths, num_kv_heads, dtype)
    values, _ = _entries(value_pages, value_scale_pages, table, lengths, num_kv_heads, dtype)
    for rows, own in zip(borders(cu_seqlens), borders(entries), strict=True):
        if rows[0] == rows[1]:
            continue
        at = slice(*rows)
        seen = causal(positions[at], 0, own[1] - own[0], window)  # [t, s]
        # what a row does not see may be anything, also NaN, which zero weights do not cancel
        kept = seen.any(0)[:, None]
        key, value = (part[own[0] : own[1]].where(kept, 0.0) for part in (keys, values))
        if selected is not None:
            lists = selected[at].view(rows[1] - rows[0], num_lists, -1)
            chosen = named(lists, 0, own[1] - own[0], block).transpose(0, 1)  # [lists, t, s]
            seen = seen & chosen.repeat_interleave(num_heads // num_lists, dim=0)
        out = attended(
            q[at], key, value, seen, sink, num_heads=num_heads, num_kv_heads=num_kv_heads,
            scale=scale, softcap=softcap,
        )  # fmt: skip
        y[at] = out.to(y.dtype)


def _entries(
    pages: torch.Tensor, scales: torch.Tensor | None, table: torch.Tensor, lengths: list[int],
    heads: int, dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(entries of all sequences in `dtype`, borders); an FP8 entry times its heads' scales."""
    found, where = history_of(pages, table, lengths)
    found = found.to(dtype)
    if scales is not None:
        each = history_of(scales, table, lengths)[0].to(dtype)  # [s, heads * tiles]
        wide_scales = each.repeat_interleave(found.shape[1] // each.shape[1], dim=1)
        found = found * wide_scales
    return found, where
