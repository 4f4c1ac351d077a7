"""What a checklist file must look like, and whether its proofs exist: text to complaints."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from day0.analysis.checklist import CONDITIONS
from day0.analysis.checks import CHECKS
from day0.analysis.graph_checks import NAMED
from day0.ir.cache import GROWTHS
from day0.ir.recipe import RECIPES
from day0.registry.index import NAMES, family

REQUIRED = ("id", "ask", "why", "proof")
BOUNDS = ("at_most", "at_least")
OPTIONAL = ("when", *BOUNDS)
WHEN = {"recipe": set(RECIPES), "family": set(NAMES), "growth": set(GROWTHS)}

# Top-level keys of the schema day0.analysis/1 that the design promises, also before they are made.
ANALYSIS_KEYS = frozenset(
    """
    schema model params bytes layers graph inventory new_fraction caches kv_bytes_per_token
    index_bytes_per_token state_bytes_per_sequence proof semantics config nearest quant precision
    parallel schedule memory cost checklist findings
    """.split()
)
# Figures of `day0 run` and `day0 validate`, until day0/validate/metrics.py states METRICS.
METRICS = frozenset(
    """
    ttft_ms cold_ttft_ms warm_ttft_ms tpot_ms itl_ms request_throughput output_throughput
    total_token_throughput compile_s graph_capture_s jit_compiles_after_ready peak_memory_bytes
    launches_per_layer accepted_length
    """.split()
)
KERNEL_METRIC = re.compile(r"(?P<family>\w+)\.(?P<impl>\w+)\.(?P<name>\w+)@(?P<case>[\w.\-]+)")


def complaints(path: Path, content: Any, root: Path) -> list[str]:
    """What is wrong with the parsed `content` of the checklist at `path`, relative to `root`."""
    if not isinstance(content, dict):
        return [f"{path}: a mapping is expected"]
    kind = "stage" if path.parent.name == "stages" else "family"
    found = []
    keys = {kind, "items"}
    if content.keys() - {"covers"} != keys or (kind == "stage" and "covers" in content):
        found.append(f"{path}: the keys are {sorted(content)}, they must be {kind} and items")
    covers = content.get("covers", [])
    if not isinstance(covers, list) or not all(isinstance(name, str) for name in covers):
        found.append(f"{path}: covers must be a list of family names")
    if content.get(kind) != path.stem:
        found.append(f"{path}: {kind} is {content.get(kind)!r}, the file's name says {path.stem}")
    items = content.get("items")
    if not isinstance(items, list) or not items:
        return [*found, f"{path}: items must be a list with at least one item"]
    seen: set[str] = set()
    for number, item in enumerate(items, start=1):
        place = f"{path}: item {number}"
        if not isinstance(item, dict):
            found.append(f"{place}: a mapping is expected")
            continue
        name = item.get("id")
        if name in seen:
            found.append(f"{place}: the id {name} stands twice")
        seen.add(str(name))
        found += [f"{place}: {reason}" for reason in _item(item, root)]
    return found


def _item(item: dict[str, Any], root: Path) -> list[str]:
    found = [f"unknown key {key}" for key in item if key not in (*REQUIRED, *OPTIONAL)]
    for key in REQUIRED:
        if not isinstance(item.get(key), str) or not item[key].strip():
            found.append(f"{key} must be a text")
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", str(item.get("id", ""))):
        found.append(f"id {item.get('id')!r} must be lower case words joined by hyphens")
    found += _when(item.get("when", {}))
    bounds = [key for key in BOUNDS if key in item]
    if any(isinstance(item[key], bool) or not isinstance(item[key], int | float) for key in bounds):
        found.append(f"{' and '.join(bounds)} must be a number")
    if bounds and not str(item.get("proof")).startswith("metric:"):
        found.append(f"{' and '.join(bounds)} bounds a metric, and the proof is none")
    if isinstance(item.get("proof"), str):
        reason = unresolved(item["proof"], root)
        if reason:
            found.append(reason)
    return found


def _when(when: Any) -> Iterator[str]:
    if not isinstance(when, dict):
        yield "when must be a mapping"
        return
    for key, wanted in when.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        if key not in CONDITIONS:
            yield f"when asks for {key!r}; it may ask for {', '.join(CONDITIONS)}"
        elif strange := [value for value in values if value not in WHEN.get(key, {True, False})]:
            yield f"when asks for {key} {strange[0]!r}, which there is not"


def unresolved(proof: str, root: Path) -> str:
    """Why a proof points nowhere in the checkout at `root`; empty if it resolves."""
    kind, _, target = proof.partition(":")
    if kind == "test":
        return _test(target, root)
    if kind == "analysis":
        key, _, check = target.partition(".")
        keys = _stated(root / "day0" / "report" / "schema.py", "ANALYSIS_KEYS", ANALYSIS_KEYS)
        if key not in keys | ANALYSIS_KEYS:
            return f"{key} is no top-level key of day0.analysis/1"
        if key == "facts":
            known = any(fnmatchcase(path, check) or fnmatchcase(check, path) for path in facts())
            return "" if known else f"no mechanism settles a fact {check}"
        kind, _, name = target.rpartition(".")
        if kind in NAMED:
            return "" if name in named(kind) else f"no operator family has {name}"
        return "" if not check or target in CHECKS else f"{target} is no check of day0.analysis"
    if kind == "metric" and "@" in target:
        return _kernel_metric(target, root)
    if kind == "metric":
        names = _stated(root / "day0" / "validate" / "metrics.py", "METRICS", METRICS)
        return "" if target in names else f"{target} is no metric of run or validate"
    return f"proof {proof!r} must begin with test:, metric: or analysis:"


@cache
def named(kind: str) -> frozenset[str]:
    """Attributes or slots of all families, as `graph.attr` and `graph.slot` ask for them."""
    kinds = [family(name) for name in NAMES]
    if kind == "graph.attr":
        return frozenset(name for one in kinds for name in one.attrs)
    return frozenset(slot.rstrip("?*") for one in kinds for slot in (*one.inputs, *one.weights))


@cache
def facts() -> frozenset[str]:
    """Strings of the mechanisms that may be fact paths; what an f-string fills in is a "*"."""
    found: set[str] = set()
    for room in ("mechanisms", "models"):
        for path in (Path(__file__).parents[1] / "day0" / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.JoinedStr):
                    parts = (getattr(part, "value", "") for part in node.values)
                    found.add("".join(p if isinstance(p, str) else "*" for p in parts))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return frozenset(path for path in found if re.fullmatch(r"\w+\.[\w.*]+", path))


def _test(target: str, root: Path) -> str:
    name, _, test = target.partition("::")
    path = root / name
    if not name.startswith("tests/") or not path.is_file():
        return f"{name} is no file under tests/"
    scope: list[ast.stmt] = ast.parse(path.read_text()).body
    for part in test.partition("[")[0].split("::"):
        for node in scope:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == part:
                scope = node.body
                break
        else:
            return f"{name} has no test {part!r}"
    return ""


def _kernel_metric(target: str, root: Path) -> str:
    match = KERNEL_METRIC.fullmatch(target)
    if match is None:
        return f"{target} must be FAMILY.IMPL.NAME@CASE"
    cases = root / "kernels" / "day0_kernels" / match["family"] / "cases.py"
    if not cases.is_file():
        return f"kernels/day0_kernels has no {match['family']}/cases.py"
    tree = ast.parse(cases.read_text())
    names = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return "" if match["case"] in names else f"{match['family']}/cases.py has no {match['case']!r}"


def _stated(path: Path, name: str, otherwise: frozenset[str]) -> frozenset[str]:
    """The strings that `path` assigns to `name`; `otherwise` as long as there is no such file."""
    if not path.is_file():
        return otherwise
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return frozenset(
                child.value
                for child in ast.walk(node)
                if isinstance(child, ast.Constant) and isinstance(child.value, str)
            )
    raise LookupError(f"{path} must assign {name}, which the checklists are held against")
