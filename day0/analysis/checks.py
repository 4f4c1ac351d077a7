"""What a part of the analysis says to a question: the checks that `analysis:` proofs name.

A proof is "KEY" or "KEY.CHECK" of the JSON day0.analysis/1, "facts.PATTERN" for the facts whose
paths match, "graph.attr.NAME" or "graph.slot.NAME" for what operators have. A key without a check
of its own is quoted for a person to read: it describes, and answers nothing by itself.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from day0.analysis.answers import LONG, Answer, Scope, failed, listed, passed, todo, unknown
from day0.analysis.graph_checks import (
    NAMED,
    cache_bytes,
    caches_apart,
    own_caches,
    state_fp32,
    unexplained,
)

Check = Callable[[Scope], Answer]


def ask(target: str, scope: Scope) -> Answer:
    """The answer of "KEY", "KEY.CHECK", "facts.PATTERN" or "graph.KIND.NAME"."""
    key, _, check = target.partition(".")
    if key not in scope.data:
        return unknown(f"this analysis has no {key} yet")
    if key == "facts":
        return _facts(scope, check)
    kind, _, name = target.rpartition(".")
    if kind in NAMED:
        return NAMED[kind](scope, name)
    return CHECKS.get(target, _quoted(key))(scope)


def _proof(scope: Scope) -> Answer:
    proof = scope.data["proof"]
    counts = f"{proof['matched']} of {proof['expected']} tensors match"
    if proof["status"] == "no-headers":
        return unknown("there are no tensor headers to prove it by")
    if proof["status"] == "proved":
        return passed(counts)
    wrong = [name for kind in ("missing", "unexpected", "shape", "dtype") for name in proof[kind]]
    said = f"{proof['status']}: {counts}; {listed(wrong)}"
    # Whether the tensors are those of these families the proof does not say.
    return unknown(said) if scope.families else failed(said)


def _config(scope: Scope) -> Answer:
    unread = scope.data["config"]["unread_keys"]
    if unread:
        return failed(f"{len(unread)} keys that no mechanism reads: {listed(unread)}")
    return passed("no key of config.json is left unread")


def _settled(scope: Scope) -> Answer:
    """Whether nothing decisive is assumed."""
    facts = scope.data.get("facts")
    if facts is None:
        return unknown("this analysis has no facts")
    assumed = [fact for fact in facts if fact["how"] == "assumed" and fact["decisive"]]
    if assumed:
        return todo(f"state with --facts what is assumed: {_shown(assumed)}")
    return passed(f"none of {len(facts)} facts that change the numbers is assumed")


def _facts(scope: Scope, pattern: str) -> Answer:
    facts = [fact for fact in scope.data["facts"] if fnmatchcase(fact["path"], pattern)]
    assumed = [fact for fact in facts if fact["how"] == "assumed"]
    if assumed:
        return todo(f"state with --facts what is assumed: {_shown(assumed)}")
    if not facts:
        return unknown(f"no fact {pattern} in this analysis")
    return passed(_shown(facts))


def _shown(facts: list[Mapping[str, Any]]) -> str:
    return listed([f"{fact['path']} = {fact['value']!r} ({fact['how']})" for fact in facts])


def _reuse(scope: Scope) -> Answer:
    entries = scope.entries()
    if not entries:
        return unknown("the graph has no such operator")
    left = [entry for entry in entries if entry["verdict"] != "reuse"]
    if left:
        return todo(listed([f"{entry['family']} is {entry['verdict']}" for entry in left]))
    return passed(listed([f"{entry['family']}: {entry['impl']}" for entry in entries]))


def _formats(scope: Scope) -> Answer:
    entries = scope.entries()
    refused = [e for e in entries if e["verdict"] == "quant-rework"]
    if refused:
        return todo(listed([f"{e['family']}: {'; '.join(e['reasons'])}" for e in refused]))
    new = [e["family"] for e in entries if e["verdict"] == "new"]
    if new:
        return unknown(f"nothing optimised takes {listed(new)} in any format")
    return passed(f"all {len(entries)} operators are taken in the formats of the recipe")


def _explained(scope: Scope) -> Answer:
    strange = [e["attrs"]["module"] for e in scope.entries() if e["family"] == "unknown"]
    if strange:
        return todo(f"no mechanism explains {listed(strange)}: day0 scaffold MODEL --out DIR")
    return passed("every operator belongs to a family with a schema")


def _defined(scope: Scope) -> Answer:
    bare = [
        e["family"]
        for e in scope.entries()
        if e["verdict"] == "new" and "reference exists" not in e["reasons"]
    ]
    if bare:
        return todo(f"no definition of {listed(bare)}: day0 scaffold MODEL --out DIR")
    return passed("every operator has a definition or an implementation")


def _layers(scope: Scope) -> Answer:
    layers = scope.data["layers"]
    strange = [row["index"] for row in layers if "unknown" in (row["mixer"], row["ffn"])]
    if strange:
        first = f"layer {strange[0]} first"
        return todo(f"{len(strange)} of {len(layers)} layers are unknown in part, {first}")
    kinds = {f"{row['mixer']} + {row['ffn']}" for row in layers}
    return passed(f"{len(layers)} layers: {listed(sorted(kinds))}")


def _memory(scope: Scope) -> Answer:
    if scope_unknown := unexplained(scope):
        return scope_unknown
    held = scope.data["memory"].get("sequence", [])
    if not held:
        return unknown("no length is worked out")
    return passed(listed([f"{row['tokens']} tokens {row['bytes']} B" for row in held]))


def _precision(scope: Scope) -> Answer:
    """A decision for every weight and cache; which ones is the plan's to show."""
    if scope_unknown := unexplained(scope):
        return scope_unknown
    plan = scope.data["precision"]
    said = f"{plan['decided']} of {plan['needed']} weights and caches have a format and a reason"
    bare = [f"{row['kind']} {row['what']}" for row in plan["rows"] if not row["why"]]
    if plan["decided"] < plan["needed"] or bare:
        return failed(f"{said}; without one: {listed(bare)}")
    kinds = [f"{row['what']} {row['runs']}" for row in plan["rows"] if row["action"] == "quantise"]
    return passed(f"{said}; narrowed: {listed(kinds) if kinds else 'none'}")


