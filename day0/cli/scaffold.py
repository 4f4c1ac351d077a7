"""day0 scaffold: a package with the files to fill in for what is new in a model."""

from pathlib import Path

from rich.text import Text

from day0.cli import options
from day0.cli.facts import load_facts
from day0.cli.output import emit, errors


def scaffold(
    model: options.ModelName,
    out: options.OutFolder,
    quant: options.Quant = "bf16",
    facts: options.Facts = None,
    plugin: options.Plugin = None,
    cache_dir: options.CacheDir = None,
    force: options.Force = False,
) -> None:
    """Write an installable package: operators, mechanisms, tests and a checklist for what is new.

    Files that you changed are kept, unless with --force.

    Examples:

        day0 scaffold demo --out new

        day0 analyze demo --plugin new
    """
    from day0.analysis.analyze import analyze
    from day0.analysis.checklist import answered
    from day0.cli.progress import header_progress
    from day0.report.analysis_json import to_json
    from day0.scaffold.package import scaffold as write

    with header_progress(errors()) as progress:
        analysis = analyze(
            model,
            quant=quant,
            stated=load_facts(facts),
            plugin=plugin,
            cache_dir=cache_dir,
            progress=progress,
        )
    written = write(analysis, answered(to_json(analysis)), Path(out), force=force)
    lines = [
        f"{len(written.written)} files written, {len(written.same)} unchanged, "
        f"{len(written.kept)} kept as they were changed: {out}",
        *(f"  written  {name}" for name in written.written),
        *(f"  kept     {name}" for name in written.kept),
    ]
    emit(Text("\n".join(lines)), None)
