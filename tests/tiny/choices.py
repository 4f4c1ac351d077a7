"""Which positions of a prompt the oracle decides clearly.

Indexers and routers choose the k best scores. Where the k-th and the next score are equal (keys
that every index head rejects score exactly zero) or closer than rounding, two right programs may
choose differently, and that position and all later ones may differ. A comparison stops there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Gap to the next score, as a share of the largest score, below which a choice is unclear.
MARGIN = 1e-5
# Scores beyond this are masks.
MASKED = 1e30


def unclear_positions(scores: torch.Tensor, k: int, num_tokens: int) -> torch.Tensor:
    """bool [num_tokens]: queries whose k-th and next score along the last dim are too close.

    scores: [..., X] with one dim of num_tokens before the last (scores without one are no choice
    per token, and clear). Masked scores, -inf or huge, do not count. Scores of experts in groups,
    [num_tokens, groups, X], are clear: of those the best are summed, whichever they are.
    """
    import torch

    clear = torch.zeros(num_tokens, dtype=torch.bool)
    if k >= scores.shape[-1] or not scores.is_floating_point():
        return clear
    rows = [dim for dim, size in enumerate(scores.shape[:-1]) if size == num_tokens]
    if not rows or (rows[0] == 0 and scores.dim() > 2):
        return clear
    values = scores.float()
    usable = values.isfinite() & (values.abs() < MASKED)
    if not usable.any():
        return clear
    largest = values[usable].abs().max()
    best = values.sort(dim=-1, descending=True).values
    last, following = best[..., k - 1], best[..., k]
    counted = following.isfinite() & (following.abs() < MASKED)
    close = counted & (last - following <= MARGIN * largest)
    return close.movedim(rows[0], 0).reshape(num_tokens, -1).any(dim=1)


@contextmanager
def watched_choices(note: Callable[[torch.Tensor, int], None]) -> Iterator[None]:
    """Call note(scores, k) at every top-k along the last dim while the context lasts."""
    import torch

    plain, method = torch.topk, torch.Tensor.topk

    def watch(original: Callable[..., Any]) -> Callable[..., Any]:
        def topk(scores: torch.Tensor, k: int, dim: int = -1, *rest: Any, **options: Any) -> Any:
            if dim in (-1, scores.dim() - 1):
                note(scores, int(k))
            return original(scores, k, dim, *rest, **options)

        return topk

    torch.topk, torch.Tensor.topk = watch(plain), watch(method)
    try:
        yield
    finally:
        torch.topk, torch.Tensor.topk = plain, method
