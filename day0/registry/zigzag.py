"""Context parallelism as arithmetic: who holds which tokens, how the work balances, what is sent.

Layouts of T tokens over n ranks: "contiguous" (rank r the r-th block), "zigzag" (2n blocks, rank r
the r-th and the r-th from the end) and "interleaved" (token i on rank i % n). One token of causal
work is one earlier token looked at, itself included: what dense attention and index scores do.
Recurrent layers need their segments in order: states are handed on (`state_bytes`), or the hidden
values are moved to a contiguous layout and back (`relayout_bytes`).
"""

import math

LAYOUTS = ("contiguous", "zigzag", "interleaved")
Span = tuple[int, int, int]  # first token, end (not held), step


def spans(layout: str, num_tokens: int, n: int, align: int = 1) -> tuple[tuple[Span, ...], ...]:
    """For every rank the spans of tokens it holds, in order.

    Blocks begin at multiples of `align` (chunks, pools, pages) and differ by one such unit at most,
    but for the very last token's, which may be cut short. ValueError for an unknown layout.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"no layout {layout!r} (there are: {', '.join(LAYOUTS)})")
    if layout == "interleaved":
        return tuple(((rank, num_tokens, n),) for rank in range(n))
    blocks = n if layout == "contiguous" else 2 * n
    units = math.ceil(num_tokens / align)
    borders = [min(i * units // blocks * align, num_tokens) for i in range(blocks + 1)]
    every = [(first, end, 1) for first, end in zip(borders, borders[1:], strict=False)]
    if layout == "contiguous":
        return tuple((span,) for span in every)
    return tuple((every[rank], every[blocks - 1 - rank]) for rank in range(n))


def causal_work(held: tuple[Span, ...]) -> int:
    """Earlier tokens, themselves included, that the tokens of these spans look at."""
    total = 0
    for first, end, step in held:
        count = len(range(first, end, step))
        total += count * (first + 1) + step * count * (count - 1) // 2
    return total


def imbalance(layout: str, num_tokens: int, n: int, align: int = 1) -> float:
    """The busiest rank's causal work over the mean: 1 is even, contiguous tends to 2 - 1/n."""
    work = [causal_work(held) for held in spans(layout, num_tokens, n, align)]
    return max(work) * n / sum(work)


def state_bytes(transition: int, layout: str, n: int, element: int = 4) -> int:
    """Bytes one rank receives so that every segment of a layer learns its first state: all maps
    (A, B) of all segments, gathered in order and chained; `transition` their elements, fp32.

    Interleaved tokens have no segments: ValueError.
    """
    if layout == "interleaved":
        raise ValueError("interleaved tokens have no segments to hand a state between")
    return (n if layout == "contiguous" else 2 * n) * transition * element


def relayout_bytes(num_tokens: int, hidden: int, n: int, element: int = 2) -> int:
    """Bytes one rank moves to bring a layer's hidden values into order and back."""
    return 2 * math.ceil(num_tokens / n) * hidden * element


def break_even(transition: int, hidden: int, layout: str, n: int) -> int:
    """Tokens from which on handing states costs less than moving hidden values."""
    return math.ceil(state_bytes(transition, layout, n) * n / (2 * hidden * 2))


def halo_tokens(held: tuple[Span, ...], taps: int) -> tuple[int, ...]:
    """Tokens before its own that a causal convolution of `taps` taps makes a rank ask others for.

    Blocks may be shorter than the taps: then they come from more than one neighbour.
    """
    asked: set[int] = set()
    for first, end, step in held:
        starts = range(first, end, step) if step > 1 else range(first, end)[:1]
        for start in starts:
            asked.update(range(max(0, start - taps + 1), start))
    return tuple(sorted(token for token in asked if not _holds(held, token)))


def _holds(held: tuple[Span, ...], token: int) -> bool:
    return any(token in range(first, end, step) for first, end, step in held)
