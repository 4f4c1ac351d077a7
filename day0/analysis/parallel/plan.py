"""The parallel plan of a model on a machine, as data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from day0.analysis.inventory import Entry
from day0.analysis.kinds import Kinds, kinds_of
from day0.analysis.machine import MOST, Assumed, Machine
from day0.analysis.parallel.mesh import DEGREES, Law, Mesh, legal_degrees, meshes
from day0.analysis.parallel.predict import Memory, Predictor, Sent, Times
from day0.analysis.parallel.sequence import Sequence, sequence
from day0.analysis.parallel.share import Shares, Step
from day0.analysis.parallel.traffic import Traffic
from day0.analysis.parallel.values import Values
from day0.ir import format as formats
from day0.ir.graph import Group, Model
from day0.ir.recipe import Recipe
from day0.registry.index import family
from day0.registry.judge import judge

if TYPE_CHECKING:
    from day0.analysis.analyze import Analysis

# Groups that no rank loads: drafts that nobody runs, tables that stay on the host.
_LEFT = ("mtp", "lookup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """Tensor-parallel degrees in one set of formats; `illegal`: (degree, all reasons)."""

    formats: str
    legal: tuple[int, ...]
    illegal: tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A legal mesh. `sequences` of the assumed context fit at once on one engine; `times` only
    where it fits. `prefill`, `decode`: bytes sent for one prompt, and for one token of one
    sequence. `fallback`: operators that an optimised kernel takes whole but not split so."""

    mesh: Mesh
    memory: Memory
    fits: bool
    sequences: int
    prefill: Sent
    decode: Sent
    times: Times | None
    fallback: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Illegal:
    """Meshes with the same reasons against them."""

    meshes: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelPlan:
    """`latency`, `throughput`: names of the recommended meshes, "" when nothing fits or operators
    are unknown. `needed`: of
    the same GPU the smallest doubled number on which something fits (0: none up to the most that
    is planned for). `one_holds`, `all_hold`: whether the checkpoint's bytes alone have room."""

    machine: Machine
    checkpoint_bytes: int
    one_holds: bool
    all_hold: bool
    degrees: tuple[Degrees, ...]
    choices: tuple[Choice, ...]
    illegal: tuple[Illegal, ...]
    latency: str
    throughput: str
    needed: int
    sequence: Sequence
    unknown: int

    @property
    def assumed(self) -> Assumed:
        return self.machine.assumed

    @property
    def fits(self) -> bool:
        return any(choice.fits for choice in self.choices)

    def choice(self, name: str) -> Choice | None:
        """The legal mesh of this name."""
        return next((choice for choice in self.choices if choice.mesh.name == name), None)


def plan(
    model: Model,
    recipe: Recipe,
    entries: tuple[Entry, ...],
    machine: Machine,
    checkpoint_bytes: int,
) -> ParallelPlan:
    """`entries`: the inventory under `recipe`; `checkpoint_bytes`: as the model is stored."""
    found = kinds_of(model, recipe, entries)
    law = Law(found)
    shares = Shares(found, recipe, machine)
    predictor = Predictor(
        shares,
        Values(model.graphs["main"], found),
        Traffic(model, shares),
        aside=_aside(model.groups),
    )
    experts = any(kind.expert is not None for kind in found.kinds)
    choices: list[Choice] = []
    refused: dict[tuple[str, ...], list[str]] = {}
    fallbacks = _Fallbacks(shares)
    for mesh in meshes(machine.count, experts=experts):
        reasons = law.reasons(mesh)
        if reasons:
            refused.setdefault(reasons, []).append(mesh.name)
        else:
            choices.append(_choice(mesh, predictor, fallbacks))
    fitting = [choice for choice in choices if choice.times]
    unknown = sum(len(kind.layers) for kind in found.kinds if kind.op.family == "unknown")
    judged = [] if unknown else fitting
    latency = min(judged, key=lambda choice: _alone(choice, machine.assumed), default=None)
    throughput = max(judged, key=_together, default=None)
    return ParallelPlan(
        machine=machine,
        checkpoint_bytes=checkpoint_bytes,
        one_holds=checkpoint_bytes <= machine.gpu.memory,
        all_hold=checkpoint_bytes <= machine.gpu.memory * machine.count,
        degrees=tuple(_degrees(found, recipe, law)),
        choices=tuple(choices),
        illegal=tuple(
            Illegal(meshes=tuple(names), reasons=reasons) for reasons, names in refused.items()
        ),
        latency=latency.mesh.name if latency else "",
        throughput=throughput.mesh.name if throughput else "",
        needed=machine.count if fitting else _needed(law, predictor, experts),
        sequence=sequence(found, model.spec.shape.hidden_size, machine.assumed.context),
        unknown=unknown,
    )


