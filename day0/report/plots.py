"""Plots as SVG by matplotlib, in the colours of the page that they stand in.

matplotlib draws with stand-ins; the page's variables take their place, so that a plot follows the
light and the dark theme. Texts stay texts.
"""

import io
import math
import re
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from day0.report.parts import Plot
from day0.report.plot_units import in_unit

WIDTH, HEIGHT = 7.6, 3.0  # inches of 72 points
INK, GRID = "#010203", "#010204"
SERIES = tuple(f"#0102{number:02x}" for number in range(0x10, 0x18))
MARK = "#010205"
_VARIABLES = {INK: "var(--ink-2)", GRID: "var(--line)", MARK: "var(--bad)"} | {
    stand_in: f"var(--series-{number})" for number, stand_in in enumerate(SERIES)
}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # part of matplotlib; the page sets its own
    "font.size": 9,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_SIZE = re.compile(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>')
_UNUSED_ID = re.compile(
    r' id="(?:figure|axes|patch|line2d|text|xtick|ytick|matplotlib\.axis|legend|'
    r'FillBetweenPolyCollection|PolyCollection|LineCollection)_?\d*"'
)


def svg(plot: Plot) -> str:
    """An <svg> element. Series beyond eight begin the colours again."""
    settings = {**_SETTINGS, "svg.hashsalt": plot.name}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        _lines(axes, plot)
        _axes(axes, plot)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata=_NO_METADATA)
    return _page_colours(written.getvalue(), plot)


def _lines(axes: Axes, plot: Plot) -> None:
    colours = [SERIES[number % len(SERIES)] for number in range(len(plot.series))]
    if plot.stacked and plot.series:
        xs = [x for x, _ in plot.series[0].points]
        layers = [[y for _, y in series.points] for series in plot.series]
        axes.stackplot(xs, *layers, colors=colours, labels=[s.name for s in plot.series])
        axes.margins(x=0)
    else:
        for series, colour in zip(plot.series, colours, strict=True):
            xs, ys = zip(*series.points, strict=True) if series.points else ((), ())
            axes.plot(xs, ys, color=colour, label=series.name, linewidth=1.8, marker="o",
                      markersize=3)  # fmt: skip
    for name, value in plot.marks:
        axes.axhline(value, color=MARK, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(name, (0.01, value), xycoords=("axes fraction", "data"), fontsize=8,
                      xytext=(0, 3), textcoords="offset points", color=MARK)  # fmt: skip


def _axes(axes: Axes, plot: Plot) -> None:
    if "x" in plot.log:
        axes.set_xscale("log", base=2)
    if "y" in plot.log:
        axes.set_yscale("log", base=2)
    else:
        axes.set_ylim(bottom=0)
        if plot.y_unit == "bytes":
            step = 2 ** math.floor(math.log2(max(axes.get_ylim()[1] / 3, 1)))
            axes.yaxis.set_major_locator(MultipleLocator(step))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: in_unit(value, plot.x_unit)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: in_unit(value, plot.y_unit)))
    axes.minorticks_off()
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    if len(plot.series) > 1:
        handles, labels = axes.get_legend_handles_labels()
        order = slice(None, None, -1 if plot.stacked else 1)
        axes.legend(handles[order], labels[order], loc="upper left", fontsize=8,
                    bbox_to_anchor=(1.0, 1.0))  # fmt: skip


def _page_colours(text: str, plot: Plot) -> str:
    """From the <svg> tag on, sized by the page, with its variables for the stand-ins."""
    body = text[text.index("<svg ") :]
    body = _SIZE.sub(
        lambda found: f'<svg viewBox="{found[1]}" role="img" aria-labelledby="plot-{plot.name}">',
        body,
        count=1,
    )
    body = _UNUSED_ID.sub("", body)
    for stand_in, variable in _VARIABLES.items():
        body = body.replace(stand_in, variable)
    return body
