"""The only batch context of a step: which rows belong to whom, and where their caches lie."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate, chain

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
    # by the host's own lists and one tensor: with few tokens each call of torch counts
    ends = list(accumulate(lengths))
    total = ends[-1]
    parts: dict[str, list[int]] = {
        "cu_seqlens": [0, *ends],
        "positions": [at for start, rows in zip(starts, lengths, strict=True)
                      for at in range(start, start + rows)],
        "seq": [number for number, rows in enumerate(lengths) for _ in range(rows)],
        "start": starts,
        "length": lengths,
        "slot": slots,
        "last": list(range(total)) if all_rows else [end - 1 for end in ends],
    }  # fmt: skip
    widths = {span: max(map(len, rows), default=0) for span, rows in tables.items()}
    packed = [*chain.from_iterable(parts.values())]
    for span, rows in tables.items():
        for row in rows:
            packed += row
            packed += [0] * (widths[span] - len(row))
    shapes = [(len(part),) for part in parts.values()]
    shapes += [(len(rows), widths[span]) for span, rows in tables.items()]
    cut = unpacked(torch.tensor(packed, dtype=torch.int64, device=device), shapes)
    return Step(
        phase=phase,
        **dict(zip(parts, cut, strict=False)),
        tables=dict(zip(tables, cut[len(parts) :], strict=True)),
    )


def graph_inputs(
    ids: list[int], before: list[list[int]], history: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """ids [T]; with `history` the last so many ids before each sequence's rows, oldest first, -1
    before its start (the graph input of hashed n-gram tables)."""
    inputs = {"ids": torch.tensor(ids, dtype=torch.int32, device=device)}
    if history:
        rows = [([-1] * history + tokens)[-history:] for tokens in before]
        inputs["history"] = torch.tensor(rows, dtype=torch.int32, device=device)
    return inputs


def unpacked(packed: torch.Tensor, shapes: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
    """Views of one tensor, one after another, of these shapes."""
    parts = packed.split([math.prod(shape) for shape in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


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
    shaped = unpacked(packed, [tuple(tensor.shape) for tensor in tensors])
    return replace(
        step,
        **dict(zip(names, shaped, strict=False)),
        tables=dict(zip(step.tables, shaped[len(names) :], strict=True)),
    )
