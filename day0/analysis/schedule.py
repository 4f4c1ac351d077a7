"""The scheduling plan: what runs side by side, what is captured, and what is compiled beforehand.

It tells what the passes did (`streams`, `choose`) and what `day0 run --prepare` compiles, and
decides nothing itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from day0.analysis.layers import layer_view
from day0.ir.graph import Model
from day0.ir.recipe import Recipe
from day0.passes.capturable import refusals
from day0.passes.dependencies import dependencies, waists
from day0.passes.duration import CONTEXTS, Duration, durations
from day0.passes.lifetimes import lanes_of
from day0.passes.lower import Lowered
from day0.passes.streams import critical, seconds_of
from day0.passes.warm_up import Specialisation, decode_sizes, prefill_rows, specialisations
from day0.registry.rates import H200

# What a plan is made for until a run says how many sequences and rows it has.
SEQUENCES, ROWS = 256, 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Ops that run side by side: ids by lane, and predicted seconds one after another and so."""

    lanes: tuple[tuple[str, ...], ...]
    serial_s: float
    scheduled_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Equal layers, or what stands before ("input") and after ("output") all layers. Figures are
    of one of them: `launches`, predicted seconds one after another, in its lanes, and along the
    longest chain. `groups` in order; ops outside them run one after another in lane 0."""

    name: str
    layers: tuple[int, ...]
    num_ops: int
    launches: int
    serial_s: float
    scheduled_s: float
    critical_s: float
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of a step. `captured`: as a CUDA graph; `because`: what speaks against it."""

    phase: str
    captured: bool
    because: tuple[str, ...]
    num_lanes: int
    num_waits: int
    launches: int
    serial_s: float
    scheduled_s: float
    critical_s: float
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`phases`, the kernels to compile (`warm_up`) with the sizes at which steps are run for it,
    and communication that could hide behind an op: none on one card."""

    phases: tuple[Phase, ...]
    warm_up: tuple[Specialisation, ...]
    decode_sizes: tuple[int, ...]
    prefill_rows: tuple[int, ...]
    communication: tuple[str, ...] = ()


def schedule(model: Model, recipe: Recipe, lowered: Mapping[str, Lowered]) -> Schedule:
    """The plan of a model's lowered graphs by phase."""
    kinds = [
        layer_view(index, layer, model.spec.residual.stem)
        for index, layer in enumerate(model.spec.layers)
    ]
    names = [" + ".join(filter(None, (kind["mixer"], kind["ffn"]))) for kind in kinds]
    return Schedule(
        phases=tuple(_phase(recipe, low, names) for low in lowered.values()),
        warm_up=specialisations(lowered),
        decode_sizes=decode_sizes(SEQUENCES),
        prefill_rows=prefill_rows(ROWS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ops:
    """What is known of a phase's ops, by their number in program order: the lane, the stretch
    between two waists, predicted times, launches, dependencies."""

    low: Lowered
    lane: tuple[int, ...]
    stretch: tuple[int, ...]
    times: tuple[Duration, ...]
    launches: tuple[int, ...]
    before: tuple[tuple[int, ...], ...]


def _phase(recipe: Recipe, low: Lowered, names: Sequence[str]) -> Phase:
    graph, made = low.graph, low.graph.schedule
    because = refusals((op.family, low.choices[op.id].entry) for op in graph.ops)
    if low.phase != "decode":
        because = ("prompts have any number of rows; no size of them is captured", *because)
    before = dependencies(graph)
    known = _Ops(
        low=low,
        lane=lanes_of(graph),
        stretch=_stretches(before),
        times=durations(graph, low, recipe, low.choices, CONTEXTS[low.phase], H200),
        launches=tuple(low.launches(recipe).values()),
        before=before,
    )
    serial = sum(time.total for time in known.times)
    return Phase(
        phase=low.phase,
        captured=not because,
        because=because,
        num_lanes=1 if made is None else len(made.lanes),
        num_waits=0 if made is None else sum(len(others) for _, others in made.waits),
        launches=sum(known.launches),
        serial_s=serial,
        scheduled_s=serial if made is None else made.scheduled_s,
        critical_s=critical(before, known.times),
        blocks=_blocks(known, names),
    )


def _blocks(known: _Ops, names: Sequence[str]) -> tuple[Block, ...]:
    """Layers with the same operators in the same lanes are one block, shown by its first layer."""
    ops = known.low.graph.ops
    first = next((n for n, op in enumerate(ops) if op.layer >= 0), len(ops))
    of_layer: dict[tuple[str, int], list[int]] = {}
    for number, op in enumerate(ops):
        outside = ("input", -1) if number < first else ("output", -1)
        key = (names[op.layer], op.layer) if 0 <= op.layer < len(names) else outside
        of_layer.setdefault(key, []).append(number)
    alike: dict[object, list[tuple[str, int]]] = {}
    for key, numbers in of_layer.items():
        what = tuple((ops[n].family, known.lane[n], known.launches[n]) for n in numbers)
        alike.setdefault((key[0], what), []).append(key)
    return tuple(_block(known, keys, of_layer[keys[0]]) for keys in alike.values())


def _stretches(before: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """For every op the stretch between two waists it lies in; a waist is one of its own."""
    alone, stretch, result = set(waists(before)), 0, []
    for number in range(len(before)):
        stretch += number in alone
        result.append(stretch)
        stretch += number in alone
    return tuple(result)


def _block(known: _Ops, keys: Sequence[tuple[str, int]], numbers: Sequence[int]) -> Block:
    stretches: dict[int, list[int]] = {}
    for number in numbers:
        stretches.setdefault(known.stretch[number], []).append(number)
    groups, saved = [], 0.0
    for stretch in stretches.values():
        if any(known.lane[n] for n in stretch):
            groups.append(_group(known, stretch))
            saved += groups[-1].serial_s - groups[-1].scheduled_s
    spent = [known.times[n] for n in numbers]
    serial = sum(time.total for time in spent)
    return Block(
        name=keys[0][0],
        layers=tuple(layer for _, layer in keys if layer >= 0),
        num_ops=len(numbers),
        launches=sum(known.launches[n] for n in numbers),
        serial_s=serial,
        scheduled_s=serial - saved,
        critical_s=critical(_within(known.before, numbers), spent),
        groups=tuple(groups),
    )


def _group(known: _Ops, stretch: Sequence[int]) -> Group:
    spent, lanes = [known.times[n] for n in stretch], [known.lane[n] for n in stretch]
    wait_s = H200.wait_s[known.low.phase]
    ops = known.low.graph.ops
    return Group(
        lanes=tuple(
            tuple(ops[n].id for n in stretch if known.lane[n] == own)
            for own in range(max(lanes) + 1)
        ),
        serial_s=sum(time.total for time in spent),
        scheduled_s=seconds_of(_within(known.before, stretch), spent, lanes, wait_s),
    )


def _within(
    before: tuple[tuple[int, ...], ...], numbers: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Dependencies among `numbers` alone, by their places there."""
    place = {number: at for at, number in enumerate(numbers)}
    return tuple(tuple(place[dep] for dep in before[n] if dep in place) for n in numbers)
