"""Who may import whom: the table, and the function that holds a source against it."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

# Rooms of day0 that a room may import; "room.module" allows that module alone.
ROOMS = {
    "ir": (),
    "checkpoint": ("ir",),
    "registry": ("ir",),
    "mechanisms": ("registry", "checkpoint", "ir"),
    "models": ("mechanisms", "registry", "checkpoint", "ir"),
    "catalog": ("models", "checkpoint", "ir"),
    "parallel": (),
    "passes": ("registry", "parallel.mesh", "ir"),
    "analysis": ("passes", "parallel.mesh", "models", "registry", "catalog", "checkpoint", "ir"),
    "scaffold": ("analysis", "ir"),
    "report": ("analysis", "validate", "ir"),
    "runtime": (
        *(
            "passes",
            "parallel",
            "models",
            "registry",
            "catalog",
            "analysis.memory",
            "analysis.layers",
            "checkpoint",
            "ir",
        ),
    ),
    "validate": ("runtime", "analysis", "passes", "registry", "ir"),
    "cli": ("report", "scaffold", "analysis", "parallel.mesh"),
    "demo": (),
    "__main__": ("cli",),
    "__init__": (),
    "resources": (),
    "errors": (),
}
# Rooms that may be imported inside a function only, where the price of torch is paid knowingly.
ROOMS_AT_USE = {"cli": ("runtime", "parallel", "validate"), "__init__": ("runtime",)}
# Everybody's: they import nothing themselves.
COMMON = {"errors", "resources", "__version__"}

DATA_FORMATS = ("yaml",)
PACKAGES = {
    "checkpoint": ("huggingface_hub", "httpx", "requests", *DATA_FORMATS),
    "models": DATA_FORMATS,
    "catalog": DATA_FORMATS,
    "analysis": DATA_FORMATS,
    "scaffold": ("jinja2", *DATA_FORMATS),
    "report": ("rich", "jinja2", "markupsafe", "fast_sugiyama", "matplotlib", *DATA_FORMATS),
    "parallel": ("torch",),
    "runtime": (
        *("torch", "triton", "day0_kernels", "safetensors", "tokenizers", "jinja2", "rich"),
        *DATA_FORMATS,
    ),
    "validate": ("torch", "day0_kernels", *DATA_FORMATS),
    "cli": ("typer", "rich", *DATA_FORMATS),
    "demo": ("torch", "safetensors", "tokenizers"),
}
# Imported where they are installed and asked for, never at the top: oracles to compare with.
PACKAGES_AT_USE = {"validate": ("transformers",)}
PEERS_FILE = "peers.py"
KERNEL_PACKAGES = ("torch", "triton", "day0_kernels")


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module, absolute, and where it stands."""

    module: str
    line: int
    at_use: bool
    for_types: bool


def complaints(path: PurePosixPath, source: str) -> list[str]:
    """Imports in the file at `path` (relative to the checkout) that the tables do not allow."""
    found = []
    for entry in imports(path, source):
        reason = refuse(path, entry)
        if reason:
            found.append(f"{path}:{entry.line}: {reason}")
    return found


def refuse(path: PurePosixPath, entry: Import) -> str:
    """Why this import may not stand in this file; empty if it may."""
    top, _, below = entry.module.partition(".")
    if top in sys.stdlib_module_names:
        return ""
    if path.parts[0] == "kernels":
        # What a bench compares with is imported where it is installed, and only to be timed.
        is_peer = path.name == PEERS_FILE and entry.at_use and top not in {"day0", "transformers"}
        known = top in KERNEL_PACKAGES or is_peer
        return "" if known else f"day0_kernels imports {top}; it may: {KERNEL_PACKAGES}"
    room = PurePosixPath(path.parts[1]).stem
    if room not in ROOMS:
        return f"day0/{room} is no room of the table"
    if top != "day0":
        allowed = PACKAGES.get(room, ())
        allowed += PACKAGES_AT_USE.get(room, ()) if entry.at_use else ()
        return "" if top in allowed else f"{room} imports {top}; it may: {allowed}"
    target = PurePosixPath(below.replace(".", "/")).parts[0] if below else "__init__"
    if target in COMMON or target == room:
        return ""
    deferred = ROOMS_AT_USE.get(room, ()) if entry.at_use or entry.for_types else ()
    for name in (*ROOMS[room], *deferred):
        if below == name or below.startswith(f"{name}."):
            return ""
    if target in ROOMS_AT_USE.get(room, ()):
        return f"{room} imports {below} at the top; it may inside a function"
    return f"{room} imports {below or 'day0'}; it may: {ROOMS[room]}"


def imports(path: PurePosixPath, source: str) -> Iterator[Import]:
    """Every import of a source, relative ones resolved, also `import_module("literal")`."""
    # `from day0 import ir` names a room, `from day0.ir import Op` a thing inside one: day0 itself
    # and the rooms it alone holds are the only packages where the difference matters.
    for node, at_use, for_types in _walk(ast.parse(source), at_use=False, for_types=False):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(path, node)
            names = [alias.name for alias in node.names]
            below_names = base == "day0" or base in {f"day0.{room}" for room in ROOMS}
            modules = [f"{base}.{name}" for name in names] if below_names else [base]
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            called = node.func.id if isinstance(node.func, ast.Name) else called
            first = node.args[0]
            is_name = isinstance(first, ast.Constant) and isinstance(first.value, str)
            if called in {"import_module", "__import__"} and is_name:
                modules = [first.value]
        for module in modules:
            yield Import(module=module, line=node.lineno, at_use=at_use, for_types=for_types)


def _absolute(path: PurePosixPath, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    parts = path.parts[1:] if path.parts[0] == "kernels" else path.parts
    package = parts[: len(parts) - node.level]
    return ".".join((*package, *([node.module] if node.module else [])))


def _walk(
    node: ast.AST, *, at_use: bool, for_types: bool
) -> Iterator[tuple[ast.stmt | ast.expr, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        inside = at_use or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        typed = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test))
        if isinstance(child, ast.stmt | ast.expr):
            yield child, inside, typed
        yield from _walk(child, at_use=inside, for_types=typed)
