"""Known sequences through the engine: what any step gave is recorded, and the next token is the
sequence's own, whatever the logits say."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch

from day0.runtime.capture import Padding
from day0.runtime.engine import Engine
from day0.runtime.pools import Limits
from day0.runtime.prefix import PrefixCache
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session
from day0.runtime.sharing import Places
from day0.runtime.speculation import Drafts, Speculation
from day0.runtime.step import Step
from day0.validate.direct import CPU, Look, Owner, Rows, record
from day0.validate.sequences import Known


class Served:
    """An engine over a session's caches. `padded_to`: every decode step is padded to so many
    rows, as for CUDA graphs, and before it the padding alone is run, as while one is captured.
    `eager`: without graphs. `prefix_bytes`: what may be kept of texts that were served, with a
    state at every page."""

    def __init__(
        self,
        session: Session,
        sequences: Mapping[int, Known],
        *,
        limits: Limits | None = None,
        look: Look | None = None,
        padded_to: int = 0,
        eager: bool = True,
        prefix_bytes: int = 0,
    ) -> None:
        self.session = session
        self.sequences = sequences
        self.limits = limits or session.limits
        self.rows: Rows = {number: {} for number in sequences}
        self.requests: dict[int, Request] = {}
        self._look = look
        self._padded = padded_to
        self._eager = eager
        places = Places((session.storage,))
        prefix = partial(
            PrefixCache, places, tuple(session.storage.caches.values()),
            page_size=self.limits.page_size, budget=prefix_bytes, interval=1,
        )  # fmt: skip
        self._engine = Engine(
            self._run, self.limits, CPU, history=session.history, places=places,
            prefix=prefix if prefix_bytes else None,
        )  # fmt: skip

    def draft(self, make: Callable[[Callable[[Request], Sequence[int]]], Drafts]) -> None:
        """Let verify steps check what is drafted; `make` is told how to find a request's text."""

        def text(request: Request) -> Sequence[int]:
            numbers = {one.number: number for number, one in self.requests.items()}
            return self.sequences[numbers[request.number]].ids

        drafts = self.limits.drafts
        self._engine.speculation = Speculation(make(text), drafts, "known texts")

    def serve(self, numbers: Sequence[int]) -> Rows:
        """All of them, in this order, until each is at its end."""
        for number in numbers:
            one = self.sequences[number]
            sampling = Sampling(max_new_tokens=len(one.ids) - one.prompt + 1)
            self.requests[number] = self._engine.add(one.ids[: one.prompt], sampling)
        for _ in self._engine.serve():
            pass
        return self.rows

    @property
    def preemptions(self) -> int:
        return sum(request.preemptions for request in self.requests.values())

    def _run(self, step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        owners = self._owners(step)
        if step.phase == "verify":
            whole, owners = owners, self._right(owners, inputs["ids"].tolist())
        else:
            whole = owners
        session, look, width = self.session, self._look, step.num_rows
        if self._padded and step.phase == "decode":
            step, inputs = self._with_padding(step, inputs)
        watch = None
        if look is not None:
            watch = lambda call, frame: look(call, frame, owners)
        elif self._eager:
            watch = lambda call, frame: None
        found = session.run(step, inputs, watch=watch)[session.logits_name]
        found = found[:width] if step.phase == "decode" else found
        verify = step.phase == "verify"
        record(self.rows, found, owners, whole=verify)
        forced = torch.zeros_like(found)
        for row, owner in enumerate(whole):
            ids = self.sequences[owner.number].ids
            # rows of one sequence: its last alone, or all
            places = range(owner.length) if verify else (owner.length - 1,)
            for place in places:
                at = owner.start + place + 1
                forced[owner.first + place if verify else row, ids[at] if at < len(ids) else 0] = 1
        return forced

    def _right(self, owners: Sequence[Owner], ids: Sequence[int]) -> tuple[Owner, ...]:
        """Of a verify step the rows whose tokens are the sequences' own."""
        found = []
        for owner in owners:
            fed = ids[owner.first : owner.first + owner.length]
            own = self.sequences[owner.number].ids[owner.start : owner.start + owner.length]
            pairs = zip(fed, own, strict=False)
            right = next((at for at, (one, other) in enumerate(pairs) if one != other), len(own))
            found.append(replace(owner, length=right))
        return tuple(found)

    def _owners(self, step: Step) -> tuple[Owner, ...]:
        at = {request.slot: request for request in self._engine.running}
        number_of = {request.number: number for number, request in self.requests.items()}
        return tuple(
            Owner(number=number_of[at[slot].number], start=start, first=first, length=length)
            for slot, start, first, length in zip(
                step.slot.tolist(),
                step.start.tolist(),
                step.cu_seqlens.tolist(),
                step.length.tolist(),
                strict=False,
            )
        )

    def _with_padding(
        self, step: Step, inputs: Mapping[str, torch.Tensor]
    ) -> tuple[Step, dict[str, torch.Tensor]]:
        rows = self._padded
        widths = {span: table.shape[1] + 1 for span, table in step.tables.items()}
        padding = Padding(rows, widths, CPU)
        buffers = {
            name: torch.zeros(rows, *value.shape[1:], dtype=value.dtype)
            for name, value in inputs.items()
        }
        self.session.run(padding.step, buffers, watch=lambda call, frame: None)
        padding.fill(step)
        for name, value in inputs.items():
            buffers[name][: len(value)] = value
        return padding.step, buffers
