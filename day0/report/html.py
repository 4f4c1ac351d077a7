"""A page as one HTML file: no network, light and dark, its texts readable without its script."""

import re
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from day0.report import drawing, plots
from day0.report.parts import Page, Part, Plot
from day0.report.plot_units import in_unit

ASSETS = Path(__file__).parent / "assets"


def render(page: Page) -> str:
    """The whole page. Everything that comes from a checkpoint is escaped by the template."""
    environment = Environment(
        loader=FileSystemLoader(ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "anchor": _anchor, "slug": _slug, "kind": _kind, "in_unit": in_unit, "clip": _clip,
    }  # fmt: skip
    environment.globals |= {"draw": drawing.draw, "plot_svg": _plot_svg}
    return environment.get_template("page.html").render(
        page=page,
        facts=frozenset(page.facts),
        style=Markup(_asset("page.css")),
        script=Markup(_asset("page.js")),
    )


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _plot_svg(plot: Plot) -> Markup:
    # Names of series come from caches and pass through matplotlib, which escapes them.
    return Markup(plots.svg(plot))


def _kind(part: Part) -> str:
    """The template's macro for a part."""
    return type(part).__name__.lower()


def _anchor(name: str) -> str:
    """An id as part of an address."""
    return quote(name, safe="")


def _slug(name: str) -> str:
    """A name as an id without spaces."""
    return re.sub(r"[^0-9A-Za-z_.-]+", "-", name)


def _clip(text: str, length: int) -> str:
    """What fits into a box; the whole text is in its title."""
    return text if len(text) <= length else f"{text[: length - 1]}\N{HORIZONTAL ELLIPSIS}"
