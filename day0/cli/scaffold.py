"""day0 scaffold: a package with the files to fill in for what is new in a model."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from day0.cli import options
from day0.cli.facts import load_facts
from day0.cli.output import emit, errors

if TYPE_CHECKING:
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
    emit(Text("\n".join(_lines(written, analysis.recipe.name, model))), None)


def _lines(written: "Written", recipe: str, model: str) -> list[str]:
    names = (*written.written, *written.same, *written.kept)
    if not names:
        return [
            f"nothing is new in {model}: under the recipe {recipe} every operator has an optimised "
            "implementation. No file is written.",
            f"Its checklist: day0 checklist {model} --quant {recipe}",
        ]
    return [
        f"{len(written.written)} files written, {len(written.same)} unchanged, "
        f"{len(written.kept)} kept though they differ: {written.folder}",
        *(f"  written  {name}" for name in written.written),
        *(f"  kept     {name}" for name in written.kept),
    ]
