"""Products of one input become one product, and convolutions side by side one convolution.

A step with few tokens is ruled by launches and by how many bytes one of them has in flight: q, k, v
and the gates of a layer are one matrix, gate and up of a feed-forward another. The results stay
what they were, as slices of one buffer.
"""

from collections.abc import Iterator
from dataclasses import replace

from day0.ir import format as formats
from day0.ir.cache import CacheSpec
from day0.ir.op import CacheUse, Op
from day0.ir.tensor import TensorSpec
from day0.ir.weight import Cat, Tied, Weight
from day0.passes.state import State


def layout(state: State) -> tuple[State, tuple[str, ...]]:
    """Merged products, then merged convolutions of their slices."""
    state, products = _merge(state, list(_products(state)), "merged_linear")
    state, convolutions = _merge(state, list(_convolutions(state)), "merged_short_conv")
    return state, products + convolutions


def _products(state: State) -> Iterator[list[Op]]:
    """Groups of two or more linears of the same input whose weights run in one format, a quantised
    one only where they meet on the borders of its blocks."""
    users: dict[str, int] = {}
    for op in state.graph.ops:
        for _, name in op.weights:
            users[name] = users.get(name, 0) + 1
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Op]] = {}
    for op in state.graph.ops:
        if op.family != "linear" or op.attr("groups") != 1:
            continue
        own = [state.weights[name] for _, name in op.weights]
        runs = tuple(
            (slot, state.recipe.weight(w)) for (slot, _), w in zip(op.weights, own, strict=True)
        )
        mergeable = (
            not any(isinstance(weight.source, Tied) for weight in own)
            and all(weight.home == "device" and users[weight.name] == 1 for weight in own)
            and not {value for _, value in op.outputs} & set(state.graph.outputs)
        )
        if mergeable:
            groups.setdefault((op.inputs[0][1], runs), []).append(op)
    for (_, runs), group in groups.items():
        if len(group) > 1 and _on_borders(state, group, runs):
            yield group


def _on_borders(state: State, group: list[Op], runs: tuple[tuple[str, str], ...]) -> bool:
    """Whether no block of a quantised format would span two of the group's matrices: only blocks
    and tiles, whose size does not follow the matrix's."""
    for slot, name in runs:
        form = formats.get(name)
        rows = [state.weights[dict(op.weights)[slot]].spec.dims[0] for op in group[:-1]]
        border = form.borders(0)
        if form.quantised and (name == "fp8_tensor" or any(int(n) % border for n in rows)):
            return False
    return True


def _convolutions(state: State) -> Iterator[list[Op]]:
    """Runs of convolutions that read neighbouring slices of one merged product, alike in all but
    their channels."""
    place = {
        value: (op.id, number)
        for op in state.graph.ops
        if op.family == "merged_linear"
        for number, (_, value) in enumerate(op.outputs)
    }
    users = state.graph.users()
    found = [
        op
        for op in state.graph.ops
        if op.family == "short_conv"
        and len(op.weights) == 1
        and op.inputs[0][1] in place
        and len(users[op.inputs[0][1]]) == 1
        and op.inputs[0][1] not in state.graph.outputs
    ]
    found.sort(key=lambda op: place[op.inputs[0][1]])
    run: list[Op] = []
    for op in found:
        if run and not _neighbours(state, run[-1], op, place):
            yield from [run] if len(run) > 1 else []
            run = []
        run.append(op)
    yield from [run] if len(run) > 1 else []


def _neighbours(state: State, one: Op, other: Op, place: dict[str, tuple[str, int]]) -> bool:
    (mine, at), (theirs, then) = place[one.inputs[0][1]], place[other.inputs[0][1]]

    def kind(op: Op) -> tuple[object, ...]:
        cache = state.caches[op.caches[0].cache]
        weight = state.weights[op.weights[0][1]]
        plain = replace(cache, name="", parts=())
        return op.attrs, plain, cache.parts[0][1].format, weight.spec.dims[1:], weight.spec.format

    return mine == theirs and then == at + 1 and kind(one) == kind(other)


