"""Rows nobody needs: what only the logits read is computed for the last row of each sequence.

`take_rows` moves from the end of the graph towards its beginning, past every op whose rows do not
see each other, to the last ops that mix them (attention, recurrences, convolutions). In decode
every row is the last one of its sequence and nothing is taken.
"""

from dataclasses import replace

from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.ir.rows import LAST, TOKENS
from day0.ir.tensor import TensorSpec
from day0.passes.state import State
from day0.registry.index import family


def narrow(state: State) -> tuple[State, tuple[str, ...]]:
    """The graph with fewer rows, and the ids of the ops that have fewer.

    The values that `take_rows` gave keep their names; a value that is now made for fewer rows is
    called `<name>.last`.
    """
    graph = state.graph
    taken = {op.outputs[0][1]: op.inputs[0][1] for op in graph.ops if _takes(op)}
    if not taken:
        return state, ()
    if state.phase == "prefill":
        changed = _narrowable(graph)
        graph = _moved(graph, taken, changed) if changed else graph
    else:
        graph, changed = _renamed(graph, taken)
    return replace(state, graph=graph), changed


def _takes(op: Op) -> bool:
    return op.family == "take_rows" and op.attr("rows") == LAST.name


def _narrowable(graph: Graph) -> tuple[str, ...]:
    """Ids of row-wise ops all of whose users are narrowed, in program order."""
    users, fewer = graph.users(), set[str]()
    for op in reversed(graph.ops):
        if not family(op.family).rowwise or _takes(op):
            continue
        values = [value for _, value in op.outputs]
        readers = [user for value in values for user in users.get(value, ())]
        wanted = all(_takes(user) or user.id in fewer for user in readers)
        if readers and wanted and not set(values) & set(graph.outputs):
            fewer.add(op.id)
    return tuple(op.id for op in graph.ops if op.id in fewer)


def _moved(graph: Graph, taken: dict[str, str], fewer: tuple[str, ...]) -> Graph:
    """`take_rows` in front of the ops of `fewer` instead of behind them."""
    made = {value for op in graph.ops if op.id in fewer for _, value in op.outputs}
    last = {x: y for y, x in taken.items()}  # value -> what stands for its last rows
    pattern = next(op for op in graph.ops if _takes(op))
    ops: list[Op] = []
    for op in graph.ops:
        if _takes(op) and op.inputs[0][1] in made:
            continue  # its output is computed as such
        if op.id not in fewer:
            ops.append(op)
            continue
        for _, value in op.inputs:
            if value not in made and value not in last:
                last[value] = f"{value}.last"
                ops.append(
                    replace(pattern, id=f"{value}.take_rows", layer=op.layer,
                            inputs=(("x", value),), outputs=(("y", last[value]),))
                )  # fmt: skip
        for _, value in op.outputs:
            last.setdefault(value, f"{value}.last")
        ops.append(
            replace(
                op,
                inputs=tuple((slot, last[value]) for slot, value in op.inputs),
                outputs=tuple((slot, last[value]) for slot, value in op.outputs),
            )
        )
    values = {**graph.values, **{y: _rows(graph.values[x]) for x, y in last.items()}}
    kept = {value for op in ops for _, value in (*op.inputs, *op.outputs)} | set(graph.inputs)
    return replace(
        graph, ops=tuple(ops), values={name: spec for name, spec in values.items() if name in kept}
    )


def _rows(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dims=(LAST.name, *spec.dims[1:]))


def _renamed(graph: Graph, taken: dict[str, str]) -> tuple[Graph, tuple[str, ...]]:
    """Without `take_rows`: what yielded its input yields its output, under the output's name."""
    users = graph.users()
    alone = {x: y for y, x in taken.items() if len(users[x]) == 1 and x not in graph.outputs}
    ops = tuple(
        replace(op, outputs=tuple((slot, alone.get(value, value)) for slot, value in op.outputs))
        for op in graph.ops
        if not (_takes(op) and op.inputs[0][1] in alone)
    )
    values = {name: spec for name, spec in graph.values.items() if name not in alone}
    for name in alone.values():
        values[name] = replace(values[name], dims=(TOKENS.name, *values[name].dims[1:]))
    removed = tuple(op.id for op in graph.ops if _takes(op) and op.inputs[0][1] in alone)
    return replace(graph, ops=ops, values=values), removed
