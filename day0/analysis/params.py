"""Parameters and bytes: every stored tensor once, tied heads and shared weights included once."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from day0.checkpoint.headers import Headers
from day0.ir import format as formats
from day0.ir.graph import Model
from day0.ir.recipe import RECIPES
from day0.ir.weight import Leaf, leaves
from day0.registry.family import Context
from day0.registry.index import family
from day0.registry.shapes import shapes_of

DRAFT = "mtp."


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """Logical elements. `total` is all that is stored: trunk, drafts and opaque groups. `active`
    is what one token multiplies with in the trunk: chosen experts, everything else once, the
    output head but not the input embedding's rows. `lookup`: tables read by row only."""

    total: int
    trunk: int
    drafts: int
    opaque: int
    active: int
    embedding: int
    lookup: int
    by_role: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """`checkpoint`: stored data, from the headers where there are some (else by format)."""

    checkpoint: int
    by_format: Mapping[str, int]


def count(model: Model) -> Params:
    """Counts of a model."""
    by_role: dict[str, int] = defaultdict(int)
    seen: set[str] = set()
    trunk = drafts = 0
    for name, weight in model.weights.items():
        for expr in (weight.source, *weight.padding):
            for leaf, stack in leaves(expr):
                if leaf.name in seen:
                    continue
                seen.add(leaf.name)
                elements = _elements(leaf, stack)
                if name.startswith(DRAFT):
                    drafts += elements
                    by_role["mtp"] += elements
                else:
                    trunk += elements
                    by_role[weight.role] += elements
    opaque = 0
    for group in model.groups:
        opaque += group.params
        by_role[group.role] += group.params
    return Params(
        total=trunk + drafts + opaque,
        trunk=trunk,
        drafts=drafts,
        opaque=opaque,
        active=_active(model),
        embedding=by_role.get("embedding", 0),
        lookup=by_role.get("lookup", 0),
        by_role=dict(sorted(by_role.items())),
    )


def _active(model: Model) -> int:
    """Elements of weights that the trunk's ops touch per token, each use of the experts by its
    share, the embedding's and lookup tables' rows not counted (a tied head counts as head)."""
    graph = model.graphs["main"]
    shares: dict[str, float] = {}
    for op in graph.ops:
        kind = family(op.family)
        shapes = shapes_of(op, graph, model, RECIPES["bf16"])
        part = kind.share(shapes, Context())
        for slot, name in op.weights:
            if model.weights[name].role in ("embedding", "lookup") and op.family != "linear":
                continue
            shares[name] = max(shares.get(name, 0.0), part.get(slot, 1.0))
    return round(sum(share * model.weights[name].spec.width for name, share in shares.items()))


def stored_bytes(model: Model, headers: Headers | None) -> Bytes:
    """Bytes by storage format, scales with their weights."""
    by_format: dict[str, int] = defaultdict(int)
    seen: set[str] = set()
    for weight in model.weights.values():
        for expr in (weight.source, *weight.padding):
            for leaf, stack in leaves(expr):
                if leaf.name not in seen:
                    seen.add(leaf.name)
                    size = formats.get(leaf.format).bytes(leaf.dims)
                    by_format[leaf.format] += size * max(stack, 1)
    for group in model.groups:
        by_format[f"opaque:{group.role}"] += group.bytes
    total = sum(by_format.values()) if headers is None else headers.data_bytes
    return Bytes(checkpoint=total, by_format=dict(sorted(by_format.items())))


def _elements(leaf: Leaf, stack: int) -> int:
    total = max(stack, 1)
    for dim in leaf.dims:
        total *= dim
    return total
