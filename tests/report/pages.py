"""Reports that tests read: of catalog entries, of small configs, and of hostile words."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from day0.analysis.analyze import analyze
from day0.report.analysis_json import to_json
from day0.report.analysis_page import analysis_page
from day0.report.parts import Cell, Choice, Diagram, Page, Part, Table
from tests.field_cases.asking import analysis, small

KIMI_K3 = "catalog:moonshotai--kimi-k3"
# One for each kind of crossing: residual blocks, shared indices, streams and a draft, plain.
MODELS = (
    KIMI_K3,
    "catalog:zai-org--glm-5.2",
    "catalog:zai-org--glm-5.3-flash",
    "catalog:meta-llama--meta-llama-3.1-8b",
    "demo",
)
HOSTILE = (
    '</script><script>document.title="owned"</script>"\'><img src=x onerror=alert(1)>`|*_x_[a](b)'
)


@cache
def report_of(model: str) -> dict[str, Any]:
    """The JSON of an analysis, made once."""
    return to_json(analyze(model))


@cache
def page_of(model: str) -> Page:
    return analysis_page(report_of(model))


def hostile_report() -> dict[str, Any]:
    """Of a config whose every free word tries to get out of where it is put."""
    config = small(
        architectures=[HOSTILE],
        model_type=HOSTILE,
        **{HOSTILE: HOSTILE, "strange": [HOSTILE], "rope_scaling": {HOSTILE: 1.0}},
    )
    return to_json(analysis(config))


def parts(page: Page) -> Iterator[Part]:
    """All parts of a page, those inside choices too."""
    for section in page.sections:
        for part in section.parts:
            yield from _inside(part)


def _inside(part: Part) -> Iterator[Part]:
    yield part
    if isinstance(part, Choice):
        for _, inner in part.options:
            for found in inner:
                yield from _inside(found)


def table(page: Page, name: str) -> Table:
    """The table called `name`."""
    return next(part for part in parts(page) if isinstance(part, Table) and part.name == name)


def diagrams(page: Page) -> list[Diagram]:
    return [part for part in parts(page) if isinstance(part, Diagram)]


def column(found: Table, name: str) -> list[Cell]:
    """Cells under one head."""
    return [row[found.columns.index(name)] for row in found.rows]
