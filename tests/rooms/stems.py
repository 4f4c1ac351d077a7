"""One stem per mechanism and per family: what belongs to it in the other rooms is there."""

import ast
from collections.abc import Iterator
from pathlib import Path

import yaml

# Files in these folders that several mechanisms or families share; names with _ in front count too.
SHARED = {
    "__init__", "index", "base", "common", "builder", "config", "config_kinds", "fact_words",
    "names", "sizes", "spec",
}  # fmt: skip
TEST_ROOMS = ("mechanisms", "models", "analysis", "parity")
OP_FILES = ("README.md", "reference.py", "cases.py")
DEFINITION_FILES = ("README.md", "reference.py")  # of a folder without kernels
NO_OPS = {"common"}


def complaints(root: Path) -> list[str]:
    """What is missing in the checkout at `root`; a room that does not exist misses nothing."""
    return [*_mechanisms(root), *_families(root), *_kernels(root)]


def stems(folder: Path) -> tuple[str, ...]:
    """The mechanisms or families in a folder."""
    return tuple(
        sorted(
            path.stem
            for path in folder.glob("*.py")
            if path.stem not in SHARED and not path.stem.startswith("_")
        )
    )


def imported(source: str) -> set[str]:
    """The parts of every imported module's and object's name in a source."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.alias):
            found |= set(node.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            found |= set((node.module or "").split("."))
    return found


def words(source: str) -> set[str]:
    """Every name, imported name and word of a string in a source."""
    found = imported(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(node.value.replace(":", " ").replace(".", " ").split())
    return found


def _words_of(*paths: Path) -> set[str]:
    found: set[str] = set()
    for path in paths:
        found |= words(path.read_text())
    return found


def _mechanisms(root: Path) -> Iterator[str]:
    folder = root / "day0" / "mechanisms"
    found = stems(folder)
    if not found:
        return
    index = folder / "index.py"
    indexed = _words_of(index) if index.is_file() else set()
    tests = [
        path for room in TEST_ROOMS for path in sorted((root / "tests" / room).rglob("test_*.py"))
    ]
    named = _words_of(*tests)
    for stem in found:
        # A part such as an indexer is reached through the mechanism that has it.
        used = any(
            stem in imported((folder / f"{other}.py").read_text())
            for other in found
            if other != stem
        )
        if stem not in indexed and not used:
            yield f"{stem} is not listed in day0/mechanisms/index.py, and no mechanism uses it"
        by_file = any(path.stem.startswith(f"test_{stem}") for path in tests)
        if not by_file and stem not in named:
            yield f"{stem} has no test: none in tests/{{{','.join(TEST_ROOMS)}}} names it"


def _families(root: Path) -> Iterator[str]:
    found = stems(root / "day0" / "registry" / "families")
    if not found:
        return
    index = root / "day0" / "registry" / "index.py"
    listed = _words_of(index) if index.is_file() else set()
    checked: set[str] = set()
    for path in (root / "checklists" / "ops").glob("*.yaml"):
        checked |= {path.stem, *yaml.safe_load(path.read_text()).get("covers", [])}
    for stem in found:
        if stem not in listed:
            yield f"{stem} is not listed in day0/registry/index.py"
        if stem not in checked:
            yield f"{stem} has no checklists/ops/{stem}.yaml, and no other one covers it"
    for stem in sorted(checked - {*found, "basic"}):
        yield f"checklists/ops speaks of {stem}, which is no family"


def _kernels(root: Path) -> Iterator[str]:
    package = root / "kernels" / "day0_kernels"
    if not package.is_dir():
        return
    door = package / "__init__.py"
    listed = _words_of(door) if door.is_file() else set()
    definitions = _constant(door, "DEFINITIONS") if door.is_file() else set()
    for folder in sorted(path for path in package.iterdir() if path.is_dir()):
        if folder.name in NO_OPS or folder.name.startswith(("_", ".")):
            continue
        if not any(folder.glob("*.py")):
            continue
        for name in DEFINITION_FILES if folder.name in definitions else OP_FILES:
            if not (folder / name).is_file():
                yield f"kernels/day0_kernels/{folder.name} has no {name}"
        if folder.name not in listed:
            yield f"{folder.name} is not listed in kernels/day0_kernels/__init__.py"


def _constant(path: Path, name: str) -> set[str]:
    """The strings of a tuple that a module assigns to `name`; none where it does not."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == name for t in node.targets):
            return set(ast.literal_eval(node.value))
    return set()
