"""The signature of a definition, read from its source: nothing is imported, torch least of all."""

import ast
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter as source text; `default` "" where there is none."""

    name: str
    annotation: str
    default: str = ""
    keyword_only: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.annotation}" + (f" = {self.default}" if self.default else "")


def signature(entry: str) -> tuple[Parameter, ...]:
    """Parameters of the function "module:name"; LookupError when its module has none of it."""
    module, _, name = entry.partition(":")
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise LookupError(f"there is no module {module}")
    for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return tuple(_parameters(node.args))
    raise LookupError(f"{module} defines no function {name}")


def _parameters(arguments: ast.arguments) -> list[Parameter]:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    rows = [(arg, default, False) for arg, default in zip(plain, defaults, strict=True)]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    rows += [(arg, default, True) for arg, default in keywords]
    return [
        Parameter(
            name=arg.arg,
            annotation=_source(arg.annotation) if arg.annotation else "Any",
            default=_source(default) if default else "",
            keyword_only=keyword_only,
        )
        for arg, default, keyword_only in rows
    ]


def _source(node: ast.expr) -> str:
    """With the quotes of the formatter."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return json.dumps(node.value, ensure_ascii=False)
    return ast.unparse(node)
