"""Which weights a session holds, and in what form: as codes, rounded, or plain."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import torch

from day0.checkpoint.headers import Headers
from day0.ir import format as formats
from day0.ir.recipe import Recipe
from day0.ir.weight import Weight
from day0.passes.lower import Lowered
from day0.passes.quantize import Precision
from day0.runtime.codes import Coding, coding
from day0.runtime.emulate import Rounding, rounding
from day0.runtime.loader import DTYPES, Dummy, Files, load


def loaded(
    lowered: Mapping[str, Lowered],
    recipe: Recipe,
    *,
    headers: Headers | None,
    folder: Path | None,
    dummy_seed: int | None,
    device: torch.device,
    known: Collection[str] = (),
) -> dict[str, torch.Tensor]:
    """The weights that the lowered graphs use, by name; `known` ones are there already."""
    used = {name for low in lowered.values() for op in low.graph.ops for _, name in op.weights}
    used -= set(known)
    files = None
    if dummy_seed is None:
        assert folder is not None, "weights come from files"
        assert headers is not None, "files are read by their headers"
        files = Files(folder, headers)
    low = lowered["prefill"]
    weights = load(
        (weight for name, weight in lowered["prefill"].weights.items() if name in used),
        files=files,
        dummy=None if dummy_seed is None else Dummy(dummy_seed, device),
        dtype_of=weight_dtype(recipe),
        device=device,
        rounding_of=_roundings(low.precision, made_up=files is None),
        coding_of=_codings(low),
        is_kept=lambda weight: low.precision.weights[weight.name].action == "keep",
    )
    if files is not None:
        files.close()
    return dict(weights)


def weight_dtype(recipe: Recipe) -> Callable[[Weight], torch.dtype]:
    """The torch dtype a weight is held in: fp32 for the values of narrow formats, which the
    definitions multiply as they are."""
    plain = DTYPES[recipe.plain]

    def dtype(weight: Weight) -> torch.dtype:
        runs = recipe.weight(weight)
        return torch.float32 if formats.get(runs).quantised else DTYPES.get(runs, plain)

    return dtype


def _roundings(precision: Precision, *, made_up: bool) -> Callable[[Weight], Rounding | None]:
    """How a loaded weight is rounded: not at all where its stored codes are kept. Weights that
    are `made_up` have no codes."""

    def of(weight: Weight) -> Rounding | None:
        row = precision.weights[weight.name]
        kept = row.action == "keep" and not made_up
        return None if kept else rounding(row.runs)

    return of


def _codings(lowered: Lowered) -> Callable[[Weight], Coding | None]:
    """How a weight that is held as codes is written."""

    def of(weight: Weight) -> Coding | None:
        runs = lowered.precision.weights[weight.name].runs
        return coding(runs) if weight.name in lowered.held.weights else None

    return of
