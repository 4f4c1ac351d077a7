"""Matches an implementation's parameter names to an op's slots, attributes, caches and the Step.

Done once per op: a name that nothing gives is an error at bind time, never during a run.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch

from day0.ir.cache import CacheSpec
from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.ir.rows import LAST, TOKENS
from day0.ir.tensor import TensorSpec
from day0.passes.quantize import Activation
from day0.registry.index import family
from day0.runtime.emulate import emulated
from day0.runtime.loader import SCALE
from day0.runtime.pools import paged, span_of
from day0.runtime.step import Step
from day0.runtime.storage import History, Storage

STEP = ("cu_seqlens", "positions", "seq", "start", "length", "slot", "last")


@dataclass(slots=True)
class Frame:
    """What a running step holds: the Step, values by name, histories computed so far."""

    step: Step
    values: dict[str, torch.Tensor]
    histories: dict[tuple[int, int], History]


Getter = Callable[[Frame], Any]
After = Callable[[Frame, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A bound op: `arguments` by parameter name, and what to do with them after the call."""

    op: Op
    entry: str
    function: Callable[..., None]
    arguments: tuple[tuple[str, Getter], ...]
    after: tuple[tuple[str, After], ...] = ()

    def run(self, frame: Frame) -> None:
        given = {name: getter(frame) for name, getter in self.arguments}
        self.function(**given)
        for name, finish in self.after:
            finish(frame, given[name])


class BindError(ValueError):
    """A parameter that no slot, attribute, cache part or Step field is called."""


def bind(
    op: Op,
    entry: str,
    *,
    graph: Graph,
    weights: Mapping[str, torch.Tensor],
    storage: Storage,
    dtype: torch.dtype,
    device: torch.device,
    activations: tuple[Activation, ...] = (),
    history: torch.dtype | None = None,
    beside: Mapping[str, Getter] | None = None,
) -> Call:
    """The call of `entry` for `op`; inputs named in `activations` are rounded before it. `history`:
    what quantised entries are read in as contiguous history, fp32 unless given. `beside`: more to
    be had, or other things under known names."""
    module, _, name = entry.partition(":")
    function = getattr(import_module(module), name)
    offers, after = _offers(op, graph, weights, storage, dtype, device, history)
    offers |= beside or {}
    _must_be_read(op, function, entry)
    arguments, finishes = [], []
    for parameter in inspect.signature(function).parameters.values():
        offer = offers.get(parameter.name)
        if offer is None:
            if parameter.default is inspect.Parameter.empty:
                raise BindError(
                    f"{op.id}: {entry} asks for {parameter.name!r}; the {op.family} op has "
                    f"{', '.join(sorted(offers))}"
                )
            continue
        arguments.append((parameter.name, offer))
        if parameter.name in after:
            finishes.append((parameter.name, after[parameter.name]))
    return Call(
        op=op,
        entry=entry,
        function=emulated(op, function, activations),
        arguments=tuple(arguments),
        after=tuple(finishes),
    )


def take_rows(op: Op, storage: Storage) -> Call:
    """The rows whose logits are wanted."""
    (_, x), (_, y) = op.inputs[0], op.outputs[0]

    def take(frame: Frame) -> None:
        frame.values[y] = frame.values[x][frame.step.last]

    return Call(
        op=op,
        entry="runtime:take_rows",
        function=take,
        arguments=(("frame", lambda frame: frame),),
    )


def cache_write(op: Op, storage: Storage) -> Call:
    """The one op that is nothing but addressing: rows to their places in pages."""
    use = op.caches[0]
    cache = storage.caches[use.cache]
    values = [value for _, value in op.inputs]

    def write(frame: Frame) -> None:
        storage.write_entries(cache, frame.step, [frame.values[value] for value in values])

    return Call(
        op=op,
        entry="runtime:cache_write",
        function=write,
        arguments=(("frame", lambda frame: frame),),
    )


def _offers(
    op: Op,
    graph: Graph,
    weights: Mapping[str, torch.Tensor],
    storage: Storage,
    dtype: torch.dtype,
    device: torch.device,
    history: torch.dtype | None,
) -> tuple[dict[str, Getter], dict[str, After]]:
    offers: dict[str, Getter] = {
        name: (lambda frame, name=name: getattr(frame.step, name)) for name in STEP
    }
    after: dict[str, After] = {}
    _offer_caches(op, storage, offers, after, history)
    for name, value in op.attrs:
        offers[name] = lambda frame, value=value: value
    for slot, name in op.weights:
        for ending, key in (("", name), ("_scale", name + SCALE)):
            if key in weights:
                offers[slot + ending] = lambda frame, key=key: weights[key]
    listed: dict[str, list[str]] = {}
    for slot, name in op.weights:
        stem = slot.rstrip("0123456789")
        if stem != slot:
            listed.setdefault(stem, []).append(name)
    for stem, names in listed.items():
        offers[stem] = lambda frame, names=names: [weights[name] for name in names]
    lists: dict[str, list[str]] = {}
    for slot, value in op.inputs:
        offers[slot] = lambda frame, value=value: frame.values[value]
        stem = slot.rstrip("0123456789")
        if stem != slot:
            lists.setdefault(stem, []).append(value)
    for stem, values in lists.items():
        offers[stem] = lambda frame, values=values: [frame.values[value] for value in values]
    several: dict[str, list[tuple[str, TensorSpec]]] = {}
    for slot, value in op.outputs:
        stem = slot.rstrip("0123456789")
        several.setdefault(stem, []).append((value, graph.values[value]))
    for stem, values in several.items():
        kept = FORMATS.get(values[0][1].format, dtype)
        offers[stem] = _buffer(values, kept, device, _rows_of(op, graph, values[0][1]))
    return offers, after


