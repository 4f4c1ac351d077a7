"""day0 analyze: what a model is, whether its tensors agree, and what is new in it."""

import typer

from day0.cli import options
from day0.cli.facts import load_facts
from day0.cli.output import emit, emit_json, errors
from day0.errors import Day0Error

FORMATS = ("human", "json")


def analyze(
    model: options.ModelName,
    quant: options.Quant = "bf16",
    format: options.Format = "human",
    out: options.Out = None,
    strict: options.Strict = False,
    facts: options.Facts = None,
    require_headers: options.RequireHeaders = False,
    plugin: options.Plugin = None,
    cache_dir: options.CacheDir = None,
) -> None:
    """Read config.json and tensor headers (no weights), build the Graph, prove it, judge it.

    Examples:

        day0 analyze demo

        day0 analyze catalog:zai-org--glm-5.3-flash --format json
    """
    from day0.analysis.analyze import analyze as run
    from day0.cli.progress import header_progress
    from day0.report.analysis_json import to_json
    from day0.report.terminal import render

    if format not in FORMATS:
        raise Day0Error(
            f"--format is {format!r}; it must be one of {', '.join(FORMATS)}",
            hint="day0 analyze MODEL --format json",
        )
    with header_progress(errors()) as progress:
        result = run(
            model,
            quant=quant,
            stated=load_facts(facts),
            require_headers=require_headers,
            plugin=plugin,
            cache_dir=cache_dir,
            progress=progress,
        )
    if format == "json":
        emit_json(to_json(result), out)
    else:
        emit(render(result), out)
    if strict and any(finding.severity != "info" for finding in result.findings):
        raise typer.Exit(1)
