"""Which weights a session holds."""

from collections.abc import Collection, Mapping
from pathlib import Path

import torch

from day0.checkpoint.headers import Headers
from day0.ir.recipe import Recipe
from day0.passes.lower import Lowered
from day0.runtime.files import Files
from day0.runtime.forms import codings_of, roundings, weight_dtype
from day0.runtime.loader import Dummy, load


def loaded(
    lowered: Mapping[str, Lowered],
    recipe: Recipe,
    *,
    headers: Headers | None,
    folder: Path | None,
    dummy_seed: int | None,
    device: torch.device,
    known: Collection[str] = (),
) -> tuple[dict[str, torch.Tensor], int]:
    """The weights that the lowered graphs use, by name, and bytes read from files; `known` ones are
    there already."""
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
        rounding_of=roundings(low.precision, made_up=files is None),
        coding_of=codings_of(low),
        is_kept=lambda weight: low.precision.weights[weight.name].action == "keep",
    )
    if files is not None:
        files.close()
    return dict(weights), 0 if files is None else files.num_bytes
