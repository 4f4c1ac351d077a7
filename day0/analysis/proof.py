"""The proof: leaves of all weight expressions against the tensors in the headers.

It speaks of tensors only: names, shapes, dtypes, and that every stored element is used by some
weight or named as padding. What the numbers mean is a matter of facts.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from day0.checkpoint.headers import Headers, TensorHeader
from day0.ir import format as formats
from day0.ir.fact import Finding
from day0.ir.graph import Model
from day0.ir.weight import Leaf, Pick, dims_of, picks
from day0.registry.index import family

SHOWN = 6
# What dtypes hold on their own, without a scale.
NUMBERS = {
    **dict.fromkeys(("F64", "F32", "F16", "BF16", *formats.FLOAT8), "real"),
    **dict.fromkeys(("I64", "I32", "I16", "U64", "U32", "U16"), "whole"),
}
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """`status` "proved", "incomplete" (tensors missing or left over), "contradicted" (a shape or
    dtype differs) or "no-headers". `expected`, `matched` count stored tensors."""

    status: str
    expected: int
    matched: int
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()
    shape: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    unexplained_bytes: int = 0
    opaque_bytes: int = 0
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Claim:
    """One stored tensor a leaf asks for and does not get."""

    leaf: Leaf
    part: str
    name: str


def prove(model: Model, headers: Headers | None) -> Proof:
    """Compare the model with the headers."""
    leaves = _distinct(model)
    if headers is None:
        expected = sum(max(count, 1) * max(len(leaf.parts), 1) for leaf, count, _ in leaves)
        return Proof(status="no-headers", expected=expected, matched=0)
    tensors = headers.tensors
    claimed: set[str] = set()
    missing: list[_Claim] = []
    wrong: list[tuple[str, str]] = []
    dtypes: list[tuple[str, str]] = []
    matched = 0
    for leaf, count, _ in leaves:
        for part_name, name in leaf.parts or (("data", leaf.name),):
            part = _part(leaf.format, part_name)
            shapes, allowed = part.shapes(leaf.dims), part.dtypes
            for full in _numbered(name, count):
                header = tensors.get(full)
                if header is None:
                    missing.append(_Claim(leaf, part_name, full))
                    continue
                claimed.add(full)
                matched += 1
                if shapes and header.shape not in shapes:
                    usual = list(part.shape(leaf.dims))
                    wrong.append((full, f"is {list(header.shape)}, expected {usual}"))
                if header.dtype not in allowed:
                    dtypes.append((full, f"is {header.dtype}, expected {allowed[0]}"))
    dtypes.extend(_number_kinds(model, leaves, tensors))
    wrong.extend(_other_dims(model))
    grouped = {name for group in model.groups for name in group.tensors}
    left = [name for name in tensors if name not in claimed and name not in grouped]
    partly, unused = _coverage(leaves, tensors)
    deviants = _deviants(leaves, tensors)
    foreign = [f"{name} {text}" for name, text in dtypes if name not in deviants]
    gone, left, renamed = _renamed(missing, left, tensors)
    findings = [
        *_missing_findings(gone),
        *_left_findings(left, tensors),
        *renamed,
        *_some("shape_mismatch", "error", "tensors of another shape than the model needs",
               [f"{name} {text}" for name, text in wrong]),
        *_some("dtype_mismatch", "error", "tensors of another dtype than their format",
               foreign),
        *_some("dtype_deviates", "warning", "tensors of another dtype than their equals in other "
               "layers", list(deviants.values())),
        *_some("partly_used", "error", "tensors of which no weight uses some elements", partly),
    ]  # fmt: skip
    unexplained = unused + sum(tensors[name].bytes for name in left)
    status = "proved"
    if missing or left or partly or renamed:
        status = "incomplete"
    if wrong or foreign or deviants:
        status = "contradicted"
    return Proof(
        status=status,
        expected=matched + len(missing),
        matched=matched,
        missing=tuple(claim.name for claim in missing),
        unexpected=tuple(left),
        shape=tuple(f"{name} {text}" for name, text in wrong),
        dtype=(*foreign, *deviants.values()),
        unexplained_bytes=unexplained,
        opaque_bytes=sum(group.bytes for group in model.groups),
        findings=tuple(findings),
    )


def _distinct(model: Model) -> list[tuple[Leaf, int, list[tuple[Pick, ...]]]]:
    """Every leaf once, with all chains of Picks that stand on it. What stands in the graph only as
    an operator nobody knows is explained by nothing."""
    table: dict[str, tuple[Leaf, int, list[tuple[Pick, ...]]]] = {}
    strange = _strange(model)
    for weight in model.weights.values():
        if weight.name in strange:
            continue
        for expr in (weight.source, *weight.padding):
            for leaf, count, chain in picks(expr):
                entry = table.get(leaf.name)
                if entry is None:
                    table[leaf.name] = (leaf, count, [chain])
                else:
                    entry[2].append(chain)
    return list(table.values())


def _strange(model: Model) -> set[str]:
    """Weights that only ops of the family "unknown" take."""
    taken: dict[bool, set[str]] = {True: set(), False: set()}
    for graph in model.graphs.values():
        for op in graph.ops:
            taken[op.family == "unknown"].update(name for _, name in op.weights)
    return taken[True] - taken[False]


@lru_cache(maxsize=4096)
def _part(format_name: str, part: str) -> formats.Part:
    found = formats.get(format_name)
    return found.parts[0] if part == "data" and len(found.parts) == 1 else found.part(part)


def _numbered(name: str, count: int) -> Sequence[str]:
    """The stored names behind a leaf's name: one, or one for each of `count` experts."""
    if not count:
        return (name,)
    before, _, after = name.partition("{e}")
    return [f"{before}{index}{after}" for index in range(count)]


