"""JSON of a validation -> a page that Markdown and HTML render."""

from collections.abc import Mapping
from typing import Any

from day0 import __version__
from day0.report.parts import Page
from day0.report.sections.consistency import lengths, matrix
from day0.report.sections.measurements import (
    baseline,
    environment,
    figures,
    floors,
    grid,
    memory,
    verdict,
)


def validation_page(report: Mapping[str, Any]) -> Page:
    """`report`: schema day0.report/1. Sections of what the call did not ask for are left out."""
    model = report["model"]
    sections = [verdict(report)]
    if report["cells"]:
        sections.append(matrix(report))
    if report["lengths"]:
        sections.append(lengths(report))
    if report["grid"]:
        sections += [grid(report), memory(report)]
        if report["floor_by_family"]:
            sections.append(floors(report))
    sections.append(figures(report))
    if report["baseline"]:
        sections.append(baseline(report))
    sections.append(environment(report))
    return Page(
        title=f"{model['id']}: validation",
        subtitle=f"Whether every way to the same logits agrees, and how fast the model is. "
        f"Recipe {report['recipe']}, backend {report['backend']} on "
        f"{report['environment']['device_name']}.",
        sections=tuple(sections),
        made_by=f"day0 {__version__}, schema {report['schema']}: {report['command']}",
    )
