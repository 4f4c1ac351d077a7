"""What the Graph and its caches say to a question."""

from collections.abc import Callable, Mapping
from typing import Any

from day0.analysis.answers import Answer, Scope, failed, listed, passed, todo, unknown


def unexplained(scope: Scope) -> Answer | None:
    """The answer where operators are unknown: nobody knows what they hold and cost."""
    strange = [op["id"] for op in scope.ops() if op["family"] == "unknown"]
    if not strange:
        return None
    return unknown(f"{len(strange)} operators are unknown, and what they hold and cost with them")


def cache_bytes(scope: Scope) -> Answer:
    """Whether it is known what all caches hold."""
    data = scope.data
    return unexplained(scope) or passed(
        f"{data['kv_bytes_per_token']} B and {data['index_bytes_per_token']} B of index keys a "
        f"token, {data['state_bytes_per_sequence']} B of states a sequence"
    )


def state_fp32(scope: Scope) -> Answer:
    """Whether every recurrent state is held in fp32."""
    states = [row for row in own_caches(scope) if row["role"] == "state"]
    if not states:
        return unknown("no recurrent state among the caches")
    formats = listed([f"{row['name']} {row['format']}" for row in states])
    return (passed if all(row["format"] == "fp32" for row in states) else failed)(formats)


def caches_apart(scope: Scope) -> Answer:
    """Whether every operator with several caches has each of them for itself."""
    uses = [op["caches"] for op in scope.ops()]
    several = [[use["cache"] for use in use_of] for use_of in uses if len(use_of) > 1]
    if not several:
        return unknown("no operator has more than one cache")
    if shared := [names[0] for names in several if len(set(names)) < len(names)]:
        return failed(f"two uses of one cache: {listed(shared)}")
    rows = [f"{row['name']} {row['growth']}" for row in own_caches(scope)]
    return passed(f"{len(several)} operators: {listed(rows)}")


def attribute(scope: Scope, name: str) -> Answer:
    """Whether an attribute is settled: the operators have it, and nothing decisive of what the
    Graph rests on there is assumed."""
    ops = [op for op in scope.ops() if name in op["attrs"]]
    if not ops:
        return unknown(f"no operator has {name}")
    facts = {fact["path"]: fact for fact in scope.data.get("facts", ())}
    rests = {path for op in ops for path in op["because"] if path in facts}
    if guessed := [
        f"{path} = {facts[path]['value']!r}"
        for path in sorted(rests)
        if facts[path]["how"] == "assumed" and facts[path]["decisive"]
    ]:
        return todo(f"state with --facts what is assumed: {listed(guessed)}")
    values = sorted({f"{op['family']} {name}={op['attrs'][name]!r}" for op in ops})
    return passed(f"{len(ops)} operators: {listed(values)}")


def slot(scope: Scope, name: str) -> Answer:
    """Whether the operators take an input or weight. A weight needs the proof against the headers:
    without them the Graph only expects it."""
    ops = list(scope.ops())
    taken = {**_at(ops, "inputs", name), **_at(ops, "weights", name)}
    said = f"{len(taken)} of {len(ops)} operators take {name}"
    if not taken or len(taken) < len(ops):
        return todo(f"compare with the checkpoint: {said}")
    proof = scope.data.get("proof", {}).get("status", "no-headers")
    if proof != "proved" and _at(ops, "weights", name):
        return unknown(f"{said}; the tensors are not proved: {proof}")
    return passed(f"{said}: {listed(list(taken.values()))}")


def _at(ops: list[Mapping[str, Any]], kind: str, name: str) -> dict[str, str]:
    return {op["id"]: op[kind][name] for op in ops if name in op[kind]}


def own_caches(scope: Scope) -> list[Mapping[str, Any]]:
    """Rows of the caches that operators in question use: same last name, in a layer of theirs."""
    used = {use["cache"] for op in scope.ops() for use in op["caches"]}
    return [
        row
        for row in scope.data["caches"]
        if not scope.families
        or any(name.endswith(f".{row['name']}") and _layer(name) in row["layers"] for name in used)
    ]


def _layer(name: str) -> int:
    """Of "layers.3.mixer.state"."""
    return next((int(part) for part in name.split(".") if part.isdigit()), -1)


# "graph.attr.NAME" and "graph.slot.NAME"
NAMED: Mapping[str, Callable[[Scope, str], Answer]] = {
    "graph.attr": attribute,
    "graph.slot": slot,
}
