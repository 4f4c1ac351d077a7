"""A GPU made of definitions: what `choose` takes there, bound and run on a CPU.

Each kernel's place is taken by the definition of its parity pair, which has the same parameters, so
that codes, scales and pages are read as the kernel reads them; library calls are what they are.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from day0.checkpoint.headers import Headers
from day0.ir.graph import Model
from day0.ir.recipe import Recipe
from day0.passes.lower import Lowered, Target, lower
from day0.registry.index import family
from day0.runtime import session
from day0.runtime.session import Session, Sizes, open_session
from day0_kernels.case import op_module
from day0_kernels.index import REFERENCES

HOPPER = (9, 0)
SIZES = Sizes(tokens=128, sequences=4, chunk=64)


def lowered(model: Model, recipe: Recipe, without: tuple[str, ...] = ()) -> dict[str, Lowered]:
    """As on a Hopper GPU."""
    target = Target(
        backend="auto", recipe=recipe, references=REFERENCES, without=without, capability=HOPPER
    )
    return lower(model, target)


def on_definitions(low: Lowered) -> Lowered:
    choices = {
        op: replace(choice, entry=_definition(choice.family, choice.entry))
        for op, choice in low.choices.items()
    }
    return replace(low, choices=choices)


def opened(
    model: Model,
    recipe: Recipe,
    *,
    headers: Headers | None = None,
    folder: Path | None = None,
    sizes: Sizes = SIZES,
    without: tuple[str, ...] = (),
    **more: Any,
) -> Session:
    """A session over the lowered graphs of a GPU, on the CPU."""

    def fake(*_: Any, **__: Any) -> Mapping[str, Lowered]:
        found = lowered(model, recipe, without)
        return {phase: on_definitions(low) for phase, low in found.items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "lowered_for", fake)
        return open_session(
            model, recipe, headers=headers, folder=folder, backend="auto", sizes=sizes,
            without=without, **more,
        )  # fmt: skip


def _definition(name: str, entry: str) -> str:
    impl = next((impl for impl in family(name).impls if impl.entry == entry), None)
    if impl is None or not impl.parity:
        return entry
    op, _, wanted = impl.parity.partition("/")
    cases = op_module(op)
    case = next(case for case in cases.CASES if case.name == wanted)
    return next(pair.reference for pair in cases.PAIRS if pair.name == case.pair)
