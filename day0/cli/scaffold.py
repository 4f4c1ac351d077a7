"""day0 scaffold: a package with the files to fill in for what is new in a model."""

from pathlib import Path
from typing import TYPE_CHECKING

from day0.cli import options
from day0.cli.facts import load_facts
from day0.cli.output import emit_text, errors

if TYPE_CHECKING:
    from day0.analysis.analyze import Analysis
    from day0.scaffold.files import Written


def scaffold(
    model: options.ModelName,
    out: options.OutFolder,
    quant: options.Quant = "bf16",
    facts: options.Facts = None,
    plugin: options.Plugin = None,
    cache_dir: options.CacheDir = None,
    target: options.Target = "day0",
    force: options.Force = False,
) -> None:
    """Write an installable package: operators, mechanisms, tests and a checklist for what is new.

    Files that are there already are kept, unless with --force. Where nothing is new, nothing is
    written. --target vllm or sglang writes the skeleton of an engine's plugin instead.

    Examples:

        day0 scaffold demo --out new

        day0 analyze demo --plugin new

        day0 scaffold demo --out plugin --target vllm
    """
    from day0.analysis.analyze import analyze
    from day0.analysis.checklist import answered
    from day0.cli.progress import header_progress
    from day0.report.analysis_json import to_json
    from day0.scaffold.targets import check_target
    from day0.scaffold.targets import scaffold as write

    check_target(target)
    with header_progress(errors()) as progress:
        analysis = analyze(
            model,
            quant=quant,
            stated=load_facts(facts),
            plugin=plugin,
            cache_dir=cache_dir,
            progress=progress,
        )
    checklist = answered(to_json(analysis))
    written = write(analysis, checklist, Path(out), target=target, force=force)
    lines = _lines(written) or [
        f"nothing to write for {model}: under the recipe {quant} {_said(analysis)}.",
        f"Its checklist: day0 checklist {model} --quant {quant}",
    ]
    emit_text("".join(f"{line}\n" for line in lines), None)


def _said(analysis: "Analysis") -> str:
    """Of a model without an operator to begin."""
    entries = [entry for entry in analysis.entries if entry.verdict.status != "reuse"]
    if names := ", ".join(dict.fromkeys(entry.family for entry in entries)):
        return f"what is new is there to be finished: {names}"
    return "every operator has an optimised implementation"


def _lines(written: "Written") -> list[str]:
    if not (written.written or written.same or written.kept):
        return []
    return [
        f"{len(written.written)} files written, {len(written.same)} unchanged, "
        f"{len(written.kept)} kept though they differ: {written.folder}",
        *(f"  written  {name}" for name in written.written),
        *(f"  kept     {name}" for name in written.kept),
    ]