def _nearest(scope: Scope) -> Answer:
    """Nothing to look at where a known model is the same; else the differences are the work."""
    found = scope.data["nearest"]
    if not found:
        return unknown("the catalog is empty")
    first = found[0]
    if not (first["differences"] or first["constants"] or first["sizes"]):
        return passed(f"the same as {first['name']}")
    kinds = ("differences", "constants", "sizes")
    return todo(f"read against {first['name']}: {listed([t for k in kinds for t in first[k]])}")


def _cost(scope: Scope) -> Answer:
    if scope_unknown := unexplained(scope):
        return scope_unknown
    return passed(
        listed(
            [
                f"{name} {row['flops_per_token']:.4g} flops a token, "
                f"{row['weight_bytes_per_token']:.4g} B of weights"
                for name, row in scope.data["cost"].items()
                if name != "roofline"
            ]
        )
    )


def _quant(scope: Scope) -> Answer:
    quant = scope.data["quant"]
    if quant["conflicts"]:
        return failed(listed(quant["conflicts"]))
    if scope.data.get("proof", {}).get("status", "no-headers") == "no-headers":
        return unknown("there are no tensor headers that show what is stored")
    stored = [f"{row['weights']} weights as {row['format']}" for row in quant["stored"]]
    return passed(listed(stored))


def _hardware(scope: Scope) -> Answer:
    """Of the formats that something runs in; a stored one that is dequantised once needs none."""
    if "precision" not in scope.data:
        return unknown("this analysis has no precision yet")
    runs = {row["runs"] for row in scope.data["precision"]["rows"]}
    rows = [row for row in scope.data["quant"].get("hardware", ()) if row["format"] in runs]
    if wide := [row for row in rows if row["units"] == "bf16"]:
        return todo(listed([f"{row['format']}: {row['words']}" for row in wide]))
    said = listed([f"{row['format']}: {row['words']}" for row in rows])
    return passed(said or f"recipe {scope.data['recipe']} runs no narrow matrix format")


def _findings(scope: Scope) -> Answer:
    open_ones = [row for row in scope.data["findings"] if row["severity"] != "info"]
    if open_ones:
        return failed(listed([f"{row['code']}: {row['message']}" for row in open_ones]))
    return passed("no finding of severity warning or above")


def _quoted(key: str) -> Check:
    """What the part says, in short, for a person to compare with the question."""

    def quote(scope: Scope) -> Answer:
        if key == "caches":
            rows = [f"{row['name']} {row['growth']} {row['format']}" for row in own_caches(scope)]
            return todo(f"read caches: {listed(rows)}")
        if key == "inventory":
            rows = [f"{entry['family']} {entry['verdict']}" for entry in scope.entries()]
            return todo(f"read inventory: {listed(rows)}")
        if key == "graph":
            rows = sorted({f"{op['family']} {_words(op['attrs'])}".strip() for op in scope.ops()})
            return todo(f"read graph: {listed(rows)}")
        if key == "layers":
            kinds = sorted({f"{row['mixer']} + {row['ffn']}" for row in scope.data["layers"]})
            return todo(f"read layers: {listed(kinds)}")
        part = scope.data[key]
        said = listed([str(name) for name in part]) if isinstance(part, Mapping) else str(part)
        return todo(f"read {key}: {said[:LONG]}")

    return quote


def _words(attrs: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in attrs.items())


CHECKS: Mapping[str, Check] = {
    "proof": _proof,
    "config": _config,
    "semantics.settled": _settled,
    "inventory.reuse": _reuse,
    "inventory.formats": _formats,
    "inventory.explained": _explained,
    "inventory.defined": _defined,
    "layers.known": _layers,
    "caches.apart": caches_apart,
    "caches.bytes": cache_bytes,
    "caches.state-fp32": state_fp32,
    "memory": _memory,
    "cost": _cost,
    "precision": _precision,
    "nearest": _nearest,
    "quant": _quant,
    "quant.hardware": _hardware,
    "findings": _findings,
}
