"""The plan `precision`: what the pass `quantize` decides for every weight, cache and activation.

The decisions are the pass's own, of the canonical graph; here they are put together, with the bytes
before and after, what the operators compute in, and what is at stake.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from day0.analysis.caches import trunk
from day0.analysis.cost import stored_bytes
from day0.analysis.machine import Machine
from day0.analysis.memory import Held, held, room_of
from day0.ir import format as formats
from day0.ir.cache import CacheSpec
from day0.ir.graph import Graph, Model
from day0.ir.recipe import Recipe
from day0.ir.weight import Tied, leaves
from day0.passes.quantize import Precision, Row, quantize

TOKENS = 131_072  # of the sequence whose caches are weighed, or fewer where a model states fewer
BATCHES = (1, 32)
# What a wrong digit does where this is read, by role.
RISKS = {
    "router": "a logit that moves swaps experts: the token takes another path",
    "index_q": "amplified by top-k: the smallest difference selects other tokens",
    "index_k": "amplified by top-k: the smallest difference selects other tokens",
    "index": "amplified by top-k: the smallest difference selects other tokens",
    "state": "decay rates (A_log, dt_bias) act through exp and add up over the sequence",
    "recurrent": "errors in a recurrent state add up over the whole sequence",
    "kv": "every later token reads it; keys of outlier channels lose most",
    "experts": "the largest share of the bytes, few tokens each: the first to narrow",
    "head": "its logits are compared with each other",
    "norm": "scales every channel behind it",
    "residual": "mixes what all later layers read",
    "conv": "a few taps for every channel",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Decisions that are alike.

    `kind`: weight, cache or activation. `what`: a weight's role, a cache's name and part, an op's
    family and slot. `families`: of the ops that use it. `compute`: what the product or the read is
    done in; sums are fp32. `scaling`: "static" (scales made once, with the weight), "dynamic" (with
    the value) or "none". `before`, `after`: bytes as stored and as run; of a cache those of one
    sequence of `PrecisionPlan.tokens`; 0 for activations.
    """

    kind: str
    what: str
    families: tuple[str, ...]
    count: int
    stored: str
    runs: str
    compute: str
    granularity: str
    scaling: str
    action: str
    why: str
    risk: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionPlan:
    """`decided` of `needed` weights and caches have a format. `longest_before`, `longest_after`:
    batch -> tokens of each sequence that fit in the machine beside the weights, as stored with
    caches in the model's own formats, and under the recipe; 0 where the weights do not fit."""

    recipe: str
    tokens: int
    lines: tuple[Line, ...]
    weights_before: int
    weights_after: int
    caches_before: int
    caches_after: int
    longest_before: Mapping[int, int]
    longest_after: Mapping[int, int]
    decided: int
    needed: int


