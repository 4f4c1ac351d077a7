"""Collectives of a graph as calls: what a rank sends, and what it makes of what comes."""

from collections.abc import Callable, Mapping

import torch

from day0.ir.op import Op
from day0.parallel.collectives import Ranks
from day0.parallel.mesh import shares
from day0.runtime.binder import Call, Frame

Act = Callable[[Frame], None]


def all_reduce(op: Op, ranks: Ranks, dtype: torch.dtype) -> Call:
    """The sum over an axis, in the dtype of its parts; `dtype`: what it is kept in."""
    (_, x), (_, y), axis = op.inputs[0], op.outputs[0], op.attr("axis")

    def act(frame: Frame) -> None:
        frame.values[y] = ranks.all_reduce(frame.values[x], axis).to(dtype)

    return _call(op, act)


def all_gather(op: Op, ranks: Ranks, dtype: torch.dtype) -> Call:
    """The channels of an axis side by side; of equal neighbours the first."""
    (_, x), (_, y), axis = op.inputs[0], op.outputs[0], op.attr("axis")
    widths, copies = op.attr("widths"), op.attr("copies")

    def act(frame: Frame) -> None:
        whole = ranks.all_gather(frame.values[x], axis, dim=-1, sizes=widths)
        if copies > 1:
            whole = torch.cat(whole.split(widths, dim=-1)[::copies], dim=-1)
        frame.values[y] = whole.contiguous()

    return _call(op, act)


def dispatch(op: Op, ranks: Ranks, dtype: torch.dtype) -> Call:
    """Rows to the ranks of their experts, each once to every rank it needs."""
    given, came, attrs = dict(op.inputs), dict(op.outputs), dict(op.attrs)
    axis, borders = attrs["axis"], attrs["borders"]
    first, num_ranks = borders[ranks.axis(axis).place], len(borders) - 1
    end = borders[ranks.axis(axis).place + 1]

    def act(frame: Frame) -> None:
        x, experts = frame.values[given["x"]], frame.values[given["experts"]]
        weights = frame.values[given["weights"]]
        low, high = _own_rows(x.shape[0], attrs)
        chosen = experts[low:high]
        owner = torch.bucketize(chosen, _on(borders[1:-1], chosen), right=True)  # [t, k]
        wanted = torch.zeros(num_ranks, high - low, dtype=torch.bool, device=x.device)
        wanted[owner.t(), torch.arange(high - low, device=x.device)] = True
        rank_of, row = wanted.nonzero(as_tuple=True)  # by rank, then by row
        row = row + low
        send = torch.bincount(rank_of, minlength=num_ranks).tolist()
        choices = torch.cat([experts[row], weights[row].float().view(torch.int32)], dim=-1)
        rows, receive = ranks.all_to_all(x[row], axis, send)
        choices, _ = ranks.all_to_all(choices, axis, send, receive)
        numbers, scales = choices.chunk(2, dim=-1)
        elsewhere = (numbers < first) | (numbers >= end)
        frame.values[came["x"]] = rows
        frame.values[came["experts"]] = torch.where(elsewhere, -1, numbers - first)
        frame.values[came["weights"]] = scales.contiguous().view(torch.float32)
        counts = torch.tensor([*send, *receive], device=x.device)
        frame.values[came["routes"]] = torch.cat([counts, row])

    return _call(op, act)


def combine(op: Op, ranks: Ranks, dtype: torch.dtype) -> Call:
    """Results back to the ranks and rows they belong to."""
    given, (_, y), axis = dict(op.inputs), op.outputs[0], op.attr("axis")
    num_ranks = ranks.axis(axis).size

    def act(frame: Frame) -> None:
        results, routes = frame.values[given["x"]], frame.values[given["routes"]]
        counts = routes[: 2 * num_ranks].tolist()
        sent, received = counts[:num_ranks], counts[num_ranks:]
        back, _ = ranks.all_to_all(results, axis, received, sent)
        if "into" in given:
            total = frame.values[given["into"]].clone()
        else:
            total = results.new_zeros((frame.step.num_rows, *results.shape[1:]))
        # rank by rank, so that the order of a row's terms does not depend on when they came
        for part, rows in zip(back.split(sent), routes[2 * num_ranks :].split(sent), strict=True):
            total.index_add_(0, rows, part)
        frame.values[y] = total.to(dtype)

    return _call(op, act)


EXCHANGES: Mapping[str, Callable[[Op, Ranks, torch.dtype], Call]] = {
    "all_gather": all_gather,
    "all_reduce": all_reduce,
    "combine": combine,
    "dispatch": dispatch,
}


def _own_rows(count: int, attrs: Mapping[str, int]) -> tuple[int, int]:
    """The rows that this rank sends in this chunk: of those that several ranks have, its share."""
    low, high = shares(count, attrs["sharers"])[attrs["sharer"]]
    first, end = shares(high - low, attrs["chunks"])[attrs["chunk"]]
    return low + first, low + end


def _on(borders: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(borders, dtype=like.dtype, device=like.device)


def _call(op: Op, act: Act) -> Call:
    return Call(
        op=op,
        entry=f"day0.runtime.exchange:{op.family}",
        function=act,
        arguments=(("frame", lambda frame: frame),),
    )
