"""Verify steps: several tokens a sequence of which some may not stay.

Pages need no care: entries of rejected tokens lie behind the sequence's end, where no step reads,
and are written again when a token comes to their place. What lies in slots has absorbed every token
of the step, so that it is kept behind each of them: version j of a slot is its content after the
step's token j. The sequence goes on from the version of its last accepted token; nothing is copied
back. (The other way, to record each token's update and replay those that stay, takes less memory
and holds a second form of every operator with a state.)
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch

from day0.ir.op import Op
from day0.runtime.binder import Call, Getter
from day0.runtime.pools import paged
from day0.runtime.storage import Storage

# Arguments of the Step by what they say of a token's own step of one row a sequence.
_OF_ROWS = ("positions", "seq")


def keeps_versions(entry: str) -> bool:
    """Whether an implementation writes the version of every token itself."""
    module, _, name = entry.partition(":")
    return "version" in inspect.signature(getattr(import_module(module), name)).parameters


def by_version(op: Op, storage: Storage) -> dict[str, Getter]:
    """What such an implementation takes: slotted parts as [slots, versions, ...], `slot` [N] and
    the `version` [N] that holds the sequence's state."""
    count = storage.versions
    offers: dict[str, Getter] = {
        "slot": lambda frame: frame.step.slot // count,
        "version": lambda frame: frame.step.slot % count,
    }
    for use, part, buffer in _slotted(op, storage):
        shaped = buffer.unflatten(0, (-1, count))
        for name in (part, f"{use}_{part}"):
            offers[name] = lambda frame, shaped=shaped: shaped
    return offers


def stepped(call: Call, storage: Storage) -> Call:
    """The call of an implementation that knows no versions, for a verify step: one token after
    another, each in a version of its own. Calls that see no slot stay as they are."""
    op = call.op
    if "slot" not in dict(call.arguments):
        return call
    kept = [buffer for _, _, buffer in _slotted(op, storage, written=True)]
    slots = [slot for slot, _ in (*op.inputs, *op.outputs)]
    rows = {*_OF_ROWS, *slots, *(slot.rstrip("0123456789") for slot in slots)}
    function = _token_by_token(call.function, rows, kept, storage.versions)
    return replace(call, function=function)


def _slotted(
    op: Op, storage: Storage, *, written: bool = False
) -> list[tuple[str, str, torch.Tensor]]:
    """(slot of the op, part, buffer) of its caches in slots."""
    return [
        (use.slot, part, buffer)
        for use in op.caches
        if not paged(storage.caches[use.cache]) and ("w" in use.mode or not written)
        for part, buffer in storage.parts[use.cache].items()
    ]


def _token_by_token(
    function: Callable[..., None], rows: set[str], kept: list[torch.Tensor], versions: int
) -> Callable[..., None]:
    def call(**given: Any) -> None:
        before, start = given["slot"], given.get("start")
        tensor = next(_first(given[name]) for name in given if name in rows)
        sequences = before.shape[0]
        first = before - before % versions
        for j in range(tensor.shape[0] // max(sequences, 1)):
            for buffer in kept:
                buffer[first + j] = buffer[before]
            before = first + j
            own = {name: _every(given[name], j, sequences) for name in given if name in rows}
            own["slot"] = before
            if start is not None:
                own["start"] = start + j
            if "length" in given:
                own["length"] = torch.ones_like(given["length"])
            if "cu_seqlens" in given:
                own["cu_seqlens"] = torch.arange(
                    sequences + 1, dtype=given["cu_seqlens"].dtype, device=before.device
                )
            function(**{**given, **own})

    return call


def _first(value: Any) -> torch.Tensor:
    return value[0] if isinstance(value, list) else value


def _every(value: Any, token: int, sequences: int) -> Any:
    """Of rows [N * m, ...] those of token `token` of every sequence, in place."""
    if isinstance(value, list):
        return [_every(one, token, sequences) for one in value]
    return value.unflatten(0, (sequences, -1))[:, token]
