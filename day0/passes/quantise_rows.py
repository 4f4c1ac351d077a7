"""Rows that meet FP8 weights become FP8 once, for all products that read them, and as part of the
norm or activation that makes them.

A product whose weight is held as codes quantises its rows itself: a launch and a trip to memory for
each of them, here left out. Runs after `hold`, which says what is held.
"""

from collections.abc import Iterator
from dataclasses import replace

from day0.ir.op import Op
from day0.ir.tensor import TensorSpec
from day0.passes.fuse import Match, apply_rules, made
from day0.passes.state import State
from day0.registry.families.quant import TILE
from day0.registry.families.rmsnorm_quant import MOST

# The weight that asks for FP8 rows, by family, and the format of its blocks.
READERS = {"linear": "weight", "merged_linear": "weight", "experts": "gate"}
BLOCKS = "fp8_b128"


def quantise_rows(state: State) -> tuple[State, tuple[str, ...]]:
    """A `quant` op before the first reader of each value; then fused with what makes the value."""
    state, added = _with_quant(state)
    state, fused = apply_rules(state, RULES)
    left = {op.id for op in state.graph.ops}
    return state, tuple(name for name in (*added, *fused) if name in left)


def _with_quant(state: State) -> tuple[State, tuple[str, ...]]:
    ops: list[Op] = []
    values: dict[str, TensorSpec] = {}
    added: dict[str, Op] = {}
    for op in state.graph.ops:
        if _reads_fp8(state, op):
            x = dict(op.inputs)["x"]
            if x not in added:
                values |= _specs(x, state.graph.values[x])
                added[x] = Op(
                    id=f"{x}.quant",
                    family="quant",
                    layer=op.layer,
                    inputs=(("x", x),),
                    outputs=(("q", f"{x}.q"), ("scale", f"{x}.q_scale")),
                )
                ops.append(added[x])
            others = tuple(pair for pair in op.inputs if pair[0] != "x")
            op = replace(op, inputs=(("x", f"{x}.q"), *others, ("x_scale", f"{x}.q_scale")))
        ops.append(op)
    state = state.rewritten(tuple(ops), values=values)
    return state, tuple(op.id for op in added.values())


def _reads_fp8(state: State, op: Op) -> bool:
    name = dict(op.weights).get(READERS.get(op.family, ""), "")
    return name in state.held.weights and state.recipe.weight(state.weights[name]) == BLOCKS


def _specs(x: str, spec: TensorSpec) -> dict[str, TensorSpec]:
    rows = spec.dims[0]
    return {
        f"{x}.q": TensorSpec(dims=(rows, spec.width), format="fp8_e4m3"),
        f"{x}.q_scale": TensorSpec(dims=(rows, -(-spec.width // TILE)), format="fp32"),
    }


def norm_and_quant(state: State) -> Iterator[Match]:
    """An RMS norm of whole rows, with or without a sum before it. Who else reads the norm still
    does."""
    users = state.graph.users()
    for norm in state.graph.ops:
        if norm.family not in ("rmsnorm", "add_rmsnorm"):
            continue
        width = state.graph.values[norm.inputs[0][1]].width
        named = dict(norm.outputs)
        quant = _quant_of(users, named["y"])
        if quant is None or norm.attr("group") not in (0, width) or width > MOST:
            continue
        read = named["y"] in state.graph.outputs or len(users[named["y"]]) > 1
        outputs = (*_fp8(quant), *((("y", named["y"]),) if read else ()))
        if norm.family == "add_rmsnorm":
            outputs = (*outputs, ("residual_out", named["residual_out"]))
        yield Match(
            parts=(norm, quant),
            at=0,
            op=made(
                (norm, quant),
                "rmsnorm_quant",
                inputs=norm.inputs,
                outputs=outputs,
                weights=norm.weights,
                attrs=tuple(pair for pair in norm.attrs if pair[0] != "group"),
            ),
        )


def glu_and_quant(state: State) -> Iterator[Match]:
    """A gated activation that nobody else reads."""
    users = state.graph.users()
    for glu in state.graph.ops:
        if glu.family != "glu":
            continue
        quant = _quant_of(users, glu.outputs[0][1])
        if quant is not None:
            yield Match(
                parts=(glu, quant),
                at=0,
                op=made(
                    (glu, quant),
                    "glu_quant",
                    inputs=glu.inputs,
                    outputs=_fp8(quant),
                    attrs=glu.attrs,
                ),
            )


def _quant_of(users: dict[str, tuple[Op, ...]], value: str) -> Op | None:
    return next((op for op in users.get(value, ()) if op.family == "quant"), None)


def _fp8(quant: Op) -> tuple[tuple[str, str], ...]:
    named = dict(quant.outputs)
    return ("q", named["q"]), ("q_scale", named["scale"])


RULES = (norm_and_quant, glu_and_quant)
