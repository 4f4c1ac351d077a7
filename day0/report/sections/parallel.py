"""The parallelism plan: what fits and is quick, what is illegal and why, how a sequence is cut."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from day0.report.numbers import gib
from day0.report.parts import (
    Cell,
    Note,
    Notes,
    Pairs,
    Part,
    Section,
    Table,
    Words,
    size,
    whole,
    word,
)
from day0.report.plot_units import tokens

COLUMNS = (
    *("mesh", "engines", "a rank holds", "weights", "caches", "activations", "bank", "workspace"),
    *("sequences", "sent a layer, prompt", "sent a layer, token", "TTFT", "TPOT", "at batch"),
    *("TPOT at batch", "tokens/s"),
)
FOLD = 12  # rows; a longer table is shown closed, the recommended ones stand above
MOST = 64  # rows; the JSON has all


def parallel(report: Mapping[str, Any]) -> Section:
    """`report["parallel"]` as tables."""
    plan = report["parallel"]
    legal = sorted(plan["legal"], key=_order)
    named = [row for row in legal if row["mesh"] in plan["recommended"].values()]
    parts: list[Part] = [Pairs(rows=tuple(_head(plan)))]
    if plan["unknown_ops"]:
        text = f"What {plan['unknown_ops']} unknown operators need, and how they may be cut, is not"
        parts.append(Words(text=f"{text} known and not counted.", tone="warn"))
    if named:
        rows = tuple(_row(row, plan) for row in named)
        parts.append(Table(name="recommended", columns=COLUMNS, rows=rows, caption="Recommended"))
    rows = tuple(_row(row, plan) for row in legal[:MOST])
    left = f" ({MOST} of {len(legal)}; the JSON has all)" if len(legal) > MOST else ""
    parts.append(
        Table(
            name="meshes",
            columns=COLUMNS,
            rows=rows,
            caption=f"Legal splits of {plan['num_gpus']} GPUs, those that fit first{left}",
            folded=len(rows) > FOLD,
        )
    )
    parts += [_illegal(plan), _degrees(plan), *_sequence(plan["sequence"])]
    lost = [f"{row['mesh']}: {told}" for row in legal for told in row["fallback"]]
    if lost:
        note = Note(
            severity="warning",
            message="These operators lose their kernel by the split",
            evidence=tuple(lost),
        )
        parts.append(Notes(items=(note,)))
    parts.append(Words(text=_stands_on(plan["assumed"]), tone="dim"))
    return Section(
        id="parallel",
        title="Parallelism plan",
        lead=f"Planned for {plan['num_gpus']} x {plan['gpu']}"
        + ("" if plan["stated"] else " (nobody named a machine: --gpu, --num-gpus)")
        + ". Times are floors at stated shares of the peaks, not measured.",
        parts=tuple(parts),
    )


def _head(plan: Mapping[str, Any]) -> Iterator[tuple[str, Cell]]:
    every, number = plan["checkpoint_in_all_gpus"], plan["num_gpus"]
    where = f"{number} GPUs, not one" if every else f"neither one GPU nor {number}"
    if plan["checkpoint_in_one_gpu"]:
        where = "one GPU"
    text = f"{plan['checkpoint_bytes'] / 1e12:,.3f} TB fits into {where}"
    yield "checkpoint as stored", word(text, tone="" if every else "bad")
    held = f"{gib(plan['gpu_memory_bytes'])}, of which {gib(plan['usable_bytes'])} are planned with"
    yield "memory of a GPU", word(held)
    for aim, name in plan["recommended"].items():
        nobody = "not judged: unknown operators" if plan["unknown_ops"] else "nothing fits"
        yield f"for {aim}", word(name or nobody, tone="good" if name else "bad", code=bool(name))
    if not plan["fits"]:
        needed = plan["gpus_needed"]
        more = f"{needed} of them have room" if needed else "no number up to 1,024 has room"
        yield "GPUs needed", word(more, tone="warn")


def _order(row: Mapping[str, Any]) -> tuple[bool, float, float]:
    told = row["predicted"]
    quick = -told["tokens_per_second"] if told else 0.0
    return not row["fits"], quick, row["memory"]["total_bytes"]


def _row(row: Mapping[str, Any], plan: Mapping[str, Any]) -> tuple[Cell, ...]:
    memory, sent, told = row["memory"], row["sent"], row["predicted"] or {}
    tone = "" if row["fits"] else "bad"
    best = row["mesh"] in plan["recommended"].values()
    return (
        word(row["mesh"], code=True, tone="good" if best else ""),
        whole(row["replicas"]),
        size(memory["total_bytes"], tone=tone),
        size(memory["weights_bytes"] + memory["aside_bytes"]),
        *(size(memory[f"{name}_bytes"]) for name in ("caches", "activations", "bank", "workspace")),
        whole(row["sequences"]),
        size(sent["prefill"]["per_layer_bytes"]),
        size(sent["decode"]["per_layer_bytes"]),
        _ms(told.get("ttft_ms")),
        _ms(told.get("tpot_ms")),
        whole(told.get("batch")),
        _ms(told.get("batch_tpot_ms")),
        _rounded(told.get("tokens_per_second")),
    )


def _ms(value: float | None) -> Cell:
    return word(None) if value is None else Cell(text=f"{value:,.3g} ms", value=value)


def _rounded(value: float | None) -> Cell:
    return word(None) if value is None else Cell(text=f"{value:,.0f}", value=value)


def _illegal(plan: Mapping[str, Any]) -> Table:
    rows = tuple(
        (word(", ".join(group["meshes"]), code=True), word("; ".join(group["reasons"])))
        for group in plan["illegal"]
    )
    return Table(
        name="illegal",
        columns=("mesh", "why not"),
        rows=rows or ((word(None), word("every split of these GPUs is legal")),),
        caption="Illegal splits",
    )


def _degrees(plan: Mapping[str, Any]) -> Table:
    rows = []
    for one in plan["tensor_parallel"]:
        legal = ", ".join(map(str, one["legal"]))
        rows.append((word(one["formats"]), word("legal", tone="good"), word(legal)))
        for refused in one["illegal"]:
            cells = word(str(refused["degree"]), tone="bad"), word("; ".join(refused["reasons"]))
            rows.append((word(one["formats"]), *cells))
    return Table(
        name="degrees",
        columns=("formats", "tensor-parallel degree", "why"),
        rows=tuple(rows),
        caption="Tensor-parallel degrees, experts cut as well",
        folded=True,
    )


def _sequence(told: Mapping[str, Any]) -> Iterator[Part]:
    yield Table(
        name="balance",
        columns=("ranks", "tokens", "contiguous", "zigzag", "interleaved"),
        rows=tuple(
            (
                whole(row["ranks"]),
                word(tokens(row["tokens"])),
                *(_times(row[name]) for name in ("contiguous", "zigzag", "interleaved")),
            )
            for row in told["balance"]
        ),
        caption="Context split: the busiest rank's causal work over the mean; blocks begin at "
        f"multiples of {told['unit_tokens']} tokens",
    )
    if told["state_passing"]:
        yield Table(
            name="state_passing",
            columns=("layers", "ranks", "states handed on", "rows moved", "at tokens",
                     "states are less from"),
            rows=tuple(_passing(told["state_passing"])),
            caption="Recurrent layers under a context split: what one rank receives a layer",
        )  # fmt: skip


def _passing(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Cell, ...]]:
    for row in rows:
        yield (
            word(f"{row['layers']} {row['family']}"),
            whole(row["ranks"]),
            size(row["state_bytes"]),
            size(row["relayout_bytes"]),
            word(tokens(row["tokens"])),
            Cell(text=f"{row['break_even']:,} tokens", value=row["break_even"]),
        )


def _times(value: float) -> Cell:
    return Cell(text=f"{value:.3f}", value=value, tone="warn" if value > 1.1 else "")


def _stands_on(assumed: Mapping[str, Any]) -> str:
    return (
        f"Assumed: {assumed['matrix']:.0%} of the matrix rate, {assumed['bandwidth']:.0%} of the "
        f"memory's and {assumed['link']:.0%} of the links' bandwidth, "
        f"{assumed['hop_seconds'] * 1e6:g} us before a collective, {assumed['usable']:.0%} of the "
        f"memory, {gib(assumed['workspace'])} of workspace; prompts of {assumed['prompt']:,} "
        f"tokens in chunks of up to {assumed['chunk']:,}, {assumed['context']:,} tokens held at "
        f"decode, {assumed['output']} produced, at most {assumed['batch']} sequences an engine. "
        "Values between ops are those of the graph before fusion. Launches, traffic of values and "
        "uneven experts are not counted. Splits are judged by arithmetic: engines differ in which "
        "of them they offer."
    )