def _must_be_read(op: Op, function: Callable[..., None], entry: str) -> None:
    """An attribute that the entry does not take must stand at its default, or follow from shapes:
    a mode that nobody reads would be a silent fault (field case 131), and so would a bias or a
    sink."""
    rules = family(op.family).attrs
    parameters = inspect.signature(function).parameters
    for name, value in op.attrs:
        rule = rules[name]
        if name not in parameters and not rule.restated and value != rule.default:
            raise BindError(f"{op.id}: {entry} does not take {name}={value!r}")
    for slot, _ in (*op.inputs, *op.weights, *op.outputs):
        if not {slot, slot.rstrip("0123456789")} & set(parameters):
            raise BindError(f"{op.id}: {entry} does not take the op's {slot!r}")


FORMATS = {
    "int32": torch.int32,
    "int64": torch.int64,
    "fp32": torch.float32,
    "fp8_e4m3": torch.float8_e4m3fn,
}


def _rows_of(op: Op, graph: Graph, spec: TensorSpec) -> Callable[[Frame], int]:
    """How many rows an output has: those of the step, its last ones, or an input's whose rows were
    counted while the step ran."""
    lead = spec.dims[0]
    if lead == TOKENS.name:
        return lambda frame: frame.step.num_rows
    if lead == LAST.name:
        return lambda frame: frame.step.last.shape[0]
    alike = next(value for _, value in op.inputs if graph.values[value].dims[0] == lead)
    return lambda frame: frame.values[alike].shape[0]


def _buffer(
    values: list[tuple[str, TensorSpec]],
    dtype: torch.dtype,
    device: torch.device,
    rows_of: Callable[[Frame], int],
) -> Getter:
    """One buffer for a value, or for several side by side, whose slices they become."""
    inner = tuple(dim for dim in values[0][1].dims if isinstance(dim, int))
    widths = [spec.width for _, spec in values]

    def make(frame: Frame) -> torch.Tensor:
        rows = rows_of(frame)
        if len(values) == 1:
            whole = torch.empty((rows, *inner), dtype=dtype, device=device)
            frame.values[values[0][0]] = whole
            return whole
        whole = torch.empty((rows, sum(widths)), dtype=dtype, device=device)
        for (name, _), part in zip(values, whole.split(widths, dim=-1), strict=True):
            frame.values[name] = part
        return whole

    return make


def _offer_caches(
    op: Op,
    storage: Storage,
    offers: dict[str, Getter],
    after: dict[str, After],
    dtype: torch.dtype | None,
) -> None:
    """Slotted parts as whole buffers. Paged parts twice: as contiguous history (dequantised),
    written back if "w", and under `<part>_pages` as the pages themselves, with the step's `table`
    of them, and those of their scales under `<part>_scale_pages` where they are codes."""
    several = len([use for use in op.caches if paged(storage.caches[use.cache])]) > 1
    parts = [part for use in op.caches for part, _ in storage.caches[use.cache].parts]
    for use in op.caches:
        cache = storage.caches[use.cache]
        for part, _ in cache.parts:
            long = f"{use.slot}_{part}"
            if not paged(cache):
                buffer = storage.parts[cache.name][part]
                for name in (long,) if parts.count(part) > 1 else (long, part):
                    offers[name] = lambda frame, buffer=buffer: buffer
                continue
            pages = {"pages": storage.parts[cache.name][part].flatten(2)}
            if part in storage.scales[cache.name]:
                pages["scale_pages"] = storage.scales[cache.name][part].flatten(2)
            for name in (long,) if several else (long, part):
                offers[name] = _gathered(storage, cache, part, dtype)
                for ending, buffer in pages.items():
                    offers[f"{name}_{ending}"] = lambda frame, buffer=buffer: buffer
                if "w" in use.mode:
                    after[name] = _scattered(storage, cache, part)
        if paged(cache):
            for field in ("cu_history", "history_first", "table"):
                for name in (f"{use.slot}_{field}",) if several else (f"{use.slot}_{field}", field):
                    offers[name] = _field(storage, cache, field)


def _gathered(storage: Storage, cache: CacheSpec, part: str, dtype: torch.dtype | None) -> Getter:
    def gather(frame: Frame) -> torch.Tensor:
        history = storage.history(cache, frame.step, frame.histories)
        return storage.gather(cache, part, history, dtype)

    return gather


def _scattered(storage: Storage, cache: CacheSpec, part: str) -> After:
    def scatter(frame: Frame, value: torch.Tensor) -> None:
        history = storage.history(cache, frame.step, frame.histories)
        storage.scatter(cache, part, history, value)

    return scatter


def _field(storage: Storage, cache: CacheSpec, field: str) -> Getter:
    def read(frame: Frame) -> torch.Tensor:
        if field == "table":
            return frame.step.tables[span_of(cache)]
        return getattr(storage.history(cache, frame.step, frame.histories), field)

    return read