def _other_dims(model: Model) -> Iterator[tuple[str, str]]:
    """(weight, what is wrong) where an expression yields other dims than its op was built for."""
    for weight in model.weights.values():
        dims = dims_of(weight.source)
        if dims != weight.spec.dims:
            yield weight.name, f"comes out as {list(dims)}, expected {list(weight.spec.dims)}"


def _number_kinds(
    model: Model,
    leaves: list[tuple[Leaf, int, list[tuple[Pick, ...]]]],
    tensors: Mapping[str, TensorHeader],
) -> list[tuple[str, str]]:
    """(tensor, what is wrong) where a plain tensor holds whole numbers, or a format without its
    scale, and its op reads real ones; and the other way round."""
    wanted: dict[str, str] = {}
    for graph in model.graphs.values():
        for op in graph.ops:
            kind = family(op.family)
            for slot, name in op.weights:
                if op.family != "unknown":
                    wanted[name] = "whole" if slot in kind.whole else "real"
    by_leaf = {
        leaf.name: wanted[name]
        for name, weight in model.weights.items()
        if name in wanted
        for leaf, _, _ in picks(weight.source)
    }
    wrong = []
    for leaf, count, _ in leaves:
        if len(leaf.parts) > 1 or leaf.format not in formats.PLAIN or leaf.name not in by_leaf:
            continue
        for full in _numbered(leaf.parts[0][1] if leaf.parts else leaf.name, count):
            header = tensors.get(full)
            have = "" if header is None else NUMBERS.get(header.dtype, "neither")
            if header is not None and have != by_leaf[leaf.name]:
                wrong.append((full, f"is {header.dtype}, expected {by_leaf[leaf.name]} numbers"))
    return wrong


def _coverage(
    leaves: list[tuple[Leaf, int, list[tuple[Pick, ...]]]], tensors: Mapping[str, TensorHeader]
) -> tuple[list[str], int]:
    """(tensors of which some elements are used by nothing, their unused bytes)."""
    partly, unused = [], 0
    for leaf, count, chains in leaves:
        if any(not chain for chain in chains):
            continue
        share = _used_share(leaf, chains)
        if share < 1:
            name = (leaf.parts[0][1] if leaf.parts else leaf.name).replace("{e}", "0")
            header = tensors.get(name)
            if header is not None:
                partly.append(f"{leaf.name}: {100 * share:.3g} % used")
                unused += round(header.bytes * (1 - share)) * max(count, 1)
    return partly, unused


def _used_share(leaf: Leaf, chains: list[tuple[Pick, ...]]) -> float:
    """Share of a leaf's elements that the Picks take together (one dim picked at a time)."""
    by_dim: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for chain in chains:
        pick = chain[0]
        start, stop = pick.start, pick.stop
        for inner in chain[1:]:
            if inner.dim != pick.dim or inner.period != pick.stop - pick.start:
                return 0.0  # a Pick of a Pick on another grid: counted as unproved
            start, stop = pick.start + inner.start, pick.start + inner.stop
        by_dim[pick.dim].append((pick.period, start, stop))
    best = 0.0
    for dim, spans in by_dim.items():
        best = max(best, _union(spans, leaf.dims[dim]) / leaf.dims[dim])
    return best


