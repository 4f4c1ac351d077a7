"""What a part of the analysis says to a question: the checks that `analysis:` proofs name.

A proof is "KEY" or "KEY.CHECK" of the JSON day0.analysis/1, or "facts.PATTERN" for the facts whose
paths match. A key without a check of its own is quoted for a person to read: it describes, and
answers nothing by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from day0.passes.choose import BUILT_IN

SHOWN = 4  # names that one evidence lists before it counts the rest
LONG = 160  # letters of a quotation


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`status`: one of checklist.STATUSES."""

    status: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The analysis as JSON, and the families that are asked about (none named: all)."""

    data: Mapping[str, Any]
    families: frozenset[str] = frozenset()

    def ops(self) -> Iterator[Mapping[str, Any]]:
        """Operators of the graph and of the drafts."""
        graphs = (self.data["graph"], *self.data["drafts"].values())
        return (op for graph in graphs for op in graph["ops"] if self._holds(op["family"]))

    def entries(self) -> list[Mapping[str, Any]]:
        """Rows of the inventory. Addressing that the runtime does itself is no operator to have."""
        return [
            entry
            for entry in self.data["inventory"]
            if self._holds(entry["family"]) and entry["family"] not in BUILT_IN
        ]

    def _holds(self, family: str) -> bool:
        return not self.families or family in self.families


Check = Callable[[Scope], Answer]


def ask(target: str, scope: Scope) -> Answer:
    """The answer of "KEY", "KEY.CHECK" or "facts.PATTERN"."""
    key, _, check = target.partition(".")
    if key not in scope.data:
        return _unknown(f"this analysis has no {key} yet")
    if key == "facts":
        return _facts(scope, check)
    return CHECKS.get(target, _quoted(key))(scope)


def _proof(scope: Scope) -> Answer:
    proof = scope.data["proof"]
    counts = f"{proof['matched']} of {proof['expected']} tensors match"
    if proof["status"] == "no-headers":
        return _unknown("there are no tensor headers to prove it by")
    if proof["status"] == "proved":
        return _passed(counts)
    wrong = [name for kind in ("missing", "unexpected", "shape", "dtype") for name in proof[kind]]
    said = f"{proof['status']}: {counts}; {_list(wrong)}"
    # Whether the tensors are those of these families the proof does not say.
    return _unknown(said) if scope.families else _failed(said)


def _config(scope: Scope) -> Answer:
    unread = scope.data["config"]["unread_keys"]
    if unread:
        return _failed(f"{len(unread)} keys that no mechanism reads: {_list(unread)}")
    return _passed("no key of config.json is left unread")


def _semantics(scope: Scope) -> Answer:
    """Whether nothing decisive is assumed. That no fact of some families is assumed does not say
    that one of them settles the question."""
    facts = scope.data.get("facts")
    if facts is None:
        return _unknown("this analysis has no facts")
    if scope.families:
        paths = {path for op in scope.ops() for path in op["because"]}
        facts = [fact for fact in facts if fact["path"] in paths]
    assumed = [fact for fact in facts if fact["how"] == "assumed" and fact["decisive"]]
    if assumed:
        return _todo(f"state with --facts what is assumed: {_shown(assumed)}")
    if scope.families:
        return _todo(f"read facts: {_shown(facts)}")
    return _passed(f"none of {len(facts)} facts that change the numbers is assumed")


def _facts(scope: Scope, pattern: str) -> Answer:
    facts = [fact for fact in scope.data["facts"] if fnmatchcase(fact["path"], pattern)]
    assumed = [fact for fact in facts if fact["how"] == "assumed"]
    if assumed:
        return _todo(f"state with --facts what is assumed: {_shown(assumed)}")
    if not facts:
        return _unknown(f"no fact {pattern} in this analysis")
    return _passed(_shown(facts))


def _shown(facts: list[Mapping[str, Any]]) -> str:
    return _list([f"{fact['path']} = {fact['value']!r} ({fact['how']})" for fact in facts])


def _reuse(scope: Scope) -> Answer:
    entries = scope.entries()
    if not entries:
        return _unknown("the graph has no such operator")
    left = [entry for entry in entries if entry["verdict"] != "reuse"]
    if left:
        return _todo(_list([f"{entry['family']} is {entry['verdict']}" for entry in left]))
    return _passed(_list([f"{entry['family']}: {entry['impl']}" for entry in entries]))


def _formats(scope: Scope) -> Answer:
    entries = scope.entries()
    refused = [e for e in entries if e["verdict"] == "quant-rework"]
    if refused:
        return _todo(_list([f"{e['family']}: {'; '.join(e['reasons'])}" for e in refused]))
    new = [e["family"] for e in entries if e["verdict"] == "new"]
    if new:
        return _unknown(f"nothing optimised takes {_list(new)} in any format")
    return _passed(f"all {len(entries)} operators are taken in the formats of the recipe")


def _explained(scope: Scope) -> Answer:
    unknown = [e["attrs"]["module"] for e in scope.entries() if e["family"] == "unknown"]
    if unknown:
        return _todo(f"no mechanism explains {_list(unknown)}: day0 scaffold MODEL --out DIR")
    return _passed("every operator belongs to a family with a schema")


def _defined(scope: Scope) -> Answer:
    bare = [
        e["family"]
        for e in scope.entries()
        if e["verdict"] == "new" and "reference exists" not in e["reasons"]
    ]
    if bare:
        return _todo(f"no definition of {_list(bare)}: day0 scaffold MODEL --out DIR")
    return _passed("every operator has a definition or an implementation")


def _layers(scope: Scope) -> Answer:
    layers = scope.data["layers"]
    unknown = [row["index"] for row in layers if "unknown" in (row["mixer"], row["ffn"])]
    if unknown:
        first = f"layer {unknown[0]} first"
        return _todo(f"{len(unknown)} of {len(layers)} layers are unknown in part, {first}")
    kinds = {f"{row['mixer']} + {row['ffn']}" for row in layers}
    return _passed(f"{len(layers)} layers: {_list(sorted(kinds))}")


def _caches(scope: Scope) -> Answer:
    """What all caches hold; for some families their caches are a thing to look at."""
    if scope.families:
        return _quoted("caches")(scope)
    if scope_unknown := _unexplained(scope):
        return scope_unknown
    data = scope.data
    return _passed(
        f"{data['kv_bytes_per_token']} B and {data['index_bytes_per_token']} B of index keys a "
        f"token, {data['state_bytes_per_sequence']} B of states a sequence"
    )


def _state_fp32(scope: Scope) -> Answer:
    states = [row for row in _own_caches(scope) if row["role"] == "state"]
    if not states:
        return _unknown("no recurrent state among the caches")
    formats = _list([f"{row['name']} {row['format']}" for row in states])
    return (_passed if all(row["format"] == "fp32" for row in states) else _failed)(formats)


def _memory(scope: Scope) -> Answer:
    if scope_unknown := _unexplained(scope):
        return scope_unknown
    held = scope.data["memory"].get("sequence", [])
    if not held:
        return _unknown("no length is worked out")
    return _passed(_list([f"{row['tokens']} tokens {row['bytes']} B" for row in held]))


def _precision(scope: Scope) -> Answer:
    """A decision for every weight and cache; which ones is the plan's to show."""
    if scope_unknown := _unexplained(scope):
        return scope_unknown
    plan = scope.data["precision"]
    said = f"{plan['decided']} of {plan['needed']} weights and caches have a format and a reason"
    bare = [f"{row['kind']} {row['what']}" for row in plan["rows"] if not row["why"]]
    if plan["decided"] < plan["needed"] or bare:
        return _failed(f"{said}; without one: {_list(bare)}")
    kinds = [f"{row['what']} {row['runs']}" for row in plan["rows"] if row["action"] == "quantise"]
    return _passed(f"{said}; narrowed: {_list(kinds) if kinds else 'none'}")


