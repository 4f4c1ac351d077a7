"""What has to be written before a model runs well: its new operators, and the layers they stand in.

Pure findings; day0.scaffold turns them into files.
"""

import keyword
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from day0.analysis.analyze import Analysis
from day0.analysis.inventory import Entry
from day0.ir.graph import Model
from day0.ir.weight import leaves
from day0.models.unexplained import Unexplained, unexplained
from day0.passes.choose import BUILT_IN
from day0.registry import index

# Parameters that an entry has for other reasons (runtime.binder).
RESERVED = frozenset(
    """
    x y rows history history_x cu_history history_first cu_seqlens positions seq start length slot
    last
    """.split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One weight of a new operator: the parameter `name`, the tensor's name below the module
    ("{e}" for one of `count` equal ones under a new first dim), its dims and stored format."""

    name: str
    tail: str
    dims: tuple[int, ...]
    format: str
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOperator:
    """An operator to write. `stem` names its folder; `status` new or quant-rework, with `reasons`;
    `entries`: its rows of the inventory, one for each distinct shape.

    A known `family` says `what` it is and has a `reference` ("module:function"). Where the family
    is "", `module` is the submodule that its `weights` stand in.
    """

    stem: str
    family: str
    status: str
    reasons: tuple[str, ...]
    entries: tuple[Entry, ...]
    what: str = ""
    reference: str = ""
    module: str = ""
    weights: tuple[Tensor, ...] = ()

    @property
    def layers(self) -> tuple[int, ...]:
        """Where it stands."""
        return tuple(sorted({layer for entry in self.entries for layer in entry.layers}))

    @property
    def count(self) -> int:
        """Operators of the graph."""
        return sum(entry.count for entry in self.entries)

    @property
    def params(self) -> int:
        """Parameters over all of them."""
        return sum(entry.params for entry in self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBlock:
    """A kind of mixer or feed-forward (`slot`) that no mechanism knows: its operators by stem, in
    the order of their modules, and the layers that have it."""

    stem: str
    slot: str
    operators: tuple[str, ...]
    layers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkList:
    """`name`: the model's, fit for a module. `left` says what is unknown without a tensor to go
    by, and so cannot be begun."""

    name: str
    operators: tuple[NewOperator, ...]
    blocks: tuple[NewBlock, ...]
    left: tuple[str, ...]


def worklist(analysis: Analysis) -> WorkList:
    """The new operators of a model: unknown modules first, then families that lack a kernel."""
    name = identifier(analysis.spec.model_type or analysis.id.rstrip("/").rpartition("/")[2], 24)
    found, left = unexplained(analysis.spec)
    operators: dict[tuple[str, str, tuple[str, ...]], NewOperator] = {}
    blocks: dict[tuple[str, tuple[str, ...]], NewBlock] = {}
    for part in found:
        stems = []
        for module, shapes in part.modules:
            key = part.slot, module, tuple(tail for tail, _ in shapes)
            if key not in operators:
                taken = {operator.stem for operator in operators.values()}
                operators[key] = _unknown(analysis, part, module, shapes, name, taken)
            stems.append(operators[key].stem)
        kind = part.slot, tuple(stems)
        layers = (*blocks[kind].layers, part.layer) if kind in blocks else (part.layer,)
        blocks[kind] = NewBlock(
            stem=stems[0], slot=part.slot, operators=tuple(stems), layers=layers
        )
    return WorkList(
        name=name,
        operators=(*operators.values(), *_known(analysis)),
        # A block whose tensors contain another's is asked first.
        blocks=tuple(sorted(blocks.values(), key=lambda block: -len(block.operators))),
        left=left,
    )


def identifier(text: str, length: int = 64) -> str:
    """`text` as a lower-case Python name of at most so many letters; "model" where nothing is left
    of it."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()[:length].rstrip("_")
    name = name or "model"
    return f"m_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name


def _known(analysis: Analysis) -> Iterator[NewOperator]:
    """Families with a schema and a definition. Those that a plugin brought are its to finish."""
    rows = [
        entry
        for entry in analysis.entries
        if entry.verdict.status != "reuse"
        and entry.family != "unknown"
        and entry.family not in BUILT_IN
        and not index.is_added(entry.family)
    ]
    for family in dict.fromkeys(entry.family for entry in rows):
        kind = index.family(family)
        definition = next((i.entry for i in kind.impls if i.backend == "reference"), "")
        if not definition:
            continue
        entries = tuple(entry for entry in rows if entry.family == family)
        statuses = {entry.verdict.status for entry in entries}
        yield NewOperator(
            stem=family,
            family=family,
            what=kind.what,
            reference=definition,
            status="new" if "new" in statuses else "quant-rework",
            reasons=_reasons(entries),
            entries=entries,
        )


def _unknown(
    analysis: Analysis,
    part: Unexplained,
    module: str,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    name: str,
    taken: set[str],
) -> NewOperator:
    prefix = f"layers.{part.layer}.{part.slot}.{module}."
    tails = {tail for tail, _ in shapes}
    entries = tuple(
        entry
        for entry in analysis.entries
        if entry.family == "unknown" and _tails(entry, module, part.slot, analysis.model) == tails
    )
    weights = tuple(_tensors(shapes, prefix, analysis.model))
    return NewOperator(
        stem=_free(
            f"{name}_{identifier(module, 20)}", lambda stem: stem in taken or index.exists(stem)
        ),
        family="",
        module=module,
        status="new",
        reasons=_reasons(entries),
        entries=entries,
        weights=weights,
    )


def _tails(entry: Entry, module: str, slot: str, model: Model) -> set[str]:
    """Names below the module of an unknown operator's tensors; none if it is another module's."""
    first = entry.ops[0]
    if not first.endswith(f".{slot}.{module}"):
        return set()
    return {name[len(first) + 1 :] for name in model.weights if name.startswith(f"{first}.")}


def _tensors(
    shapes: tuple[tuple[str, tuple[int, ...]], ...], prefix: str, model: Model
) -> Iterator[Tensor]:
    """Numbered equal tensors as one, scales with the tensor that they belong to."""
    stored = {tail: next(leaves(model.weights[prefix + tail].source))[0] for tail, _ in shapes}
    companions = {part for leaf in stored.values() for _, part in leaf.parts if part != leaf.name}
    groups: dict[str, list[tuple[int, ...]]] = {}
    formats: dict[str, str] = {}
    for tail, dims in shapes:
        if stored[tail].name in companions:
            continue
        pattern = re.sub(r"(^|\.)\d+(\.)", r"\1{e}\2", tail, count=1)
        groups.setdefault(pattern, []).append(dims)
        formats[pattern] = stored[tail].format
    taken: set[str] = set()
    for pattern, dims in groups.items():
        count = len(dims) if "{e}" in pattern else 0
        parameter = _free(_parameter(pattern), taken.__contains__)
        taken.add(parameter)
        yield Tensor(
            name=parameter,
            tail=pattern,
            dims=(count, *dims[0]) if count else dims[0],
            format=formats[pattern],
            count=count,
        )


def _parameter(tail: str) -> str:
    name = identifier(tail.removesuffix(".weight").replace("{e}.", ""))
    return f"{name}_weight" if name in RESERVED or name[-1].isdigit() else name


def _free(name: str, taken: Callable[[str], bool]) -> str:
    """`name`, or with a number where somebody has it."""
    number, free = 1, name
    while taken(free):
        number += 1
        free = f"{name}_{number}"
    return free


def _reasons(entries: tuple[Entry, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reason for entry in entries for reason in entry.verdict.reasons))
