"""How weights and cache parts lie in memory: dtypes, roundings and codes, as the recipe says."""

from collections.abc import Callable, Mapping

import torch

from day0.ir import format as formats
from day0.ir.recipe import Recipe
from day0.ir.weight import Weight
from day0.passes.lower import Lowered
from day0.passes.quantize import Precision
from day0.runtime.codes import Coding, coding
from day0.runtime.emulate import Rounding, rounding
from day0.runtime.loader import DTYPES


def weight_dtype(recipe: Recipe) -> Callable[[Weight], torch.dtype]:
    """The torch dtype a weight is held in: fp32 for the values of narrow formats, which the
    definitions multiply as they are."""
    plain = DTYPES[recipe.plain]

    def dtype(weight: Weight) -> torch.dtype:
        runs = recipe.weight(weight)
        return torch.float32 if formats.get(runs).quantised else DTYPES.get(runs, plain)

    return dtype


def roundings(precision: Precision, *, made_up: bool) -> Callable[[Weight], Rounding | None]:
    """How a loaded weight is rounded: not at all where its stored codes are kept. Weights that
    are `made_up` have no codes."""

    def of(weight: Weight) -> Rounding | None:
        row = precision.weights[weight.name]
        kept = row.action == "keep" and not made_up
        return None if kept else rounding(row.runs)

    return of


def codings_of(lowered: Lowered) -> Callable[[Weight], Coding | None]:
    """How a weight that is held as codes is written."""

    def of(weight: Weight) -> Coding | None:
        runs = lowered.precision.weights[weight.name].runs
        return coding(runs) if weight.name in lowered.held.weights else None

    return of


def coded(runs: Mapping[str, str]) -> dict[str, Coding]:
    """Codings by part; plain parts are left out."""
    found = {part: coding(name) for part, name in runs.items()}
    return {part: one for part, one in found.items() if one is not None}
