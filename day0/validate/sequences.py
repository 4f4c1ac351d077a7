"""The ids that checks run on, and the lengths at which something changes in a model."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from day0.errors import Day0Error
from day0.ir.cache import page_size
from day0.ir.graph import Model

# Attributes of operators that read caches which count tokens.
_COUNTS = ("top_k", "window", "block")
# Tokens a chunk of the recurrent kernels has.
KERNEL_CHUNK = 64
BEYOND = 12  # tokens after the last border
OTHERS = ((29, 9), (17, 14))  # (prompt, decoded) of the sequences beside the long one
DECODED = 16  # of the long one
LONGEST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """`ids` of which the first `prompt` are the prompt; the rest are fed one by one."""

    ids: tuple[int, ...]
    prompt: int


def borders(model: Model, *, device: str) -> dict[int, str]:
    """Numbers of tokens at which a page, pool, window, selection or kernel chunk ends: what each
    is, by the number, smallest first."""
    found: dict[int, list[str]] = {}
    main = model.graphs["main"]
    used = {use.cache for op in main.ops for use in op.caches}
    caches = [model.caches[name] for name in used]
    found.setdefault(page_size(caches), []).append("page")
    for cache in caches:
        if cache.growth == "pooled":
            found.setdefault(cache.every, []).append("pool")
        if cache.growth == "window":
            found.setdefault(cache.span, []).append("window of " + cache.role)
    for op in main.ops:
        reads = [name for name in _COUNTS if op.caches and name in dict(op.attrs)]
        for name in (*reads, *(("top_k",) if op.family == "sparse_gqa" and not reads else ())):
            value = dict(op.attrs).get(name)
            if isinstance(value, int) and value > 1:
                found.setdefault(value, []).append(f"{op.family} {name}")
    if device != "cpu":
        found.setdefault(KERNEL_CHUNK, []).append("kernel chunk")
    return {size: ", ".join(sorted(set(found[size]))) for size in sorted(found)}


def drawn(model: Model, *, device: str, seed: int, longest: int = LONGEST) -> tuple[Known, ...]:
    """Three sequences of random ids: one beyond every border (at most `longest` tokens), two short
    ones of other lengths. Day0Error where not even the short ones fit."""
    limit = min(longest, model.spec.context_length or longest)
    short = max(sum(lengths) for lengths in OTHERS)
    if limit < short:
        raise Day0Error(
            f"--max-context is {limit}; the checks need {short} tokens or more",
            hint="day0 validate MODEL --max-context 4096",
        )
    beyond = max(borders(model, device=device)) + BEYOND
    long = max(short + 1, min(limit, beyond + DECODED))
    draw = random.Random(seed)

    def one(prompt: int, decoded: int) -> Known:
        vocab = model.spec.vocab_size
        ids = tuple(draw.randrange(vocab) for _ in range(prompt + decoded))
        return Known(ids=ids, prompt=prompt)

    return (one(long - DECODED, DECODED), *(one(*lengths) for lengths in OTHERS))


def cuts(length: int, found: Sequence[int]) -> list[tuple[int, ...]]:
    """Ways to cut a prompt of `length`: at, before and behind each border, and in small odd pieces
    (shorter than a convolution, then longer ones)."""
    ways = [(size - 1, 1, 1) if size > 1 else (1, 1) for size in found if size + 2 <= length]
    odd, pieces = [1, 2, 3, 5, 8, 13, 21], list[int]()
    while sum(pieces) < min(length, sum(odd)):
        pieces.append(odd[len(pieces)])
    return [*ways, tuple(pieces)]