def precision(
    model: Model, recipe: Recipe, machine: Machine, *, context: int | None
) -> PrecisionPlan:
    """`context`: the longest that the model states."""
    graph = model.graphs["main"]
    pass_said = quantize(graph, model, recipe)
    tokens = min(TOKENS, context or TOKENS)
    lines = tuple(_lines(pass_said, graph, model, tokens))
    own, narrow = _own(model), held(model, recipe)
    before = sum(line.before for line in lines if line.kind == "weight")
    after = sum(line.after for line in lines if line.kind == "weight")
    limit, room = context or TOKENS, room_of(machine) * machine.count
    used = {name for op in graph.ops for _, name in op.weights}
    caches = trunk(model)
    return PrecisionPlan(
        recipe=recipe.name,
        tokens=tokens,
        lines=lines,
        weights_before=before,
        weights_after=after,
        caches_before=own.bytes(tokens),
        caches_after=narrow.bytes(tokens),
        longest_before={n: own.longest((room - before) // n, limit) for n in BATCHES},
        longest_after={n: narrow.longest((room - after) // n, limit) for n in BATCHES},
        decided=len(pass_said.weights) + len(pass_said.caches),
        needed=len(used) + len(caches),
    )


def _own(model: Model) -> Held:
    """The trunk's caches in the formats that the model gives them."""
    kinds: dict[tuple[object, ...], list[CacheSpec]] = {}
    sizes: dict[tuple[object, ...], int] = {}
    for cache in trunk(model):
        size = sum(stored_bytes(spec.format, spec.dims) for _, spec in cache.parts)
        key = cache.growth, cache.every, cache.span, size
        kinds.setdefault(key, []).append(cache)
        sizes[key] = size
    return Held(kinds=tuple((same[0], sizes[key], len(same)) for key, same in kinds.items()))


def _lines(said: Precision, graph: Graph, model: Model, tokens: int) -> list[Line]:
    """Weights by bytes, then caches, then activations."""
    users: dict[str, tuple[str, ...]] = {}
    rounded: set[str] = set()  # weights and caches that meet rounded rows
    for op in graph.ops:
        names = [name for _, name in op.weights] + [use.cache for use in op.caches]
        for name in names:
            known = users.get(name, ())
            users[name] = known if op.family in known else (*known, op.family)
        if op.id in said.activations:
            rounded.update(names)
    leaf_users = _leaf_users(model, users)
    groups: dict[tuple[object, ...], _Group] = {}
    for row in said.rows:
        name = row.name.rpartition(".")[0] if row.kind == "cache" else row.name
        families = users.get(name, (row.role,))
        meets = row.kind == "activation" or name in rounded
        key = row.kind, _what(row), row.stored, row.runs, row.action, row.why, meets, families
        group = groups.setdefault(key, _Group(row=row, families=families, rounded=meets))
        before, after = _bytes(row, name, model, tokens, leaf_users)
        group.count, group.before, group.after = (
            group.count + 1,
            group.before + before,
            group.after + after,
        )
    order = {"weight": 0, "cache": 1, "activation": 2}
    found = sorted(groups.values(), key=lambda group: (order[group.row.kind], -group.before))
    return [_line(group) for group in found]


@dataclass(slots=True, kw_only=True)
class _Group:
    row: Row
    families: tuple[str, ...]
    rounded: bool
    count: int = 0
    before: float = 0
    after: int = 0


def _line(group: _Group) -> Line:
    row = group.row
    narrow = formats.get(row.runs).quantised
    static = narrow and row.kind == "weight"
    return Line(
        kind=row.kind,
        what=_what(row),
        families=group.families,
        count=group.count,
        stored=row.stored,
        runs=row.runs,
        compute=_compute(row.runs, rounded=group.rounded),
        granularity=row.granularity or "-",
        scaling="static" if static else "dynamic" if narrow else "none",
        action=row.action,
        why=row.why,
        risk=_risk(row),
        before=round(group.before),
        after=group.after,
    )


def _what(row: Row) -> str:
    if row.kind == "weight":
        return row.role
    if row.kind == "cache":
        return row.name.rpartition(".mixer.")[2] or row.name
    return f"{row.role}.{row.name.rpartition('.')[2]}"


def _compute(runs: str, *, rounded: bool) -> str:
    """The matrix units' format: narrow where both sides are, else the weight is widened."""
    if not formats.get(runs).quantised:
        return runs
    return "fp8" if rounded else "bf16 (widened)"


def _risk(row: Row) -> str:
    risk = RISKS.get("recurrent" if row.kind == "cache" and row.role == "state" else row.role, "")
    if row.kind == "activation":
        risk = RISKS["index"] if row.role == "indexer" else ""
    if row.action == "requantise":
        risk = f"rounded a second time; {risk}" if risk else "rounded a second time"
    return risk


def _leaf_users(model: Model, used: Iterable[str]) -> Mapping[str, int]:
    """Stored tensor -> how many of the weights are made of it (keys and values of one matrix)."""
    found: dict[str, int] = {}
    for name in used:
        if name in model.weights:
            for leaf, _ in leaves(model.weights[name].source):
                found[leaf.name] = found.get(leaf.name, 0) + 1
    return found


def _bytes(
    row: Row, name: str, model: Model, tokens: int, leaf_users: Mapping[str, int]
) -> tuple[float, int]:
    """Before and after; a stored tensor's bytes are shared by the weights that it makes."""
    if row.kind == "activation":
        return 0, 0
    if row.kind == "weight":
        weight = model.weights[name]
        if isinstance(weight.source, Tied) or weight.home != "device":
            return 0, 0
        before = sum(
            stored_bytes(leaf.format, leaf.dims) * max(stack, 1) / leaf_users[leaf.name]
            for leaf, stack in leaves(weight.source)
        )
        return before, stored_bytes(row.runs, weight.spec.dims)
    cache = model.caches[name]
    spec = dict(cache.parts)[row.name.rpartition(".")[2]]
    entries = cache.entries(tokens)
    return (
        entries * stored_bytes(spec.format, spec.dims),
        entries * stored_bytes(row.runs, spec.dims),
    )
