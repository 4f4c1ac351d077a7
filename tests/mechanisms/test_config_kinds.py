"""Every key that a mechanism reads has a kind, so that no value from a file reaches arithmetic
unseen."""

import ast
import math
from pathlib import Path
from typing import Any

import pytest

from day0.mechanisms import config_kinds as kinds
from day0.mechanisms.config_kinds import KINDS, NO, UNCHECKED
from tests.corpus import ROOT

FOLDERS = ("day0/mechanisms", "day0/models")


def constants(tree: ast.Module) -> dict[str, list[str]]:
    """Module-level tuples of words (TOP_K = ("num_experts_per_tok", ...))."""
    return {
        node.targets[0].id: [item.value for item in node.value.elts]
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Tuple)
        and all(isinstance(item, ast.Constant) for item in node.value.elts)
    }


def keys_read(path: Path) -> set[str]:
    """Literal keys of `cfg.get(path, *keys)` and `cfg.word(*keys)`, starred tuples resolved."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known = constants(tree)
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if not ast.unparse(node.func.value).endswith("cfg"):
            continue
        arguments = {"get": node.args[1:], "word": node.args}.get(node.func.attr, [])
        for argument in arguments:
            if isinstance(argument, ast.Constant):
                found.add(str(argument.value).lstrip("^"))
            elif isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Name):
                found.update(known.get(argument.value.id, ()))
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_key_has_a_kind(folder: str) -> None:
    missing = {
        f"{path.name}: {key}"
        for path in (ROOT / folder).glob("*.py")
        for key in keys_read(path)
        if key not in KINDS and key not in UNCHECKED
    }
    assert missing == set()


def test_no_key_is_both_checked_and_unchecked() -> None:
    assert not UNCHECKED & set(KINDS)


def named(value: Any) -> str:
    if isinstance(value, kinds.Kind):
        return value.says[:16]
    return "no" if value is NO else repr(value)[:24]


@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    [
        (kinds.SIZE, 128, 128), (kinds.SIZE, 128.0, 128), (kinds.SIZE, 0, NO),
        (kinds.SIZE, True, NO), (kinds.SIZE, 0.5, NO), (kinds.SIZE, 10**30, NO),
        (kinds.SIZE, math.inf, NO), (kinds.SIZE, math.nan, NO), (kinds.SIZE, "8", NO),
        (kinds.COUNT, 0, 0), (kinds.COUNT, -1, NO),
        (kinds.NUMBER, -2.5, -2.5), (kinds.NUMBER, math.nan, NO), (kinds.NUMBER, True, NO),
        (kinds.NUMBER, 10**400, NO), (kinds.POSITIVE, 0, NO), (kinds.POSITIVE, 1e4, 1e4),
        (kinds.FLAG, 1, True), (kinds.FLAG, False, False), (kinds.FLAG, 2, NO),
        (kinds.FLAG, "true", NO), (kinds.FLAG, [], NO),
        (kinds.WORD, "silu", "silu"), (kinds.WORD, 3, NO),
        (kinds.listed(kinds.COUNT), [0, 4.0], [0, 4]), (kinds.listed(kinds.COUNT), [None], NO),
        (kinds.listed(kinds.COUNT), "44", NO), (kinds.IDS, [1, 2], [1, 2]), (kinds.IDS, -1, -1),
        (kinds.TABLE, {"a": 1}, {"a": 1}), (kinds.TABLE, [], NO),
    ],
    ids=named,
)  # fmt: skip
def test_what_a_kind_takes(kind: kinds.Kind, value: Any, taken: Any) -> None:
    found = kind.take(value)
    assert found is taken if taken is NO else found == taken
    assert type(found) is type(taken)


def test_a_shown_value_is_one_short_line_of_ascii() -> None:
    text = kinds.shown("\ud800\n\x1b" * 500)
    assert len(text) <= 60
    assert text.isascii()
    assert text.isprintable()
