"""A kind of operator: its closed schema, its shapes, its cost and what implements it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from day0.errors import NotSupported
from day0.ir.rows import LAST
from day0.ir.tensor import TensorSpec
from day0.registry.ways import Way


class IllegalAttribute(NotSupported, ValueError):
    """An attribute has a value that its family does not know: mostly a word of a config."""


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attr:
    """One attribute: the types its value may have, its default, the values allowed (() = any).
    `restated`: shapes tell it too, so an implementation need not take it."""

    kinds: tuple[type, ...]
    default: Any = REQUIRED
    choices: tuple[Any, ...] = ()
    restated: bool = False


def number(default: Any = REQUIRED, *, restated: bool = False) -> Attr:
    """A whole number."""
    return Attr(kinds=(int,), default=default, restated=restated)


def real(default: Any = REQUIRED) -> Attr:
    """A real number, or None where None is the default."""
    kinds = (int, float) if default is not None else (int, float, type(None))
    return Attr(kinds=kinds, default=default)


def flag(default: Any = REQUIRED) -> Attr:
    """A switch."""
    return Attr(kinds=(bool,), default=default)


def word(*choices: str, default: Any = REQUIRED) -> Attr:
    """One of the given words."""
    return Attr(kinds=(str,), default=default, choices=choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """What an op looks like to its family: specs by slot, and attributes.

    `inputs` and `weights` hold TensorSpecs, `caches` the specs of one entry (parts in order).
    """

    inputs: Mapping[str, TensorSpec]
    weights: Mapping[str, TensorSpec]
    caches: Mapping[str, tuple[TensorSpec, ...]]
    attrs: Mapping[str, Any]

    def width(self, slot: str) -> int:
        """Elements per row of an input."""
        return self.inputs[slot].width

    def rows(self, slot: str) -> str:
        """Name of the input's leading Rows."""
        return str(self.inputs[slot].dims[0])

    @property
    def lead(self) -> str:
        """Name of the Rows that the op works on: those of its first input."""
        return str(next(iter(self.inputs.values())).dims[0]) if self.inputs else ""

    def size(self, slot: str) -> int:
        """Elements of a weight; 0 when the optional slot is empty."""
        return self.weights[slot].width if slot in self.weights else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a cost is asked for: `phase` "prefill" (the average row of a prompt of `length`
    tokens) or "decode" (one row with `length` tokens before it). `rows` of a step share its
    weights: parts of them that a step touches are those that any of its rows touches."""

    phase: str = "decode"
    length: int = 4096
    rows: int = 1

    def of_rows(self, rows: str) -> "Context":
        """The same for an op whose rows are so called: of one prompt only the last one counts
        where the graph asks for no more."""
        return replace(self, rows=1) if self.phase == "prefill" and rows == LAST.name else self

    @property
    def seen(self) -> float:
        """Tokens that a causal row sees: all in decode, half of them on average in prefill."""
        return self.length if self.phase == "decode" else (self.length + 1) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Impl:
    """One implementation of a family.

    `backend`: "triton" or "library" (optimised), or "reference". `entry`: "module:name",
    imported when it runs. `formats`: per weight or cache slot the formats it accepts ({} any).
    `attrs`: per attribute the values it accepts. `limits`: reasons from the op's sizes.
    `parity`: the parity case that proves it ("op/case"), "" for library calls, whose proof is
    the library's own. `launches`: kernels that one call starts with few rows, by the op's shapes
    where they decide.
    """

    backend: str
    entry: str
    phases: tuple[str, ...] = ("prefill", "decode")
    formats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    attrs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    limits: Callable[[Shapes], tuple[str, ...]] | None = None
    min_capability: tuple[int, int] = (0, 0)
    graph_safe: bool = True
    parity: str = ""
    launches: int | Callable[[Shapes], int] = 1

    @property
    def optimised(self) -> bool:
        return self.backend in ("triton", "library")

    def refuses_attrs(self, shapes: Shapes) -> tuple[str, ...]:
        """Reasons from attributes and sizes; () when it takes the op."""
        reasons = [
            f"{name}={shapes.attrs[name]!r} (takes {', '.join(map(repr, allowed))})"
            for name, allowed in self.attrs.items()
            if shapes.attrs[name] not in allowed
        ]
        if self.limits is not None:
            reasons.extend(self.limits(shapes))
        return tuple(reasons)

    def refuses_formats(self, shapes: Shapes) -> tuple[str, ...]:
        """Reasons from storage formats; () when it takes all."""
        reasons = []
        for slot, allowed in self.formats.items():
            if slot in shapes.weights and shapes.weights[slot].format not in allowed:
                have = shapes.weights[slot].format
                reasons.append(f"{slot} stored as {have} (takes {', '.join(allowed)})")
            for spec in shapes.caches.get(slot, ()):
                if spec.format not in allowed:
                    reasons.append(f"{slot} cached as {spec.format} (takes {', '.join(allowed)})")
        return tuple(reasons)


def reference(entry: str) -> Impl:
    """The definition of a family: right everywhere, fast nowhere."""
    return Impl(backend="reference", entry=entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`status` "reuse", "quant-rework" or "new"; `impl` the entry that takes the op or ""."""

    status: str
    impl: str = ""
    reasons: tuple[str, ...] = ()


