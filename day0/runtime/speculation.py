"""Speculative decoding: drafts of the next tokens, which one step of the model checks together.

A sequence's verify step has the token that comes next and its drafts. Behind each of them the
model's own token is drawn as without drafts: with the request's sampling, from the noise of its
position. Drafts that equal it stay, the first that does not is replaced by it. So the output is the
one that decoding without drafts gives, token for token, greedy or sampled, and a draft x stays with
the probability p(x) that the model gives it: rejection sampling (arXiv:2211.17192) for drafts that
are certain. Sources draw their drafts with the same noise, which makes equal distributions agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from day0.runtime.request import Request
from day0.runtime.step import Step

Tables = Mapping[int, list[list[int]]]
# Drafted tokens after which none accepted is a fault and no bad luck.
SUSPICIOUS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """One sequence of a step that ran: its `rows` tokens from position `start` on. Those up to
    `request.done` stay; the rest were rejected."""

    request: Request
    start: int
    rows: int


class Drafts(Protocol):
    """Where drafts come from. `taps`: values of the model's graph that `follow` wants to see."""

    taps: tuple[str, ...]

    def propose(
        self, requests: Sequence[Request], counts: Sequence[int], tables: Tables
    ) -> list[tuple[int, ...]]:
        """Up to `counts` tokens for each request, behind those it has. `tables`: by span the pages
        of each, which reach as far as the drafts."""
        ...

    def follow(self, step: Step, fed: Sequence[Fed], tapped: Mapping[str, torch.Tensor]) -> None:
        """See a step of the model, after its tokens were drawn."""
        ...

    def forget(self, request: Request) -> None:
        """A request has left, or will come again from its beginning."""
        ...


@dataclass(slots=True)
class Tally:
    """`drafted` and `accepted` tokens by place in the draft; `steps`: sequences of verify steps
    that had drafts; `plain`: those without, and of decode steps."""

    source: str
    drafted: list[int]
    accepted: list[int]
    steps: int = 0
    plain: int = 0

    @classmethod
    def of(cls, source: str, num: int) -> "Tally":
        return cls(source, [0] * num, [0] * num)

    def count(self, drafted: int, accepted: int) -> None:
        """One sequence of a verify step."""
        self.steps += drafted > 0
        self.plain += drafted == 0
        for place in range(drafted):
            self.drafted[place] += 1
            self.accepted[place] += place < accepted

    def figures(self) -> dict[str, object]:
        """By the names of `vllm bench serve`; rates are shares, None without any draft."""
        drafted, accepted = sum(self.drafted), sum(self.accepted)
        length = 1 + accepted / self.steps if self.steps else None
        return {
            "accepted_length": length,
            "spec_decode_num_drafts": self.steps,
            "spec_decode_draft_tokens": drafted,
            "spec_decode_accepted_tokens": accepted,
            "spec_decode_acceptance_length": length,
            "spec_decode_acceptance_rate": accepted / drafted if drafted else None,
            "spec_decode_per_position_acceptance_rates": [
                count / self.steps if self.steps else None for count in self.accepted
            ],
        }

    @property
    def warning(self) -> str:
        """Acceptance near 0 is a fault of weights or wiring (field case of a lost scale)."""
        drafted = sum(self.drafted)
        if drafted < SUSPICIOUS or sum(self.accepted):
            return ""
        return (
            f"none of {drafted} drafted tokens was accepted: weights or wiring of the draft "
            f"({self.source}) are wrong, or it knows nothing of this text; the output is right"
        )


class Speculation:
    """What an engine asks: `num` drafts at most a step, from `drafts`, counted in `tally`."""

    def __init__(self, drafts: Drafts, num: int, source: str) -> None:
        self.num = num
        self.tally = Tally.of(source, num)
        self._drafts = drafts
        self._tapped: dict[str, torch.Tensor] = {}

    def propose(self, requests: Sequence[Request], tables: Tables) -> list[tuple[int, ...]]:
        """Drafts of each request, none beyond its last token: that one is the model's own."""
        counts = [
            max(min(self.num, one.sampling.max_new_tokens - one.num_produced - 1), 0)
            for one in requests
        ]
        if not any(counts):
            return [()] * len(requests)
        found = self._drafts.propose(requests, counts, tables)
        return [tokens[:count] for tokens, count in zip(found, counts, strict=True)]

    def saw(self, outputs: Mapping[str, torch.Tensor]) -> None:
        """Keep what the source asked to see of the step that just ran."""
        self._tapped = {name: outputs[name] for name in self._drafts.taps}

    def follow(self, step: Step, fed: Sequence[Fed], drafted: Sequence[int]) -> None:
        """A step ran; `drafted` tokens of each sequence were checked in it."""
        for one, count in zip(fed, drafted, strict=True):
            if step.phase != "prefill":
                self.tally.count(count, one.request.done - one.start - 1)
        self._drafts.follow(step, fed, self._tapped)

    def forget(self, request: Request) -> None:
        self._drafts.forget(request)
