"""Verify steps that keep one state a sequence: updates are recorded, and those of accepted tokens
are done again.

An operator with something in slots runs on copies that live as long as its call; what it was given
is kept until it is known which tokens stay. Then it runs once more, on the slots themselves, over
the rows of those. Compared with versions a sequence holds its state once instead of once a draft
token, and a step takes a second pass over these operators.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from day0.passes.lower import Lowered
from day0.runtime.binder import Call
from day0.runtime.pools import paged
from day0.runtime.storage import Storage


def for_replay(verify: Lowered, prefill: Lowered) -> Lowered:
    """The verify step with prompts' implementations for what lies in slots: they take any number of
    rows of a sequence, and none."""
    slotted = {name for name, cache in verify.caches.items() if not paged(cache)}
    again = {op.id for op in verify.graph.ops if {use.cache for use in op.caches} & slotted}
    choices = {**verify.choices, **{name: prefill.choices[name] for name in again}}
    return replace(verify, choices=choices)


class Replay:
    """A call of a verify step in this manner. `rows`: names of arguments that have a row a token;
    `outputs` of them that are written; `kept`: buffers in slots."""

    def __init__(
        self,
        function: Callable[..., None],
        *,
        rows: set[str],
        outputs: set[str],
        kept: list[torch.Tensor],
    ) -> None:
        self._function = function
        self._rows, self._outputs = rows, outputs
        self._kept = {buffer.data_ptr(): buffer for buffer in kept}
        self._given: dict[str, Any] | None = None

    def __call__(self, **given: Any) -> None:
        self._given = given
        slots = given["slot"]
        copies = {
            name: value[slots]
            for name, value in given.items()
            if isinstance(value, torch.Tensor) and value.data_ptr() in self._kept
        }
        own = torch.arange(len(slots), dtype=slots.dtype, device=slots.device)
        self._function(**{**given, **copies, "slot": own})

    def commit(self, rows: torch.Tensor, borders: torch.Tensor) -> None:
        """Do again what tokens `rows` of the step did, in place; `borders` [N + 1] of the sequences
        among them."""
        if self._given is None:
            return
        given, self._given = self._given, None
        again = {name: _of(given[name], rows) for name in given if name in self._rows}
        again |= {name: _unread(again[name]) for name in self._outputs if name in again}
        if "cu_seqlens" in given:
            again["cu_seqlens"] = borders.to(given["cu_seqlens"].dtype)
        if "length" in given:
            again["length"] = borders.diff().to(given["length"].dtype)
        self._function(**{**given, **again})


def replayed(call: Call, storage: Storage) -> tuple[Call, Replay | None]:
    """The call for a verify step, and what commits it; None for a call that sees no slot."""
    op = call.op
    if "slot" not in dict(call.arguments):
        return call, None
    kept = [
        buffer
        for use in op.caches
        if not paged(storage.caches[use.cache]) and "w" in use.mode
        for buffer in storage.parts[use.cache].values()
    ]
    outputs = {name for slot, _ in op.outputs for name in (slot, slot.rstrip("0123456789"))}
    inputs = {name for slot, _ in op.inputs for name in (slot, slot.rstrip("0123456789"))}
    rows = {"positions", "seq", *inputs, *outputs}
    made = Replay(call.function, rows=rows, outputs=outputs, kept=kept)
    return replace(call, function=made), made


def accepted_rows(
    cu_seqlens: torch.Tensor, accepted: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(numbers of the first `accepted` rows of each sequence, their borders [N + 1])."""
    counts = torch.tensor(accepted, dtype=torch.int64, device=cu_seqlens.device)
    borders = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    shift = torch.repeat_interleave(cu_seqlens[:-1] - borders[:-1], counts)
    return torch.arange(len(shift), device=shift.device) + shift, borders


def _of(value: Any, rows: torch.Tensor) -> Any:
    if isinstance(value, list):
        return [_of(one, rows) for one in value]
    return value[rows]


def _unread(value: Any) -> Any:
    """Somewhere to write what is known already."""
    if isinstance(value, list):
        return [_unread(one) for one in value]
    return torch.empty_like(value)
