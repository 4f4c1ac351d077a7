"""The one sink: data to stdout, words to stderr."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from day0.errors import Day0Error

WIDTH = 120  # of reports that go to a file or a pipe


def console() -> Console:
    """For data. NO_COLOR is honoured by rich."""
    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False, soft_wrap=False)


def errors() -> Console:
    """For progress, warnings and hints."""
    return Console(stderr=True, highlight=False)


def emit(report: RenderableType, out: Path | None) -> None:
    """A report to stdout, or without colours into the file `out`."""
    if out is None:
        console().print(report)
        return
    page = Console(width=WIDTH, record=True, file=open(os.devnull, "w"), highlight=False)  # noqa: SIM115, PTH123
    page.print(report)
    write(page.export_text(), out)


def emit_json(data: Any, out: Path | None) -> None:
    """JSON to stdout or into the file `out`."""
    text = json.dumps(data, indent=1, allow_nan=False) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        write(text, out)


def write(text: str, out: Path) -> None:
    """Write the whole file or nothing."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=out.parent, prefix=f".{out.name}.", delete=False
        ) as file:
            file.write(text)
        Path(file.name).replace(out)
    except OSError as error:
        raise Day0Error(
            f"--out {out} cannot be written: {error.strerror or error}",
            hint="name a file in a folder that you may write to",
        ) from error
