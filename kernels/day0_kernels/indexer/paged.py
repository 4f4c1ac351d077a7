"""The definition of the indexers over paged keys."""

import torch

from day0_kernels.common.paged import history_of, lengths_of
from day0_kernels.common.plain import wide
from day0_kernels.indexer.reference import chosen
from day0_kernels.quant.reference import MX_GROUP, exponent, grouped, rounded


def indexer_paged(
    q: torch.Tensor,
    entry_pages: torch.Tensor,
    table: torch.Tensor,
    positions: torch.Tensor,
    seq: torch.Tensor,
    selected: torch.Tensor,
    head_weights: torch.Tensor | None = None,
    entry_scale_pages: torch.Tensor | None = None,
    *,
    num_heads: int,
    head_dim: int,
    top_k: int,
    scale: float,
    relu: bool = True,
    pool: str = "none",
    block: int = 1,
    unit: str = "token",
    tail: bool = False,
    local_blocks: int = 0,
    num_lists: int = 1,
    workspace: torch.Tensor | None = None,
) -> None:
    """Write `selected` [T, lists * top_k] as `indexer` of reference.py; row t belongs to sequence
    seq[t] of table [N, M], in whose pages entry_pages [P, S, d] its entries lie in order.

    `entry_scale_pages` uint8 [P, S, d/32]: the entries are MXFP8; fp32 [P, S, d/128]: they are
    E4M3 with a scale for 128 channels. q is then brought to MXFP8 ("rceil") first.
    """
    dtype = wide(q)
    every = block if pool in ("softmax", "mean") else 1
    lengths = [length // every for length in lengths_of(positions, seq, len(table))]
    keys, borders = history_of(entry_pages, table, lengths)
    keys, queries = keys.to(dtype), q.to(dtype)
    if entry_scale_pages is not None:
        scales = history_of(entry_scale_pages, table, lengths)[0]
        if entry_scale_pages.dtype == torch.uint8:
            keys = _times(keys, scales)
        else:
            keys = (keys.unflatten(-1, (scales.shape[1], -1)) * scales[..., None]).flatten(-2)
        queries = mx_rounded(queries.view(-1, head_dim)).view(len(q), -1)
    for row in range(len(q)):  # rows of a sequence need not lie together
        own = slice(int(borders[seq[row]]), int(borders[seq[row] + 1]))
        at = slice(row, row + 1)
        selected[at] = chosen(
            queries[at], keys[own], positions[at], 0,
            None if head_weights is None else head_weights[at].to(dtype),
            num_heads=num_heads, top_k=top_k, scale=scale, relu=relu, pool=pool, block=block,
            unit=unit, tail=tail, local_blocks=local_blocks, num_lists=num_lists,
        ).to(selected.dtype)  # fmt: skip


def mx_rounded(x: torch.Tensor) -> torch.Tensor:
    """The values that x [T, D] has in MXFP8 (`quant_mx`), in its own dtype."""
    groups, amax = grouped(x, MX_GROUP)
    byte = exponent(amax, "rceil")
    return _times(rounded(groups * torch.exp2(127.0 - byte)[..., None]).flatten(-2), byte)


def _times(codes: torch.Tensor, byte: torch.Tensor) -> torch.Tensor:
    factor = torch.exp2(byte.to(codes.dtype) - 127.0)
    return (codes.unflatten(-1, (-1, MX_GROUP)) * factor[..., None]).flatten(-2)
