"""day0 validate: measure a model, check that its state is consistent, and write the report."""

import shlex
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from day0.cli import options
from day0.cli.facts import load_facts
from day0.cli.output import emit, emit_json, errors, write
from day0.cli.progress import steps_progress, weights_progress
from day0.cli.run import interruptible
from day0.cli.validate_view import summary
from day0.errors import Day0Error

if TYPE_CHECKING:
    from day0.runtime.opening import Opened

FORMATS = ("human", "json")
FILES = ("report.json", "report.md", "report.html")


def validate(
    model: options.ModelName = "demo",
    only: options.Only = None,
    cell: options.CellName = None,
    oracle: options.Oracle = None,
    check_layers: options.CheckLayers = None,
    grid: options.Grid = None,
    load: options.LoadKind = "burst",
    repeats: options.Repeats = 3,
    max_context: options.LongestPrompt = None,
    bounds: options.BoundsFile = None,
    baseline: options.Baseline = None,
    seed: options.Seed = 0,
    quant: options.Quant = "bf16",
    backend: options.Backend = "auto",
    device: options.Device = "auto",
    dummy: options.Dummy = False,
    layers: options.Layers = None,
    facts: options.Facts = None,
    plugin: options.Plugin = None,
    without: options.Without = None,
    format: options.Format = "human",
    out: options.ReportFolder = None,
    cache_dir: options.CacheDir = None,
) -> None:
    """Check that every way to the same logits agrees, and measure how fast the model is.

    MODEL may be left out: the demo is validated. Exit 1 when a cell, a length or a bound fails.

    Examples:

        day0 validate demo --backend reference --out validation

        day0 validate FOLDER --oracle transformers --only cells
    """
    if format not in FORMATS:
        raise Day0Error(
            f"--format is {format!r}; it must be one of {', '.join(FORMATS)}",
            hint="day0 validate MODEL --format json",
        )
    _must_take(out)
    stated = load_facts(facts)
    from day0.runtime.opening import open_model
    from day0.runtime.threads import suit_threads
    from day0.validate.run import PARTS, Asked
    from day0.validate.run import validate as run

    def opened(depth: int | None) -> "Opened":
        with weights_progress(errors()) as progress:
            return open_model(
                model, quant=quant, backend=backend, dummy=dummy, seed=seed, layers=depth,
                facts=stated, plugin=plugin, device=device, without=tuple(without or ()),
                cache_dir=cache_dir, progress=progress,
            )  # fmt: skip

    asked = Asked(
        parts=tuple(only or (("cells",) if cell else PARTS)),
        cells=tuple(cell or ()),
        oracle=oracle or "",
        check_layers=check_layers,
        grid=grid or "",
        load=load,
        repeats=repeats,
        max_context=max_context,
        seed=seed,
        bounds=bounds,
        baseline=baseline,
        command=shlex.join(("day0", *sys.argv[1:])),
    )
    with interruptible(model, "validate"):
        found = opened(layers)
        suit_threads(found.model, found.device)
        for note in found.notes:
            errors().print(f"note: {note}", markup=False, soft_wrap=True)
        with steps_progress(errors()) as progress:
            data = run(found, asked, reopen=opened, progress=progress)
    _give(data, format, out)
    if data["verdict"]["status"] == "fail":
        raise typer.Exit(1)


def _give(data: Mapping[str, Any], format: str, out: Path | None) -> None:
    """The files first, so that what is printed last is where they are."""
    paths: list[Path] = []
    if out is not None:
        from day0.report import html, markdown
        from day0.report.validation_page import validation_page

        page = validation_page(data)
        paths = [out / name for name in FILES]
        emit_json(data, paths[0])
        write(markdown.render(page), paths[1])
        write(html.render(page), paths[2])
    if format == "json":
        emit_json(data, None)
    else:
        emit(summary(data, [str(path) for path in paths]), None)


def _must_take(out: Path | None) -> None:
    """Day0Error, before minutes are spent, for a folder that no report can be written to."""
    if out is None:
        return
    if out.exists() and not out.is_dir():
        raise Day0Error(f"--out {out} is a file; it must be a folder", hint="--out DIR")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise Day0Error(
            f"--out {out} cannot be written to: {error.strerror}",
            hint="name a folder that you may write to",
        ) from error
