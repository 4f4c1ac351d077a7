"""Drafts that another program computes: the model's own MTP layer, or a smaller model.

It follows every step of the model, over caches of its own under the same page tables and slots, so
that it knows each sequence up to its last accepted token; then it goes on by itself, one token a
step, and takes what it keeps in slots back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from day0.runtime.pools import paged
from day0.runtime.request import Request
from day0.runtime.sampling import next_token
from day0.runtime.session import Session
from day0.runtime.speculation import Fed, Tables
from day0.runtime.step import Step, graph_inputs, make_step

CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Behind a sequence's last accepted token: `logits` [V] of the first draft and the `hidden`
    row [H] that the next one is made from."""

    logits: torch.Tensor
    hidden: torch.Tensor


class Follower:
    """Drafts of `session`, whose limits are the model's. `tap`: the model's hidden rows, which an
    MTP layer joins with the embedding of the token that came next ("": a model of its own, which
    reads tokens alone). `vocab`: ids the model knows."""

    def __init__(self, session: Session, *, vocab: int, tap: str = "") -> None:
        self.taps = (tap,) if tap else ()
        self._session = session
        self._vocab = vocab
        self._ahead = len(self.taps)  # an MTP layer reads the ids one place further on
        self._seen: dict[int, _Seen] = {}

    def follow(self, step: Step, fed: Sequence[Fed], tapped: Mapping[str, torch.Tensor]) -> None:
        """The same rows. What was rejected is cut off by the next step's positions and version."""
        ids: list[int] = []
        for one in fed:
            begin = one.start + self._ahead
            own = one.request.tokens[begin : begin + one.rows]
            ids += own + [0] * (one.rows - len(own))
        before = [one.request.tokens[: one.start] for one in fed]
        hidden = tapped[self.taps[0]] if self.taps else None
        found = self._session.run(step, self._inputs(ids, before, hidden))
        if step.phase == "verify" and self._session.limits.replay:
            self._session.commit(step, [one.request.done - one.start for one in fed])
        if not self.taps:
            return
        logits, rows = self._outputs(found)
        assert rows is not None, "an MTP layer yields hidden rows"
        first = 0
        for number, one in enumerate(fed):
            at = first + one.request.done - one.start - 1
            first += one.rows
            if one.request.pending == 1 and not one.request.finish:
                row = at if len(logits) == len(ids) else number
                seen = _Seen(logits=logits[row].clone(), hidden=rows[at].clone())
                self._seen[one.request.number] = seen

    def propose(
        self, requests: Sequence[Request], counts: Sequence[int], tables: Tables
    ) -> list[tuple[int, ...]]:
        places = [
            number
            for number, (one, count) in enumerate(zip(requests, counts, strict=True))
            if count and (not self.taps or one.number in self._seen)
        ]
        found: list[tuple[int, ...]] = [()] * len(requests)
        if places:
            own = [requests[number] for number in places]
            under = {span: [rows[at] for at in places] for span, rows in tables.items()}
            drafts = self._chain(own, max(counts), under)
            for number, tokens in zip(places, drafts, strict=True):
                found[number] = tuple(tokens)
        return found

    def forget(self, request: Request) -> None:
        self._seen.pop(request.number, None)

    def _chain(self, requests: list[Request], count: int, tables: Tables) -> list[list[int]]:
        drafts: list[list[int]] = [[] for _ in requests]
        slots = [one.slot for one in requests]
        states = self._states(slots)
        logits, hidden = None, None
        if self.taps:
            seen = [self._seen[one.number] for one in requests]
            logits = torch.stack([one.logits for one in seen])
            hidden = torch.stack([one.hidden for one in seen])
        for number in range(count):
            if number or logits is None:
                step = make_step(
                    "decode",
                    starts=[one.done + number - self._ahead for one in requests],
                    lengths=[1] * len(requests),
                    slots=slots,
                    tables=dict(tables),
                    device=CPU,
                )
                texts = [one.tokens + own for one, own in zip(requests, drafts, strict=True)]
                ids = [text[-1] for text in texts]
                inputs = self._inputs(ids, [text[:-1] for text in texts], hidden)
                logits, hidden = self._outputs(self._session.run(step, inputs))
            for own, token in zip(drafts, self._drawn(logits, requests, number), strict=True):
                own.append(token)
        for buffer, kept in states:
            buffer[slots] = kept
        return drafts

    def _states(self, slots: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Everything in slots with a copy of these sequences' part: drafts go on in place."""
        caches = self._session.storage.caches
        return [
            (part, part[slots])
            for cache, parts in self._session.storage.parts.items()
            if not paged(caches[cache])
            for part in parts.values()
        ]

    def _drawn(self, logits: torch.Tensor, requests: list[Request], number: int) -> list[int]:
        """The draft number `number` of each, with the noise that the model's own draw will use."""
        logits = logits[:, : self._vocab]
        greedy = logits.argmax(-1).tolist()
        return [
            next_token(
                row, one.sampling, position=len(one.tokens) + number,
                produced=one.num_produced + number,
            )
            if one.sampling.temperature
            else token
            for row, one, token in zip(logits, requests, greedy, strict=True)
        ]  # fmt: skip

    def _inputs(
        self, ids: list[int], before: list[list[int]], hidden: torch.Tensor | None
    ) -> dict[str, torch.Tensor]:
        if hidden is not None:
            return {"next_ids": torch.tensor(ids, dtype=torch.int32), "hidden": hidden}
        history = self._session.history
        largest = self._session.model.spec.vocab_size - 1  # of equal tokenizers, padded otherwise
        ids = [min(token, largest) for token in ids]
        return graph_inputs(ids, before if history else [], history, CPU)

    def _outputs(
        self, found: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """(logits, the hidden rows that an MTP layer hands on)."""
        names = self._session.lowered["decode"].graph.outputs
        return found[names[0]], found[names[1]] if self.taps else None
