"""day0 analyze: what a model is, whether its tensors agree, and what is new in it."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from day0.cli import options
from day0.cli.facts import load_facts
from day0.cli.output import emit, emit_json, emit_text, errors
from day0.errors import Day0Error, DoesNotFit
from day0.parallel.mesh import Mesh, parse

if TYPE_CHECKING:
    from day0.analysis.analyze import Analysis

FORMATS = ("human", "json", "md", "html", "recipe-yaml")


def analyze(
    model: options.ModelName,
    quant: options.Quant = "bf16",
    format: options.ReportFormat = "human",
    out: options.Out = None,
    strict: options.Strict = False,
    facts: options.Facts = None,
    require_headers: options.RequireHeaders = False,
    plan: options.Plan = None,
    passes: options.Passes = False,
    gpu: options.Gpu = None,
    num_gpus: options.NumGpus = None,
    mesh: options.PlanMesh = None,
    plugin: options.Plugin = None,
    cache_dir: options.CacheDir = None,
) -> None:
    """Read config.json and tensor headers (no weights), build the Graph, prove it, judge it.

    Examples:

        day0 analyze demo

        day0 analyze catalog:moonshotai--kimi-k3 --plan parallel --gpu h200 --num-gpus 16

        day0 analyze catalog:zai-org--glm-5.3-flash --format html --out report.html

        day0 analyze catalog:moonshotai--kimi-k3 --mesh tp8ep8
    """
    from day0.analysis.analyze import analyze as run
    from day0.cli.progress import header_progress

    if format not in FORMATS:
        raise Day0Error(
            f"--format is {format!r}; it must be one of {', '.join(FORMATS)}",
            hint="day0 analyze MODEL --format json",
        )
    plans = _plans(plan, format)
    if passes and plans:
        raise Day0Error(
            f"--passes is given beside --plan {plans[0]}; the terminal shows one of them",
            hint="day0 analyze MODEL --passes, or --format json for all",
        )
    shape = _mesh(mesh, format, "--passes" if passes else f"--plan {plans[0]}" if plans else "")
    with header_progress(errors()) as progress:
        result = run(
            model,
            quant=quant,
            stated=load_facts(facts),
            require_headers=require_headers,
            plugin=plugin,
            gpu=gpu,
            num_gpus=num_gpus,
            cache_dir=cache_dir,
            progress=progress,
        )
    if shape is None:
        _show(result, format, out, plans, passes=passes)
    else:
        _show_mesh(result, shape, format, out)
    if strict and result.machine.stated:
        _must_fit(result)
    if strict and any(finding.severity != "info" for finding in result.findings):
        raise typer.Exit(1)


def _plans(asked: list[str] | None, format: str) -> tuple[str, ...]:
    """Names of --plan, checked before anything is read; the other formats have all plans."""
    if not asked:
        return ()
    from day0.report.plans import chosen

    names = chosen(asked)
    return names if format == "human" else ()


def _mesh(text: str | None, format: str, beside: str) -> Mesh | None:
    """What --mesh spells, checked before anything is read."""
    if text is None:
        return None
    if beside or format not in ("human", "json"):
        raise Day0Error(
            f"--mesh is given with {beside or f'--format {format}'}; it is shown alone, as human "
            "or json",
            hint=f"day0 analyze MODEL --mesh {text}",
        )
    return parse(text)


def _show_mesh(result: "Analysis", mesh: Mesh, format: str, out: Path | None) -> None:
    from day0.analysis.sharded import as_json, sharded

    capability = result.machine.gpu.capability
    found = sharded(result.model, result.recipe, capability, mesh)
    if format == "json":
        from day0.report.analysis_json import to_json

        emit_json({**to_json(result), "mesh": as_json(found)}, out)
        return
    from day0.report.mesh_view import render

    emit(render(result, found), out)


def _show(
    result: "Analysis", format: str, out: Path | None, plans: tuple[str, ...], *, passes: bool
) -> None:
    """Each format loads what it needs and no more."""
    if plans:
        from day0.report.plans import render as render_plans

        emit(render_plans(result, plans), out)
        return
    if format == "human" and passes:
        from day0.report.passes import render as render_passes

        emit(render_passes(result), out)
        return
    if format == "human":
        from day0.report.terminal import render

        emit(render(result), out)
        return
    from day0.report.analysis_json import to_json
    from day0.report.analysis_page import analysis_page

    data = to_json(result)
    if format == "json":
        emit_json(data, out)
    elif format == "md":
        from day0.report import markdown

        emit_text(markdown.render(analysis_page(data)), out)
    elif format == "recipe-yaml":
        from day0.report import recipe_yaml

        emit_text(recipe_yaml.render(data), out)
    else:
        from day0.report import html

        emit_text(html.render(analysis_page(data)), out)


def _must_fit(result: "Analysis") -> None:
    """DoesNotFit where no split of the stated machine is legal and holds one sequence."""
    from day0.analysis.parallel.plan import plan_of

    plan = plan_of(result)
    if plan.fits:
        return
    gpu, count = plan.machine.gpu.name, plan.machine.count
    wider = f"--gpu {gpu} --num-gpus {plan.needed}" if plan.needed else "--quant fp8"
    raise DoesNotFit(
        f"no legal split of {result.id} over {count} x {gpu} has room for one sequence of "
        f"{plan.assumed.context:,} tokens",
        hint=f"day0 analyze {result.id} {wider} --plan parallel",
    )
