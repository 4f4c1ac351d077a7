"""JSON of an analysis -> a page that Markdown and HTML render."""

from collections.abc import Mapping
from typing import Any

from day0 import __version__
from day0.report.parts import Page
from day0.report.sections.costs import cost, stored
from day0.report.sections.evidence import facts, findings, proof
from day0.report.sections.layers import layers
from day0.report.sections.memory import caches, memory
from day0.report.sections.operators import operators
from day0.report.sections.overview import news, overview
from day0.report.sections.plans import plans


def analysis_page(report: Mapping[str, Any]) -> Page:
    """`report`: schema day0.analysis/1. The page shows its numbers, and sums and
    products of them, and measures nothing of its own."""
    model = report["model"]
    return Page(
        title=model["id"],
        subtitle=f"Release-day analysis: what the model is, what is new in it, what it needs. "
        f"Recipe {report['recipe']}.",
        sections=(
            overview(report),
            news(report),
            layers(report),
            operators(report),
            caches(report),
            memory(report),
            cost(report),
            stored(report),
            *plans(report),
            findings(report),
            proof(report),
            facts(report),
        ),
        made_by=f"day0 {__version__}, schema {report['schema']}: day0 analyze {model['id']} "
        f"--quant {report['recipe']}",
        facts=tuple(fact["path"] for fact in report["facts"]),
    )
