"""Neighbouring ops that one kernel does together become one op, which keeps its `parts`.

Each rule names the ops it starts from and what must follow; nobody else may read a value that
disappears, and no other op may use the caches in between.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from day0.ir.op import Op
from day0.passes.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """`parts` in program order become `op`, in the place of the part numbered `at`."""

    parts: tuple[Op, ...]
    op: Op
    at: int


Rule = Callable[[State], Iterator[Match]]


def fuse(state: State) -> tuple[State, tuple[str, ...]]:
    """The rules of plain formats."""
    return apply_rules(state, RULES)


def apply_rules(state: State, rules: tuple[Rule, ...]) -> tuple[State, tuple[str, ...]]:
    """Every rule once, in order."""
    changed: list[str] = []
    for rule in rules:
        users, made, gone = state.graph.users(), dict[str, Op](), set[str]()
        for match in rule(state):
            taken = {op.id for op in match.parts}
            if taken & gone or _read_elsewhere(state, match, users):
                continue  # an earlier match has one of them, or somebody else reads
            gone |= taken
            made[match.parts[match.at].id] = match.op
            changed.append(match.op.id)
        if made:
            kept = (op for op in state.graph.ops if op.id in made or op.id not in gone)
            state = state.rewritten(tuple(made.get(op.id, op) for op in kept))
    return state, tuple(changed)


def _read_elsewhere(state: State, match: Match, users: Mapping[str, tuple[Op, ...]]) -> bool:
    """Whether a value that would be gone is an output or read by another op."""
    made = {value for op in match.parts for _, value in op.outputs}
    gone = made - {value for _, value in match.op.outputs}
    readers = {op.id for value in gone for op in users.get(value, ())}
    return bool(gone & set(state.graph.outputs)) or not readers <= {op.id for op in match.parts}


def add_and_norm(state: State) -> Iterator[Match]:
    """x + residual, and the RMS norm of the sum."""
    users = state.graph.users()
    for add in state.graph.ops:
        if add.family != "add" or add.attr("scale_a") != 1.0 or add.attr("scale_b") != 1.0:
            continue
        total = add.outputs[0][1]
        norm = next((op for op in users.get(total, ()) if op.family == "rmsnorm"), None)
        if norm is None:
            continue
        named = dict(add.inputs)
        yield Match(
            parts=(add, norm),
            at=0,  # the norm reads nothing but the sum
            op=made(
                (add, norm),
                "add_rmsnorm",
                inputs=(("x", named["a"]), ("residual", named["b"])),
                outputs=(("y", norm.outputs[0][1]), ("residual_out", total)),
                weights=norm.weights,
                attrs=norm.attrs,
            ),
        )


def merge_and_norm(state: State) -> Iterator[Match]:
    """Phase 2 of an attention residual with the sum it reads and the RMS norm that reads it."""
    users, makers = state.graph.users(), state.graph.producers()
    place = {op.id: number for number, op in enumerate(state.graph.ops)}
    for merge in state.graph.ops:
        if merge.family != "attn_residual_merge":
            continue
        named, mixed = dict(merge.inputs), merge.outputs[0][1]
        add = makers.get(named["x"])
        if add is not None and (
            add.family != "add"
            or add.attr("scale_a") != 1.0
            or add.attr("scale_b") != 1.0
            or any(place[user.id] < place[merge.id] for user in users[named["x"]])
        ):
            add = None
        after = users.get(mixed, ())
        norm = after[0] if len(after) == 1 and after[0].family == "rmsnorm" else None
        if norm is not None and (norm.attr("zero_centered") or norm.attr("scale") != 1.0
                                 or not norm.weights):  # fmt: skip
            norm = None
        parts = tuple(op for op in (add, merge, norm) if op is not None)
        if len(parts) == 1:
            continue
        sources, outputs, weights = (("x", named["x"]),), (("y", mixed),), merge.weights
        attrs = dict(merge.attrs)
        if add is not None:
            terms = dict(add.inputs)
            sources = (("x", terms["a"]), ("residual", terms["b"]))
        if norm is not None:
            outputs = (("y", norm.outputs[0][1]),)
            weights = (*weights, ("norm_weight", norm.weights[0][1]))
            attrs["norm_eps"] = norm.attr("eps")
        if add is not None:
            outputs = (*outputs, ("residual_out", named["x"]))
        yield Match(
            parts=parts,
            at=parts.index(merge),
            op=made(
                parts,
                "attn_residual_merge",
                inputs=(*sources, ("mixed", named["mixed"]), ("lse", named["lse"])),
                outputs=outputs,
                weights=weights,
                attrs=tuple(sorted(attrs.items())),
            ),
        )


def kda_step(state: State) -> Iterator[Match]:
    """One token of a KDA layer between its projections: convolutions, recurrence, gated norm."""
    if state.phase != "decode":
        return
    users, makers = state.graph.users(), state.graph.producers()
    for kda in state.graph.ops:
        if kda.family != "kda":
            continue
        named = dict(kda.inputs)
        conv = makers.get(named["q"])
        after = users.get(kda.outputs[0][1], ())
        if conv is None or len(after) != 1 or after[0].family != "gated_rmsnorm":
            continue
        norm = after[0]
        fits = (
            conv.family == "merged_short_conv"
            and [value for _, value in conv.outputs] == [named[name] for name in ("q", "k", "v")]
            and dict(conv.attrs)["activation"] == "silu"
            and dict(conv.attrs)["dilation"] == 1
            and norm.attr("activation") == "sigmoid"
            and norm.attr("group") == kda.attr("value_dim")
        )
        if not fits:
            continue
        weights = dict(kda.weights)
        yield Match(
            parts=(conv, kda, norm),
            at=2,
            op=made(
                (conv, kda, norm),
                "kda_step",
                inputs=(
                    ("x", conv.inputs[0][1]),
                    ("gate", named["gate"]),
                    ("beta", named["beta"]),
                    ("norm_gate", dict(norm.inputs)["gate"]),
                ),
                outputs=(("o", norm.outputs[0][1]),),
                weights=(
                    ("conv_weight", conv.weights[0][1]),
                    ("a_log", weights["a_log"]),
                    ("dt_bias", weights["dt_bias"]),
                    ("norm_weight", norm.weights[0][1]),
                ),
                attrs=tuple(sorted((*kda.attrs, ("norm_eps", norm.attr("eps"))))),
                caches=(*conv.caches, *kda.caches),
            ),
        )


def made(parts: tuple[Op, ...], family: str, **fields) -> Op:
    """The op that `parts` become; slots and attributes in `fields`."""
    return replace(
        Op(
            id="+".join(op.id for op in parts),
            family=family,
            layer=parts[0].layer,
            because=tuple(dict.fromkeys(fact for op in parts for fact in op.because)),
            parts=parts,
            inputs=(),
            outputs=(),
        ),
        **fields,
    )


# a sum that phase 2 reads goes to it before a norm elsewhere can have it
RULES: tuple[Rule, ...] = (merge_and_norm, add_and_norm, kda_step)
