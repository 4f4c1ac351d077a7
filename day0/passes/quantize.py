"""What each weight, cache and activation runs in: keep, cast, quantise, dequantise or requantise.

Decided once per graph from the recipe and from what is stored. A weight that is stored in the very
format it runs in keeps its codes, unless its expression merges or cuts off the borders of blocks:
then it is dequantised and quantised again, and the row says so.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from day0.ir import format as formats
from day0.ir.cache import CacheSpec
from day0.ir.format import Format
from day0.ir.graph import Graph, Model
from day0.ir.op import Op
from day0.ir.recipe import KEPT, Recipe
from day0.ir.weight import (
    Cat,
    Expr,
    Leaf,
    Mul,
    Permute,
    Pick,
    Reshape,
    Stack,
    Tied,
    Weight,
    dims_of,
    leaves,
)

ACTIONS = ("keep", "cast", "quantise", "dequantise", "requantise")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One decision. `kind`: weight, cache or activation; `name`: of the weight, "cache.part" or
    "op.slot"; `stored`: the checkpoint's formats ("a+b" where a merge has several), for caches and
    activations the model's own; `action` is one of ACTIONS."""

    kind: str
    name: str
    role: str
    stored: str
    runs: str
    granularity: str
    action: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """An op's input that is quantised on the fly. `slot` of the op, "h" for the inner rows of
    experts; `format` as for a cache entry; tiles begin anew every `width` channels (a head)."""

    slot: str
    format: str
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """The decisions of a graph: rows by weight name, formats by cache and part, activations by op
    id. `rows` are all of them for people."""

    weights: Mapping[str, Row]
    caches: Mapping[str, Mapping[str, str]]
    activations: Mapping[str, tuple[Activation, ...]]
    rows: tuple[Row, ...]


def quantize(graph: Graph, model: Model, recipe: Recipe) -> Precision:
    """Decide for everything that `graph` uses."""
    names = dict.fromkeys(name for op in graph.ops for _, name in op.weights)
    weights = {name: _weight(model.weights[name], recipe) for name in names}
    used = dict.fromkeys(use.cache for op in graph.ops for use in op.caches)
    caches = {name: _parts(model.caches[name], recipe) for name in used}
    activations = {}
    rows = [*weights.values()]
    for name in used:
        rows += _cache_rows(model.caches[name], caches[name])
    for op in graph.ops:
        found = tuple(_activations(op, model, weights, caches))
        if found:
            activations[op.id] = found
            rows += (_activation_row(op, one, recipe) for one in found)
    return Precision(weights=weights, caches=caches, activations=activations, rows=tuple(rows))


def _weight(weight: Weight, recipe: Recipe) -> Row:
    stored = tuple(dict.fromkeys(leaf.format for leaf, _ in leaves(weight.source)))
    runs = recipe.weight(weight)
    action, why = _decide(weight, stored, runs)
    return Row(
        kind="weight",
        name=weight.name,
        role=weight.role,
        stored="+".join(stored),
        runs=runs,
        granularity=formats.get(runs).granularity,
        action=action,
        why=why,
    )


def _decide(weight: Weight, stored: tuple[str, ...], runs: str) -> tuple[str, str]:
    """(action, why)."""
    target = formats.get(runs)
    narrow = [name for name in stored if formats.get(name).quantised]
    if not target.quantised:
        asked = f"{weight.role} stays high" if weight.role in KEPT else f"{weight.role} runs so"
        if narrow:
            return "dequantise", asked
        return ("keep", "stored so") if stored == (runs,) else ("cast", asked)
    if not narrow:
        return "quantise", f"{weight.role} runs so"
    other = [name for name in stored if not _holds(target, name)]
    if other:
        return "requantise", f"stored as {other[0]}, {weight.role} runs as {runs}"
    broken = _broken(weight.source, target)
    return ("requantise", broken) if broken else ("keep", "stored so")


def _holds(target: Format, stored: str) -> bool:
    """Whether codes and scales of `stored` are ones of `target`: powers of two are fp32 too."""
    return stored in (target.name, f"{target.name}_ue8m0")