def _union(spans: list[tuple[int, int, int]], whole: int) -> int:
    """How many of `whole` positions lie in any of the spans (period, start, stop), each repeated
    with its period."""
    period = max(period for period, _, _ in spans)
    if any(period % other for other, _, _ in spans):
        period = whole
    pieces = sorted(
        (base + start, base + stop)
        for every, start, stop in spans
        for base in range(0, period, every)
    )
    used = reached = 0
    for start, stop in pieces:
        used += max(stop - max(start, reached), 0)
        reached = max(reached, stop)
    return used * whole // period


def _deviants(
    leaves: list[tuple[Leaf, int, list[tuple[Pick, ...]]]], tensors: Mapping[str, TensorHeader]
) -> dict[str, str]:
    """Data tensors whose dtype differs from most of the same name in other layers or experts."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for leaf, count, _ in leaves:
        data = leaf.parts[0][1] if leaf.parts else leaf.name
        pattern = _NUMBER.sub("*", data.replace("{e}", "*"))
        counts = seen[pattern]
        for full in _numbered(data, count):
            header = tensors.get(full)
            if header is not None:
                counts[header.dtype] += 1
    found = {}
    for pattern, counts in seen.items():
        if len(counts) < 2:
            continue
        (usual, most), *others = counts.most_common()
        for dtype, number in others:
            if number * 4 <= most:
                for name in _all_of(pattern, dtype, tensors):
                    found[name] = f"{name} is {dtype}, its equals are {usual}"
    return found


def _all_of(pattern: str, dtype: str, tensors: Mapping[str, TensorHeader]) -> list[str]:
    form = re.compile(re.escape(pattern).replace(r"\*", r"\d+") + "$")
    return [name for name, header in tensors.items() if header.dtype == dtype and form.match(name)]


def _renamed(
    missing: list[_Claim], left: list[str], tensors: Mapping[str, TensorHeader]
) -> tuple[list[_Claim], list[str], list[Finding]]:
    """Pairs of a missing and a left-over tensor that share layer, last component and number of
    elements look like a renaming: told once instead of twice."""
    pool: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for name in left:
        pool[_layer_of(name), name.rpartition(".")[2], tensors[name].elements].append(name)
    gone, pairs, taken = [], [], set()
    for claim in missing:
        shape = _part(claim.leaf.format, claim.part).shape(claim.leaf.dims)
        key = _layer_of(claim.name), claim.name.rpartition(".")[2], math.prod(shape)
        if pool.get(key):
            other = pool[key].pop(0)
            taken.add(other)
            pairs.append(f"{claim.name} -> {other}")
        else:
            gone.append(claim)
    if not pairs:
        return missing, left, []
    finding = _some(
        "renamed_tensors", "error", "tensors missing under their name, with left-over ones of the "
        "same shape in the same layer", pairs,
    )  # fmt: skip
    return gone, [name for name in left if name not in taken], finding


def _layer_of(name: str) -> str:
    match = _NUMBER.search(name)
    return name[: match.end()] if match else ""


def _missing_findings(missing: list[_Claim]) -> list[Finding]:
    """Missing values; companions of quantised values are the quantisation audit's."""
    names = [claim.name for claim in missing if claim.part == "data"]
    return _some("missing_tensor", "error", "tensors the model needs that are not stored", names)


def _left_findings(left: list[str], tensors: Mapping[str, TensorHeader]) -> list[Finding]:
    shown = [f"{name} {tensors[name].dtype} {list(tensors[name].shape)}" for name in left]
    return _some("unexpected_tensor", "warning", "stored tensors that no mechanism explains", shown)


def _some(code: str, severity: str, message: str, items: Sequence[str]) -> list[Finding]:
    if not items:
        return []
    more = len(items) - SHOWN
    evidence = (*items[:SHOWN], f"and {more} more") if more > 0 else tuple(items)
    count = f"{len(items):,} " if len(items) > 1 else ""
    return [Finding(code=code, severity=severity, message=f"{count}{message}", evidence=evidence)]
