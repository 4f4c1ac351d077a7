"""Prompt lookup: what followed the last few tokens when they last stood in the text. No weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from day0.runtime.request import Request
from day0.runtime.speculation import Fed, Tables
from day0.runtime.step import Step

# Tokens that must stand together: the longest match wins; single tokens match too much.
LONGEST, SHORTEST = 4, 2


@dataclass(slots=True)
class _Index:
    """Where each run of tokens last ended, of the first `read` tokens."""

    read: int = 0
    ends: dict[tuple[int, ...], int] = field(default_factory=dict)


class Lookup:
    """Drafts out of a request's own prompt and output."""

    taps: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._indexes: dict[int, _Index] = {}

    def propose(
        self, requests: Sequence[Request], counts: Sequence[int], tables: Tables
    ) -> list[tuple[int, ...]]:
        return [self._one(one, count) for one, count in zip(requests, counts, strict=True)]

    def follow(self, step: Step, fed: Sequence[Fed], tapped: Mapping[str, torch.Tensor]) -> None:
        pass

    def forget(self, request: Request) -> None:
        self._indexes.pop(request.number, None)

    def _one(self, request: Request, count: int) -> tuple[int, ...]:
        tokens = request.tokens
        index = self._indexes.setdefault(request.number, _Index())
        # the runs that end at the last token are what is looked for
        for end in range(index.read, len(tokens) - 1):
            for size in range(SHORTEST, min(LONGEST, end + 1) + 1):
                index.ends[tuple(tokens[end + 1 - size : end + 1])] = end
        index.read = max(index.read, len(tokens) - 1)
        for size in range(min(LONGEST, len(tokens) - 1), SHORTEST - 1, -1):
            end = index.ends.get(tuple(tokens[len(tokens) - size :]))
            if end is not None:
                return tuple(tokens[end + 1 : end + 1 + count])
        return ()
