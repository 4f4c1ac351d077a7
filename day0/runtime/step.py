"""The only batch context of a step: which rows belong to whom, and where their caches lie."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """T rows of N sequences, one after another.

    `cu_seqlens` [N+1] row borders; `positions` [T] absolute; `seq` [T] sequence number of a row;
    `start` [N] tokens before this step; `length` [N] rows of this step; `slot` [N] state slots;
    `last` row numbers whose logits are wanted: each sequence's last row, or all;
    `tables`: per span of pages (0: all tokens, W: a window of W) the page table [N, pages], page 0
    owned by nobody.
    """

    phase: str
    cu_seqlens: torch.Tensor
    positions: torch.Tensor
    seq: torch.Tensor
    start: torch.Tensor
    length: torch.Tensor
    slot: torch.Tensor
    last: torch.Tensor
    tables: dict[int, torch.Tensor] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        return self.positions.shape[0]

    @property
    def num_sequences(self) -> int:
        return self.start.shape[0]


def make_step(
    phase: str,
    *,
    starts: list[int],
    lengths: list[int],
    slots: list[int],
    tables: dict[int, list[list[int]]],
    device: torch.device,
    all_rows: bool = False,
) -> Step:
    """The Step of sequences that have `starts` tokens behind them and bring `lengths` rows;
    `all_rows`: logits of every row, not only of each sequence's last."""
    start = torch.tensor(starts, dtype=torch.int64)
    length = torch.tensor(lengths, dtype=torch.int64)
    ends = length.cumsum(0)
    cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), ends])
    seq = torch.repeat_interleave(torch.arange(len(starts)), length)
    positions = torch.arange(int(ends[-1])) - cu_seqlens[seq] + start[seq]

    def table(rows: list[list[int]]) -> torch.Tensor:
        width = max(map(len, rows), default=0)
        return torch.tensor([row + [0] * (width - len(row)) for row in rows], dtype=torch.int64)

    step = Step(
        phase=phase,
        cu_seqlens=cu_seqlens,
        positions=positions,
        seq=seq,
        start=start,
        length=length,
        slot=torch.tensor(slots, dtype=torch.int64),
        last=torch.arange(int(ends[-1])) if all_rows else ends - 1,
        tables={span: table(rows) for span, rows in tables.items()},
    )
    return placed(step, device)


def widened(step: Step, widths: Mapping[int, int]) -> Step:
    """The step with page tables of at least these widths, by span; padding is page 0."""
    return replace(
        step,
        tables={
            span: torch.nn.functional.pad(table, (0, max(widths[span] - table.shape[1], 0)))
            for span, table in step.tables.items()
        },
    )


def placed(step: Step, device: torch.device) -> Step:
    """The step on the device by one copy: with few tokens the number of copies rules."""
    if step.positions.device.type == device.type:
        return step
    names = [field.name for field in fields(step) if field.name not in ("phase", "tables")]
    tensors = [*(getattr(step, name) for name in names), *step.tables.values()]
    packed = torch.cat([tensor.flatten() for tensor in tensors]).to(device)
    parts = packed.split([tensor.numel() for tensor in tensors])
    shaped = [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
    return replace(
        step,
        **dict(zip(names, shaped, strict=False)),
        tables=dict(zip(step.tables, shaped[len(names) :], strict=True)),
    )