def _merge(state: State, groups: list[list[Op]], family: str) -> tuple[State, tuple[str, ...]]:
    """Every group as one op in the place of its first; its outputs keep their names."""
    ops = {op.id: op for op in state.graph.ops}  # by the id it had before
    makers = {value: op.id for op in state.graph.ops for _, value in op.outputs}
    changed, weights, caches, values = [], {}, {}, {}
    for group in groups:
        stacked = tuple((slot, _weight(state, group, slot)) for slot, _ in group[0].weights)
        weights |= {weight.name: weight for _, weight in stacked}
        widths = tuple(state.graph.values[op.outputs[0][1]].width for op in group)
        uses: tuple[CacheUse, ...] = ()
        inputs = group[0].inputs
        if family == "merged_short_conv":
            cache = _tail(state, group)
            caches[cache.name] = cache
            uses = (replace(group[0].caches[0], cache=cache.name),)
            whole = "+".join(op.inputs[0][1] for op in group)
            values[whole] = _side_by_side(state, group)
            inputs = (("x", whole),)
            maker = makers[group[0].inputs[0][1]]
            ops[maker] = _joined(ops[maker], [o.inputs[0][1] for o in group], whole)
        merged = Op(
            id="+".join(op.id for op in group),
            family=family,
            layer=group[0].layer,
            inputs=inputs,
            outputs=tuple((f"y{n}", op.outputs[0][1]) for n, op in enumerate(group)),
            weights=tuple((slot, weight.name) for slot, weight in stacked),
            caches=uses,
            attrs=tuple(sorted((*_kept(group[0]), ("widths", widths)))),
            because=tuple(dict.fromkeys(fact for op in group for fact in op.because)),
            parts=tuple(group),
        )
        ops[group[0].id] = merged
        for op in group[1:]:
            del ops[op.id]
        changed.append(merged.id)
    rewritten = state.rewritten(tuple(ops.values()), values=values, weights=weights, caches=caches)
    return rewritten, tuple(changed)


def _kept(op: Op) -> tuple[tuple[str, object], ...]:
    return tuple(pair for pair in op.attrs if op.family != "linear")


def _weight(state: State, group: list[Op], slot: str) -> Weight:
    """The group's weights of one slot stacked by rows."""
    own = [state.weights[dict(op.weights)[slot]] for op in group]
    rows = sum(int(weight.spec.dims[0]) for weight in own)
    return Weight(
        name="+".join(weight.name for weight in own),
        spec=replace(own[0].spec, dims=(rows, *own[0].spec.dims[1:])),
        role=own[0].role,
        source=Cat(of=tuple(weight.source for weight in own), dim=0),
        padding=tuple(part for weight in own for part in weight.padding),
    )


def _tail(state: State, group: list[Op]) -> CacheSpec:
    own = [state.caches[op.caches[0].cache] for op in group]
    (name, spec), *_ = own[0].parts
    width = sum(cache.elements for cache in own)
    return replace(
        own[0],
        name="+".join(cache.name for cache in own),
        parts=((name, replace(spec, dims=(width,))),),
    )


def _side_by_side(state: State, group: list[Op]) -> TensorSpec:
    specs = [state.graph.values[op.inputs[0][1]] for op in group]
    return replace(specs[0], dims=(specs[0].dims[0], sum(spec.width for spec in specs)))


def _joined(op: Op, values: list[str], whole: str) -> Op:
    """The merged product that yields `values` one after another, with one slice for them all."""
    names = [value for _, value in op.outputs]
    at = names.index(values[0])
    widths = op.attr("widths")
    assert names[at : at + len(values)] == values
    outputs = [*names[:at], whole, *names[at + len(values) :]]
    joined = (*widths[:at], sum(widths[at : at + len(values)]), *widths[at + len(values) :])
    return replace(
        op,
        outputs=tuple((f"y{number}", name) for number, name in enumerate(outputs)),
        attrs=tuple(sorted({**dict(op.attrs), "widths": joined}.items())),
    )
