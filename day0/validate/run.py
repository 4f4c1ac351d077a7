"""`day0 validate`: the matrix, the lengths and the speed of one model, put together as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from day0.errors import Day0Error
from day0.runtime.api import Loaded
from day0.runtime.kernel_cache import watch
from day0.runtime.metrics import FORMULAS
from day0.runtime.opening import Opened
from day0.validate import lengths as long
from day0.validate.bounds import SCHEMA, against, bounded, read_baseline, read_bounds
from day0.validate.cells.oracle import must_have_files
from day0.validate.environment import environment
from day0.validate.fitting import layers_to_check, must_fit
from day0.validate.grid import DEFAULT, REPEATS, grid_called
from day0.validate.load import load_called
from day0.validate.matrix import Looked, cells_called, look
from day0.validate.metrics import Metric
from day0.validate.oracle import ORACLES, package
from day0.validate.speed import Progress, Speed, fitting, measured, sizes_of
from day0.validate.subject import Subject

PARTS = ("cells", "lengths", "speed")
# Tokens of the longest prompt of the sweep where nobody says.
LONGEST = {"cpu": 256, "cuda": 32768}
Open = Callable[[int | None], Opened]  # layers (None: as the user asked) -> the model


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call asks for; the options of `day0 validate` of the same names. `command` repeats
    the call."""

    parts: tuple[str, ...] = PARTS
    cells: tuple[str, ...] = ()
    oracle: str = ""
    check_layers: int | None = None
    grid: str = ""
    load: str = "burst"
    repeats: int = REPEATS
    max_context: int | None = None
    seed: int = 0
    bounds: Path | None = None
    baseline: Path | None = None
    command: str = ""


def validate(
    opened: Opened, asked: Asked, *, reopen: Open, progress: Progress | None = None
) -> dict[str, Any]:
    """The report, schema day0.report/1. `reopen` gives the model with fewer layers.

    Day0Error for what the call gets wrong, before anything long runs; DoesNotFit for a grid that
    the model's context cannot hold.
    """
    cells, bounds, earlier, kind = _checked(opened, asked)
    points = grid_called(asked.grid or DEFAULT[kind])
    load = load_called(asked.load)
    context = opened.model.spec.context_length
    points = fitting(points, context) if "speed" in asked.parts else ()
    compiles = watch()
    looked: tuple[Looked, ...] = ()
    swept: list[dict[str, Any]] = []
    far: list[dict[str, Any]] = []
    checked = opened
    if points:
        must_fit(opened, sizes_of(points))
    if "cells" in asked.parts or "lengths" in asked.parts:
        depth = asked.check_layers or layers_to_check(opened)
        checked = opened if depth is None else reopen(depth)
        longest = min(asked.max_context or LONGEST[kind], context or 1 << 40)
        subject = Subject(checked, seed=asked.seed, longest=longest)
        if "cells" in asked.parts:
            looked = look(subject, cells, progress=progress)
        if "lengths" in asked.parts:
            swept = [found.row() for found in long.sweep(subject)]
            far = long.limits_of(subject.session())
        subject.close()
    speed: Speed | None = None
    implementations: Sequence[tuple[str, str, tuple[str, ...], int]] = ()
    if points:
        loaded = Loaded(opened, sizes_of(points))
        speed = measured(
            loaded, points, load=load, seed=asked.seed, repeats=asked.repeats,
            compiles=compiles, progress=progress,
        )  # fmt: skip
        implementations = loaded.implementations
    rows = [one.row() for one in looked]
    metrics = bounded((*_of_cells(looked), *(speed.metrics if speed else ())), bounds)
    return {
        "schema": SCHEMA,
        "model": {
            "id": opened.name,
            "origin": opened.origin,
            "revision": opened.revision,
            "layers": len(opened.model.spec.layers),
            "checked_layers": len(checked.model.spec.layers),
        },
        "recipe": opened.recipe.name,
        "backend": opened.backend,
        "device": opened.device,
        "environment": environment(opened.device),
        "command": asked.command,
        "seed": asked.seed,
        "load": asked.load,
        "repeats": asked.repeats,
        "notes": [*opened.notes, *_cut(asked, context), *(speed.notes if speed else ())],
        "verdict": verdict(rows, swept, metrics),
        "metrics": [metric.row() for metric in metrics],
        "formulas": FORMULAS,
        "grid": [one.row() for one in speed.grid] if speed else [],
        "memory": speed.memory if speed else {},
        "floor_by_family": speed.by_family if speed else [],
        "cells": rows,
        "lengths": swept,
        "limits": far,
        "implementations": [
            {"family": family, "impl": impl, "formats": list(formats), "count": count}
            for family, impl, formats, count in implementations
        ],
        "baseline": against(metrics, rows, earlier) if earlier else [],
    }


