"""What a decode step costs before anybody measures it: launches by kind of layer, and the floor."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from day0.analysis.layers import layer_view
from day0.ir.recipe import Recipe
from day0.models import ModelSpec
from day0.passes.choose import BUILT_IN
from day0.passes.floor import floor_s
from day0.passes.lower import PHASES, SPECULATIVE, Lowered
from day0.registry.family import Context
from day0.runtime.opening import Opened
from day0.runtime.session import lowered_for

HOPPER = (9, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLaunches:
    """Equal layers: what they are, which, their ops and the kernels that one of them starts in a
    decode step, as the chosen implementations declare it."""

    kind: str
    layers: tuple[int, ...]
    ops: int
    launches: int


def planned(opened: Opened, phase: str = "decode") -> tuple[Lowered, str]:
    """The decode or verify step that launches and floor are told of, and of which device it is: the
    one that runs, or on a CPU, where nothing is launched, an H200's."""
    if opened.device != "cpu":
        return opened.lowered[phase], opened.device
    found = lowered_for(
        opened.model, opened.recipe, "auto", without=opened.without, capability=HOPPER,
        phases=SPECULATIVE if phase == "verify" else PHASES, place=opened.place,
    )  # fmt: skip
    return found[phase], "h200"


def launches_by_kind(low: Lowered, spec: ModelSpec, recipe: Recipe) -> tuple[LayerLaunches, ...]:
    """By kind of layer, in the order of their first ones; what stands outside layers is left out.
    A fused op belongs to the layer of its first part."""
    launches = low.launches(recipe)
    found: dict[int, list[int]] = {}
    for op in low.graph.ops:
        if op.layer >= 0:
            found.setdefault(op.layer, []).append(launches[op.id])
    alike: dict[tuple[str, int, int], list[int]] = {}
    for layer, counts in found.items():
        view = layer_view(layer, spec.layers[layer], spec.residual.stem)
        kind = " + ".join(filter(None, (view["mixer"], view["ffn"])))
        alike.setdefault((kind, len(counts), sum(counts)), []).append(layer)
    return tuple(
        LayerLaunches(kind=kind, layers=tuple(layers), ops=ops, launches=count)
        for (kind, ops, count), layers in alike.items()
    )


def definitions(low: Lowered) -> int:
    """Ops that no kernel takes: their launches are not known and count as one each."""
    return sum(
        choice.backend not in ("triton", "library") and choice.family not in BUILT_IN
        for choice in low.choices.values()
    )


def per_layer(kinds: Sequence[LayerLaunches]) -> float | None:
    """Launches of a layer on average; None without layers."""
    every = [kind.launches for kind in kinds for _ in kind.layers]
    return mean(every) if every else None


def decode_floor_ms(
    low: Lowered, recipe: Recipe, *, rows: float, length: float, each: int = 1
) -> float:
    """Least milliseconds of a step of `rows` rows, `each` of one sequence (more than one: a verify
    step), with `length` tokens a sequence, by the bytes and operations that an H200 does."""
    context = Context(phase="decode", length=max(round(length), 1), rows=max(round(rows), 1))
    return floor_s(low, recipe, context, shared=each) * 1e3