def _nearest(scope: Scope) -> Answer:
    """Nothing to look at where a known model is the same; else the differences are the work."""
    found = scope.data["nearest"]
    if not found:
        return _unknown("the catalog is empty")
    first = found[0]
    if not (first["differences"] or first["constants"] or first["sizes"]):
        return _passed(f"the same as {first['name']}")
    kinds = ("differences", "constants", "sizes")
    return _todo(f"read against {first['name']}: {_list([t for k in kinds for t in first[k]])}")


def _cost(scope: Scope) -> Answer:
    if scope_unknown := _unexplained(scope):
        return scope_unknown
    return _passed(
        _list(
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
        return _failed(_list(quant["conflicts"]))
    if scope.data.get("proof", {}).get("status", "no-headers") == "no-headers":
        return _unknown("there are no tensor headers that show what is stored")
    stored = [f"{row['weights']} weights as {row['format']}" for row in quant["stored"]]
    return _passed(_list(stored))


def _hardware(scope: Scope) -> Answer:
    """Of the formats that something runs in; a stored one that is dequantised once needs none."""
    if "precision" not in scope.data:
        return _unknown("this analysis has no precision yet")
    runs = {row["runs"] for row in scope.data["precision"]["rows"]}
    rows = [row for row in scope.data["quant"].get("hardware", ()) if row["format"] in runs]
    if wide := [row for row in rows if row["units"] == "bf16"]:
        return _todo(_list([f"{row['format']}: {row['words']}" for row in wide]))
    said = _list([f"{row['format']}: {row['words']}" for row in rows])
    return _passed(said or f"recipe {scope.data['recipe']} runs no narrow matrix format")


def _findings(scope: Scope) -> Answer:
    open_ones = [row for row in scope.data["findings"] if row["severity"] != "info"]
    if open_ones:
        return _failed(_list([f"{row['code']}: {row['message']}" for row in open_ones]))
    return _passed("no finding of severity warning or above")


def _unexplained(scope: Scope) -> Answer | None:
    unknown = [op["id"] for op in scope.ops() if op["family"] == "unknown"]
    if not unknown:
        return None
    return _unknown(f"{len(unknown)} operators are unknown, and what they hold and cost with them")


def _own_caches(scope: Scope) -> list[Mapping[str, Any]]:
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


def _quoted(key: str) -> Check:
    """What the part says, in short, for a person to compare with the question."""

    def quote(scope: Scope) -> Answer:
        if key == "caches":
            rows = [f"{row['name']} {row['growth']} {row['format']}" for row in _own_caches(scope)]
            return _todo(f"read caches: {_list(rows)}")
        if key == "inventory":
            rows = [f"{entry['family']} {entry['verdict']}" for entry in scope.entries()]
            return _todo(f"read inventory: {_list(rows)}")
        if key == "graph":
            rows = sorted({f"{op['family']} {_words(op['attrs'])}".strip() for op in scope.ops()})
            return _todo(f"read graph: {_list(rows)}")
        if key == "layers":
            kinds = sorted({f"{row['mixer']} + {row['ffn']}" for row in scope.data["layers"]})
            return _todo(f"read layers: {_list(kinds)}")
        part = scope.data[key]
        said = _list([str(name) for name in part]) if isinstance(part, Mapping) else str(part)
        return _todo(f"read {key}: {said[:LONG]}")

    return quote


def _words(attrs: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in attrs.items())


def _list(names: list[str]) -> str:
    """Different names in order, the first few in full."""
    names = list(dict.fromkeys(names))
    shown = ", ".join(name[:LONG] for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def _passed(evidence: str) -> Answer:
    return Answer(status="pass", evidence=evidence)


def _failed(evidence: str) -> Answer:
    return Answer(status="fail", evidence=evidence)


def _unknown(evidence: str) -> Answer:
    return Answer(status="unknown", evidence=evidence)


def _todo(evidence: str) -> Answer:
    return Answer(status="todo", evidence=evidence)


CHECKS: Mapping[str, Check] = {
    "proof": _proof,
    "config": _config,
    "semantics": _semantics,
    "inventory.reuse": _reuse,
    "inventory.formats": _formats,
    "inventory.explained": _explained,
    "inventory.defined": _defined,
    "layers.known": _layers,
    "caches": _caches,
    "caches.state-fp32": _state_fp32,
    "memory": _memory,
    "cost": _cost,
    "precision": _precision,
    "nearest": _nearest,
    "quant": _quant,
    "quant.hardware": _hardware,
    "findings": _findings,
}