def _cut(asked: Asked, context: int | None) -> tuple[str, ...]:
    """That prompts are shorter than asked for, where they are."""
    if asked.max_context is None or context is None or asked.max_context <= context:
        return ()
    return (
        f"--max-context is {asked.max_context:,}; the model states {context:,}, "
        "and no longer prompt was run",
    )


def verdict(
    cells: Sequence[Mapping[str, Any]],
    swept: Sequence[Mapping[str, Any]],
    metrics: Sequence[Metric],
) -> dict[str, Any]:
    """What fails: nothing, or by name."""
    failed = {
        "cells": [cell["id"] for cell in cells if cell["status"] == "fail"],
        "lengths": [row["tokens"] for row in swept if row["status"] == "fail"],
        "bounds": [m.name for m in metrics if m.broken and not m.name.startswith("cells_")],
    }
    return {"status": "fail" if any(failed.values()) else "pass", **failed}


def _checked(
    opened: Opened, asked: Asked
) -> tuple[tuple[Any, ...], Mapping[str, float], Mapping[str, Any] | None, str]:
    """What can be wrong with a call, found before anything is run."""
    for part in asked.parts:
        if part not in PARTS:
            raise Day0Error(
                f"--only is {part!r}; it must be one of {', '.join(PARTS)}",
                hint=f"day0 validate {opened.name} --only {PARTS[0]}",
            )
    if asked.oracle and asked.oracle not in ORACLES:
        raise Day0Error(
            f"--oracle is {asked.oracle!r}; it must be one of {', '.join(ORACLES)}",
            hint=f"day0 validate {opened.name} --oracle {ORACLES[0]}",
        )
    if asked.oracle:
        must_have_files(opened)
        package()
    layers = len(opened.model.spec.layers)
    if asked.check_layers is not None and asked.check_layers > layers:
        raise Day0Error(
            f"--check-layers is {asked.check_layers}; {opened.name} has {layers} layers here",
            hint=f"day0 validate {opened.name} --check-layers {layers}",
        )
    cells = cells_called(asked.cells, with_oracle=bool(asked.oracle))
    kind = opened.device.partition(":")[0]
    bounds = read_bounds(asked.bounds)
    earlier = None
    if asked.baseline is not None:
        name = environment(opened.device)["device_name"]
        earlier = read_baseline(
            asked.baseline, model=opened.name, recipe=opened.recipe.name, device=name
        )
    return cells, bounds, earlier, kind


def _of_cells(looked: Sequence[Looked]) -> tuple[Metric, ...]:
    """How many cells passed and failed, and the figures that cells took."""
    if not looked:
        return ()
    statuses = [one.outcome.status for one in looked]
    figures = {name: value for one in looked for name, value in one.outcome.figures.items()}
    counted = (
        Metric(name="cells_failed", value=float(statuses.count("fail")), bound=0.0, how="counted"),
        Metric(name="cells_passed", value=float(statuses.count("pass")), how="counted"),
    )
    return (*counted, *(Metric(name=name, value=value) for name, value in figures.items()))
