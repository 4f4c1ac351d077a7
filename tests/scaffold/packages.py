"""Scaffolds of several models, made once: folders that tests read, lint and run."""

from collections.abc import Callable
from pathlib import Path

from day0.analysis.analyze import Analysis, analyze
from day0.analysis.checklist import Checklist, answered
from day0.report.analysis_json import to_json
from day0.scaffold.targets import scaffold
from tests.scaffold import invented


def _invented(folder: Path) -> tuple[str, str]:
    return str(invented.write(folder, 1)), "fp32"


def _strange(folder: Path) -> tuple[str, str]:
    return str(invented.write(folder, 2, *invented.strange())), "fp32"


def _catalog(name: str, quant: str = "bf16") -> Callable[[Path], tuple[str, str]]:
    return lambda folder: (name, quant)


# Name -> where its model and recipe come from.
MODELS: dict[str, Callable[[Path], tuple[str, str]]] = {
    "invented": _invented,
    "strange": _strange,
    "demo": _catalog("demo"),
    "glm-5.3-flash": _catalog("catalog:zai-org--glm-5.3-flash"),
    "minimax-m3": _catalog("catalog:minimaxai--minimax-m3", "fp8"),
    "deepseek-v4": _catalog("catalog:deepseek-ai--deepseek-v4-flash-0731"),
}


def found(name: str, folder: Path) -> tuple[Analysis, Checklist]:
    """The analysis of a model of MODELS, and its checklist; what it is read from lies in
    `folder`."""
    model, quant = MODELS[name](folder)
    analysis = analyze(model, quant=quant)
    return analysis, answered(to_json(analysis))


def written(analysis: Analysis, checklist: Checklist, folder: Path, target: str = "day0") -> Path:
    """The package below `folder`."""
    scaffold(analysis, checklist, folder, target=target, force=False)
    (package,) = (path for path in folder.iterdir() if path.name.startswith("day0_"))
    return package
