"""The one sink: data to stdout, words to stderr."""

import errno
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from day0.errors import Day0Error

WIDTH = 120  # of reports that go to a file or a pipe


def console() -> Console:
    """For data. NO_COLOR is honoured by rich."""
    return _console(width=None if sys.stdout.isatty() else WIDTH)


def errors() -> Console:
    """For progress, warnings and hints."""
    return _console(stderr=True)


def _console(**options: Any) -> Console:
    """Brackets and colons in a model's own words are no markup."""
    return Console(highlight=False, markup=False, emoji=False, **options)


def emit(report: RenderableType, out: Path | None) -> None:
    """A report to stdout, or without colours into the file `out`."""
    if out is None:
        with _stdout():
            screen = console()
            if screen.is_terminal:
                screen.print(report)
            else:
                sys.stdout.write(_page(report))
        return
    write(_page(report), out)


def _page(report: RenderableType) -> str:
    """Without colours, and without the spaces that fill a terminal's lines."""
    page = _console(width=WIDTH, record=True, file=io.StringIO())
    page.print(report)
    return "".join(f"{line.rstrip()}\n" for line in page.export_text().split("\n")[:-1])


def emit_json(data: Any, out: Path | None) -> None:
    """JSON to stdout or into the file `out`."""
    emit_text(json.dumps(data, indent=1, allow_nan=False) + "\n", out)


def emit_text(text: str, out: Path | None) -> None:
    """A finished text to stdout or into the file `out`."""
    if out is None:
        with _stdout():
            sys.stdout.write(text)
    else:
        write(text, out)


@contextmanager
def _stdout() -> Iterator[None]:
    """Written for certain when this ends. A reader that went away (`| head`) is no error of ours:
    typer ends such a run quietly. A full disk is one."""
    if sys.stdout is None:
        raise Day0Error("stdout is closed; the report needs a place", hint="use --out FILE")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 (what is left cannot be flushed)
        raise Day0Error(
            f"the report cannot be written to stdout: {error.strerror or error}",
            hint="make room, or write elsewhere with --out FILE",
        ) from error


def never_fail_on_letters() -> None:
    """A terminal that cannot show a letter (LC_ALL=C, half a surrogate pair in a config) shows a
    substitute instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            unicode = (stream.encoding or "").lower().replace("-", "").startswith("utf")
            stream.reconfigure(errors="backslashreplace" if unicode else "replace")


def write(text: str, out: Path) -> None:
    """Write the whole file or nothing. What exists and is no file (/dev/stdout, a pipe) is written
    to as it is; a file behind a link is replaced, the link stays."""
    raw = text.encode("utf-8", errors="backslashreplace")
    try:
        if out.exists() and not out.is_file() and not out.is_dir():
            out.write_bytes(raw)
            return
        target = out.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, raw)
    except OSError as error:
        raise Day0Error(
            f"--out {out} cannot be written: {error.strerror or error}",
            hint="name a file in a folder that you may write to",
        ) from error


def _replace(target: Path, raw: bytes) -> None:
    """By a new file beside it, with the rights that a plain `open` would give or has given."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if target.exists():
        mode = target.stat().st_mode & 0o777
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:64]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        Path(name).chmod(mode)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
