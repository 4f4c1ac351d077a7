"""Attention residuals in two phases: all queries of a block read the stored blocks once.

The residual mixes of one block differ in their query and in their last source, the running sum; the
blocks stored before are the same. Phase 1 takes those of all queries together, as soon as the last
block is complete and beside the first mixer; phase 2 adds the running sum. In decode only: phase 1
keeps a row for every query, gigabytes for the rows of a prefill.

Source: arXiv 2603.15031, section 4.2.
"""

from dataclasses import replace

from day0.ir.op import Op
from day0.ir.tensor import TensorSpec
from day0.passes.state import State
from day0.registry.families.attn_residual_blocks import MOST

LEAST_SOURCES = 2  # with one stored block phase 1 saves no byte
LEAST_QUERIES = 2


def two_phase(state: State) -> tuple[State, tuple[str, ...]]:
    """A phase 1 for every block, and a phase 2 in the place of every mix; the ids of both."""
    if state.phase != "decode":
        return state, ()
    before: dict[str, Op] = {}
    merged: dict[str, Op] = {}
    values: dict[str, TensorSpec] = {}
    for group in _groups(state):
        blocks = _blocks(group)
        before[group[0].id] = blocks
        values |= _specs(state, blocks)
        merged |= {op.id: _merge(op, blocks, place) for place, op in enumerate(group)}
    if not merged:
        return state, ()
    ops: list[Op] = []
    for op in state.graph.ops:
        if op.id in before:
            ops.append(before[op.id])
        ops.append(merged.get(op.id, op))
    return state.rewritten(tuple(ops), values=values), (
        *(op.id for op in before.values()),
        *merged,
    )


def _groups(state: State) -> list[list[Op]]:
    """Mixes of the same stored blocks by the same rule, in program order."""
    groups: dict[object, list[Op]] = {}
    for op in state.graph.ops:
        if op.family == "attn_residual":
            stored = tuple(value for _, value in op.inputs[:-1])
            rows = state.graph.values[op.outputs[0][1]].dims[0]
            groups.setdefault((stored, op.attrs, rows), []).append(op)
    return [
        group
        for group in groups.values()
        if len(group) >= LEAST_QUERIES and LEAST_SOURCES < len(group[0].inputs) <= MOST + 1
    ]


def _blocks(group: list[Op]) -> Op:
    first = group[0]
    name = f"{first.id}.blocks"
    return replace(
        first,
        id=name,
        family="attn_residual_blocks",
        inputs=first.inputs[:-1],
        weights=tuple((f"query{n}", op.weights[0][1]) for n, op in enumerate(group)),
        outputs=(("mixed", f"{name}.mixed"), ("lse", f"{name}.lse")),
        because=tuple(dict.fromkeys(fact for op in group for fact in op.because)),
    )


def _merge(op: Op, blocks: Op, place: int) -> Op:
    (_, mixed), (_, lse) = blocks.outputs
    return replace(
        op,
        family="attn_residual_merge",
        inputs=(("x", op.inputs[-1][1]), ("mixed", mixed), ("lse", lse)),
        attrs=tuple(sorted((*op.attrs, ("number", place), ("norm_eps", 0.0)))),
        parts=(op,),
    )


def _specs(state: State, blocks: Op) -> dict[str, TensorSpec]:
    source = state.graph.values[blocks.inputs[0][1]]
    rows, queries = source.dims[0], len(blocks.weights)
    (_, mixed), (_, lse) = blocks.outputs
    return {
        mixed: TensorSpec(dims=(rows, queries * source.width), format=source.format),
        lse: TensorSpec(dims=(rows, queries), format="fp32"),
    }