def _no_entries(shapes: Shapes, context: Context) -> Mapping[str, float]:
    return {}


def _no_ways(shapes: Shapes) -> tuple[Way, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Slots ending in "?" are optional, in "*" any number under that stem (a0, a1, ...).

    `infer` gives the output specs. `flops` counts multiply and add as two, per row of the first
    input. `entries` gives, per cache slot, the entries that one row reads. `share` gives the part
    of a weight that the step's rows touch (1 where not named): experts hit. `whole`: weight slots
    that hold whole numbers; all others hold real ones. `rowwise`: a row of the outputs depends on
    the same row of the inputs and on nothing else of the step, not even its position.

    `sends`: of a collective, the bytes that one rank sends per row of the first input.
    `ways`: how ranks may share the op; without one each of them does all of it. `sums`: inputs in
    which the op is linear, so that partial sums may pass through it. `transition`: elements of
    the map that a segment of a sequence applies to the recurrent state, by which the state is
    handed on to the next segment's rank.
    """

    name: str
    what: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    infer: Callable[[Shapes], Mapping[str, TensorSpec]]
    flops: Callable[[Shapes, Context], float]
    weights: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    entries: Callable[[Shapes, Context], Mapping[str, float]] = _no_entries
    share: Callable[[Shapes, Context], Mapping[str, float]] = _no_entries
    impls: tuple[Impl, ...] = ()
    whole: tuple[str, ...] = ()
    rowwise: bool = False
    sends: Callable[[Shapes], float] | None = None
    ways: Callable[[Shapes], tuple[Way, ...]] = _no_ways
    sums: tuple[str, ...] = ()
    transition: Callable[[Shapes], int] | None = None

    def complete(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes with defaults filled in; ValueError for unknown, missing or illegal ones."""
        unknown = sorted(set(attrs) - set(self.attrs))
        if unknown:
            known = ", ".join(sorted(self.attrs)) or "none"
            raise ValueError(f"{self.name} has no attribute {unknown[0]!r} (it has: {known})")
        done = {}
        for name, rule in sorted(self.attrs.items()):
            value = attrs.get(name, rule.default)
            if value is REQUIRED:
                raise ValueError(f"{self.name} needs attribute {name!r}")
            if value is not rule.default and not _fits(value, rule):
                raise IllegalAttribute(
                    f"{self.name} attribute {name}={value!r} must be "
                    f"{' or '.join(map(repr, rule.choices)) or _names(rule.kinds)}",
                    hint="state the fact behind it: day0 analyze MODEL --facts FILE",
                )
            done[name] = value
        return done

    def check_slots(self, kind: str, given: Mapping[str, Any]) -> None:
        """ValueError when slots are missing or unknown; `kind` is inputs, weights or caches."""
        declared: tuple[str, ...] = getattr(self, kind)
        required = {slot for slot in declared if slot[-1] not in "?*"}
        optional = {slot[:-1] for slot in declared if slot.endswith("?")}
        many = tuple(slot[:-1] for slot in declared if slot.endswith("*"))
        missing = required - set(given)
        if missing:
            raise ValueError(f"{self.name} needs {kind} {sorted(missing)}")
        for slot in given:
            if slot in required or slot in optional:
                continue
            if any(slot.startswith(stem) and slot[len(stem) :].isdigit() for stem in many):
                continue
            raise ValueError(f"{self.name} has no {kind} slot {slot!r} (it has: {declared})")


def _fits(value: Any, rule: Attr) -> bool:
    if rule.choices:
        return value in rule.choices
    if isinstance(value, bool) and bool not in rule.kinds:
        return False
    return isinstance(value, rule.kinds)


def _names(kinds: tuple[type, ...]) -> str:
    return " or ".join(kind.__name__ for kind in kinds)
