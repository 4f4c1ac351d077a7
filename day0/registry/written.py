"""Operators that somebody is writing: which parts of one count, by what lies in its folder.

The folder holds reference.py (the definition), kernel.py and cases.py. A definition counts once it
does more than raise; a kernel counts once it passed every case, for as long as none of the three
files changes.
"""

import ast
import hashlib
import json
from pathlib import Path

from day0.registry.family import Impl, reference

SOURCES = ("reference.py", "kernel.py", "cases.py")
RECORD = "parity.json"


def is_written(path: Path, name: str) -> bool:
    """Whether the function `name` of the source file does more than raise."""
    if not path.is_file():
        return False
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            body = node.body[1:] if ast.get_docstring(node) else node.body
            return not isinstance(body[0], ast.Raise) if body else False
    return False


def definition(folder: Path, entry: str) -> tuple[Impl, ...]:
    """The definition `entry` ("module:function") of folder/reference.py; () until it is written."""
    written = is_written(folder / "reference.py", entry.partition(":")[2])
    return (reference(entry),) if written else ()


def record(folder: Path, case: str, device: str) -> None:
    """Keep that the kernel passed all cases on `device`, `case` ("op/case") among them."""
    text = json.dumps({"case": case, "device": device, "sources": _hashes(folder)}, indent=1)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def parity(folder: Path) -> str:
    """The case that `record` kept; "" where there is none, or a source changed since."""
    path = folder / RECORD
    if not path.is_file():
        return ""
    kept = json.loads(path.read_text(encoding="utf-8"))
    return kept["case"] if kept["sources"] == _hashes(folder) else ""


def _hashes(folder: Path) -> dict[str, str]:
    """Of text, so that another line ending is no change."""
    return {
        name: hashlib.sha256((folder / name).read_text(encoding="utf-8").encode()).hexdigest()
        for name in SOURCES
        if (folder / name).is_file()
    }