def plan_of(analysis: "Analysis") -> ParallelPlan:
    """Of an analysed model on the machine it was analysed for."""
    return plan(
        analysis.model,
        analysis.recipe,
        analysis.entries,
        analysis.machine,
        analysis.bytes.checkpoint,
    )


def _aside(groups: tuple[Group, ...]) -> int:
    return sum(group.bytes for group in groups if group.role not in _LEFT)


def _degrees(found: Kinds, recipe: Recipe, law: Law) -> Iterator[Degrees]:
    """In the recipe's formats and, where these differ, in the checkpoint's."""
    laws = [(f"recipe {recipe.name}", law)]
    quantised = [
        spec.format
        for kind in found.kinds
        for slot, spec in kind.stored.weights.items()
        if formats.get(spec.format).quantised and spec.format != kind.shapes.weights[slot].format
    ]
    if quantised:
        name = f"as stored ({', '.join(sorted(set(quantised)))})"
        laws.append((name, Law(found, stored=True)))
    for name, one in laws:
        legal = legal_degrees(one)
        yield Degrees(
            formats=name,
            legal=legal,
            illegal=tuple(
                (n, (*one.of("tp", n), *one.of("experts", n))) for n in DEGREES if n not in legal
            ),
        )


def _choice(mesh: Mesh, predictor: Predictor, fallbacks: "_Fallbacks") -> Choice:
    assumed = predictor.machine.assumed
    memory = predictor.memory(mesh)
    most = predictor.most_sequences(mesh, memory)
    prompt = Step(phase="prefill", rows=assumed.prompt, length=assumed.prompt)
    token = Step(phase="decode", rows=1, length=assumed.context)
    return Choice(
        mesh=mesh,
        memory=memory,
        fits=most > 0,
        sequences=most,
        prefill=predictor.sent(mesh, prompt),
        decode=predictor.sent(mesh, token),
        times=predictor.times(mesh, most) if most > 0 else None,
        fallback=fallbacks.of(mesh),
    )


class _Fallbacks:
    """Operators that lose their kernel by the split (field case 94), once per degree."""

    def __init__(self, shares: Shares) -> None:
        self.shares = shares
        self._known: dict[int, str] = {}
        capability = shares.machine.gpu.capability
        self._whole = [
            judge(family(kind.op.family), kind.shapes, capability=capability).status
            for kind in shares.found.kinds
        ]

    def of(self, mesh: Mesh) -> tuple[str, ...]:
        found = []
        for number, status in enumerate(self._whole):
            if status != "reuse":
                continue
            told = self._judged(number, mesh)
            if told:
                found.append(told)
        return tuple(dict.fromkeys(found))

    def _judged(self, number: int, mesh: Mesh) -> str:
        part = self.shares.part(number, mesh)
        if id(part) not in self._known:
            kind = self.shares.found.kinds[number]
            capability = self.shares.machine.gpu.capability
            verdict = judge(family(kind.op.family), part.shapes, capability=capability)
            told = "" if verdict.status == "reuse" else f"{kind.op.id}: {verdict.reasons[0]}"
            self._known[id(part)] = told
        return self._known[id(part)]


def _alone(choice: Choice, assumed: Assumed) -> tuple[float, int]:
    """Seconds of one request on an idle engine; of equals the one with the fewest ranks."""
    assert choice.times
    seconds = choice.times.ttft + assumed.output * choice.times.tpot
    return seconds, -choice.mesh.replicas


def _together(choice: Choice) -> tuple[float, int]:
    assert choice.times
    return choice.times.tokens_per_second, choice.mesh.replicas


def _needed(law: Law, predictor: Predictor, experts: bool) -> int:
    """The first doubling of the machine that holds one sequence."""
    machine = predictor.machine
    count = machine.count
    whole = predictor.shares.weights(Mesh(), predictor.whole)
    while count * 2 <= MOST:
        count *= 2
        if whole > count * machine.usable:
            continue
        for mesh in meshes(count, experts=experts):
            if mesh.replicas > 1 or law.reasons(mesh):
                continue
            if predictor.memory(mesh).total <= machine.usable:
                return count
    return 0
