"""Rules about what a source says: no model names, only literals, nothing printed in low rooms."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

# Rooms that act on mechanisms and must never ask which model they serve.
NAMELESS_ROOMS = ("passes", "runtime", "registry")

# Model types of the first landing. What day0/models/known adds is read from there.
MODEL_TYPES = frozenset(
    """
    axk2 bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 dots3_note glm4_moe
    glm5_next glm_moe_dsa gpt_oss hy_v4 kimi_k3 kimi_linear lara_mini llama minimax minimax_m3
    mistral mistral_large4 mixtral olmo_hybrid qwen2 qwen3 qwen3_5 qwen3_5_moe qwen3_moe
    qwen3_next qwen4_exp
    """.split()
)
# Model types that are words of their own, or the names of mechanisms.
AMBIGUOUS = {"beam", "git", "mamba", "mamba2", "opt", "rwkv", "xlstm"}
TYPE_WORDS = {"types", "model_type", "model_types"}
CLASS_ENDINGS = ("ForCausalLM", "ForConditionalGeneration")


def model_types(known: Path) -> frozenset[str]:
    """`MODEL_TYPES` and those that day0/models/known speaks of.

    They are the strings under a key or a name of `TYPE_WORDS`, and the keys of the table
    "defaults" in its JSON files.
    """
    found = set(MODEL_TYPES)
    for path in sorted(known.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for name, value in _named(node):
                if name.lower() in TYPE_WORDS:
                    found |= {text for text, _ in _strings(value)}
    for path in sorted(known.glob("*.json")):
        found |= set(json.loads(path.read_text()).get("defaults", {}))
    return frozenset(found - AMBIGUOUS)


def model_names(path: PurePosixPath, source: str, types: frozenset[str]) -> list[str]:
    """String literals that name a model type or a model class; docstrings may speak of models."""
    return [
        f"{path}:{line}: {text!r} names a model; ask for the mechanism's attribute instead"
        for text, line in _strings(ast.parse(source))
        if text.lower() in types or any(ending in text for ending in CLASS_ENDINGS)
    ]


def not_literal(path: PurePosixPath, source: str) -> list[str]:
    """What is more than data in a file that may hold docstrings, imports and literals only."""
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            continue
        if isinstance(node, ast.Assign):
            plain = all(isinstance(target, ast.Name) for target in node.targets)
            value = node.value
        elif isinstance(node, ast.AnnAssign):
            plain, value = isinstance(node.target, ast.Name), node.value
        else:
            plain, value = False, None
        if not plain or value is None or not _is_literal(value):
            shown = ast.unparse(node).splitlines()[0][:60]
            found.append(f"{path}:{node.lineno}: only literals may stand here: {shown}")
    return found


def talking(path: PurePosixPath, source: str) -> list[str]:
    """`print` and exits outside `main` and the guard that calls it: low rooms return or raise."""
    found = []
    for node in _outside_main(ast.parse(source)):
        name = ""
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
            name = node.exc.id
        if name in {"print", "exit", "quit", "sys.exit", "os._exit", "SystemExit"}:
            found.append(
                f"{path}:{node.lineno}: {name} in a low room; return it or raise Day0Error"
            )
    return found


def _is_literal(node: ast.expr) -> bool:
    """Constants, containers and signed numbers of them, `frozenset(...)`, and calls of data.

    A call of a capitalised name builds a record such as `Fact(path="rope.pairing", ...)`; a bare
    name or a dotted one refers to a literal defined above or imported.
    """
    if isinstance(node, ast.Constant | ast.Name):
        return True
    if isinstance(node, ast.Attribute):
        return _is_literal(node.value)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(_is_literal(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return all(key is None or _is_literal(key) for key in node.keys) and all(
            _is_literal(value) for value in node.values
        )
    if isinstance(node, ast.Starred):
        return _is_literal(node.value)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr) and _is_literal(node.left) and _is_literal(node.right)
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        arguments = (*node.args, *(keyword.value for keyword in node.keywords))
        is_data = name in {"frozenset", "MappingProxyType"} or name[:1].isupper()
        return is_data and all(_is_literal(argument) for argument in arguments)
    return False


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _named(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The values in a node with the names they stand under, in a dict or an assignment."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        yield node.targets[0].id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value


def _strings(node: ast.AST) -> Iterator[tuple[str, int]]:
    """String constants in a node, docstrings and other bare strings left out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value, node.lineno
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.stmt) and _is_docstring(child)):
            yield from _strings(child)


def _outside_main(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        is_main = isinstance(child, ast.FunctionDef) and child.name == "main"
        is_guard = isinstance(child, ast.If) and "__name__" in ast.unparse(child.test)
        if not is_main and not is_guard:
            yield child
            yield from _outside_main(child)