def _broken(expr: Expr, form: Format) -> str:
    """Why the blocks of the stored tensors do not survive in the expression's value, or ""."""
    match expr:
        case Leaf() | Tied():
            return ""
        case Stack():
            return _broken(expr.of, form)
        case Pick():
            return _broken(expr.of, form) or _cut(expr, form)
        case Cat():
            return next(filter(None, (_broken(part, form) for part in expr.of)), "") or _merge(
                expr, form
            )
        case Permute():
            return _broken(expr.of, form) or _turned(expr, form)
        case Reshape():
            same = dims_of(expr.of)[-2:] == expr.dims[-2:]
            return _broken(expr.of, form) or ("" if same else "reshaped across its blocks")
        case Mul():
            return "a product with another tensor"


def _cut(expr: Pick, form: Format) -> str:
    dims = dims_of(expr.of)
    border = form.borders(expr.dim, len(dims))
    places = [expr.start]
    if expr.period < dims[expr.dim]:
        places += [expr.stop, expr.period]
    elif expr.stop < expr.period:
        places += [expr.stop]  # the end of the tensor may be ragged
    off = [place for place in places if place % border]
    return f"cut at {off[0]}, off the borders of {border}" if off else ""


def _merge(expr: Cat, form: Format) -> str:
    if form.name == "fp8_tensor" and len(expr.of) > 1:
        return "merged from tensors with a scale each"
    border = form.borders(expr.dim, len(dims_of(expr)))
    off = [dims_of(part)[expr.dim] for part in expr.of[:-1] if dims_of(part)[expr.dim] % border]
    return f"merged at {off[0]}, off the borders of {border}" if off else ""


def _turned(expr: Permute, form: Format) -> str:
    rank = len(expr.order)
    if expr.order[-2:] == (rank - 2, rank - 1) or form.name == "fp8_tensor":
        return ""
    square = form.cuts[0] == form.cuts[1] > 1
    return "" if square and set(expr.order[-2:]) == {rank - 2, rank - 1} else "turned"


def _parts(cache: CacheSpec, recipe: Recipe) -> dict[str, str]:
    return {part: recipe.part(cache, part) for part, _ in cache.parts}


def _cache_rows(cache: CacheSpec, runs: Mapping[str, str]) -> Iterator[Row]:
    for part, spec in cache.parts:
        form = formats.get(runs[part])
        same = "keep" if form.name == spec.format else "cast"
        yield Row(
            kind="cache",
            name=f"{cache.name}.{part}",
            role=cache.role,
            stored=spec.format,
            runs=form.name,
            granularity=form.granularity,
            action="quantise" if form.quantised else same,
            why=f"{cache.role} is written so" if form.quantised else f"{cache.role} stays high",
        )


def _activations(
    op: Op,
    model: Model,
    weights: Mapping[str, Row],
    caches: Mapping[str, Mapping[str, str]],
) -> Iterator[Activation]:
    """Inputs that the op's own formats ask for: FP8 products take FP8 rows."""
    named = dict(op.weights)
    product = {"x": "weight"}
    asked = {"linear": product, "merged_linear": product, "experts": {"x": "gate", "h": "down"}}
    for slot, weight in asked.get(op.family, {}).items():
        width = model.weights[named[weight]].spec.dims[-1]
        assert isinstance(width, int)
        form = _dynamic(weights[named[weight]].runs, width)
        if op.family == "linear":
            width *= op.attr("groups")
        if form:
            yield Activation(slot=slot, format=form, width=width)
    if op.family == "indexer":
        keys = next(use.cache for use in op.caches if use.slot == "keys")
        form = next(iter(caches[keys].values()))
        if formats.get(form).quantised:
            yield Activation(slot="q", format=form, width=op.attr("head_dim"))


def _dynamic(weight: str, width: int) -> str:
    """The format of the rows that meet a weight in this format, "" when they stay as they are:
    blocks of K inputs meet tiles of K channels (DeepSeek-V3: 128 x 128 and 1 x 128), scales per
    row or tensor one scale per token. Formats of four bits are of the weights alone."""
    form = formats.get(weight)
    if weight.startswith("fp8_b"):
        return f"fp8_t{form.cuts[0]}"
    if weight in ("fp8_channel", "fp8_tensor"):
        return f"fp8_t{width}"
    return "mxfp8" if weight == "mxfp8" else ""


def _activation_row(op: Op, one: Activation, recipe: Recipe) -> Row:
    return Row(
        kind="activation",
        name=f"{op.id}.{one.slot}",
        role=op.family,
        stored=recipe.plain,
        runs=one.format,
        granularity=formats.get(one.format).granularity,
        action="quantise",
        why="the cached keys run so" if op.family == "indexer" else "the weight runs in FP8",
    )
