"""day0 checklist: what has to be true before a model is served, answered from evidence."""

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from day0.analysis.checklist import STATUSES, Checklist
from day0.cli import options
from day0.cli.facts import load_facts
from day0.cli.output import emit, emit_json, errors
from day0.errors import Day0Error

FORMATS = ("human", "json")
SCHEMA = "day0.checklist/1"
COLOURS = {"pass": "green", "fail": "red", "todo": "yellow", "unknown": "dim"}


def checklist(
    model: options.ModelName,
    quant: options.Quant = "bf16",
    evidence: options.Evidence = None,
    stage: options.Stage = None,
    format: options.Format = "human",
    out: options.Out = None,
    strict: options.StrictChecklist = False,
    facts: options.Facts = None,
    require_headers: options.RequireHeaders = False,
    plugin: options.Plugin = None,
    cache_dir: options.CacheDir = None,
) -> None:
    """Answer every item of the checklists that applies to the model: pass, fail, unknown, todo.

    Nothing is pass without evidence: what nobody has measured or run is unknown.

    Examples:

        day0 checklist demo

        day0 run demo --format json --out run.json; day0 checklist demo --evidence run.json
    """
    from day0.analysis.analyze import analyze
    from day0.analysis.checklist import answered
    from day0.analysis.measured import read_evidence
    from day0.cli.progress import header_progress
    from day0.report.analysis_json import to_json

    if format not in FORMATS:
        raise Day0Error(
            f"--format is {format!r}; it must be one of {', '.join(FORMATS)}",
            hint="day0 checklist MODEL --format json",
        )
    with header_progress(errors()) as progress:
        data = to_json(
            analyze(
                model,
                quant=quant,
                stated=load_facts(facts),
                require_headers=require_headers,
                plugin=plugin,
                cache_dir=cache_dir,
                progress=progress,
            )
        )
    of = data["model"]
    measured = read_evidence(
        evidence or (), model=of["id"], revision=of["revision"], recipe=data["recipe"]
    )
    found = _of_stage(answered(data, measured), stage)
    if format == "json":
        counts = {status: found.count(status) for status in STATUSES}
        emit_json(
            {
                "schema": SCHEMA,
                "model": {key: of[key] for key in ("id", "revision", "origin")},
                "recipe": data["recipe"],
                "counts": counts,
                "checklist": found.rows(),
                "left_out": list(found.left_out),
            },
            out,
        )
    else:
        emit(_page(of["id"], data["recipe"], found), out)
    if strict and found.count("fail"):
        raise typer.Exit(1)


def _of_stage(found: Checklist, stage: str | None) -> Checklist:
    """The items of one stage alone; a family's name stands for "ops/<family>"."""
    if stage is None:
        return found
    stages = list(dict.fromkeys(mark.stage for mark in found.marks))
    wanted = stage if stage in stages else f"ops/{stage}"
    if wanted not in stages:
        raise Day0Error(
            f"--stage is {stage!r}; for this model there are {', '.join(stages)}",
            hint="day0 checklist MODEL shows all of them",
        )
    return Checklist(
        marks=tuple(mark for mark in found.marks if mark.stage == wanted),
        left_out=tuple(name for name in found.left_out if name.startswith(f"{wanted}/")),
    )


def _page(name: str, recipe: str, found: Checklist) -> RenderableType:
    counts = ", ".join(f"{found.count(status)} {status}" for status in STATUSES)
    parts: list[RenderableType] = [Text(f"{name}, recipe {recipe}: {counts}")]
    for stage in dict.fromkeys(mark.stage for mark in found.marks):
        table = Table(box=None, pad_edge=False, show_header=False, title_justify="left")
        table.add_column(width=7)
        table.add_column(ratio=2)
        table.add_column(ratio=3)
        for mark in found.marks:
            if mark.stage == stage:
                status = Text(mark.status, style=COLOURS[mark.status])
                table.add_row(status, Text(mark.ask), Text(mark.evidence))
        parts += ["", Text(stage, style="bold"), table]
    if found.left_out:
        parts += ["", Text(f"not for this model and recipe: {', '.join(found.left_out)}")]
    return Group(*parts)
