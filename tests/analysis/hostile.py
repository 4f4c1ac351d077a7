"""Configs and headers with values that nobody would write, and one way to push them through."""

import copy
import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from day0.analysis.analyze import Analysis, of_checkpoint
from day0.checkpoint.headers import Headers
from day0.checkpoint.source import Checkpoint
from day0.errors import Day0Error
from day0.report.analysis_json import to_json
from day0.report.terminal import render
from tests.field_cases.asking import headers as headers

# One of each JSON type, at its borders, and words that mean something elsewhere.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 7, 2**63, 10**30, 0.0, 0.5, 2.0, -2.5, 1e308, math.nan,
    math.inf, "", "8", "abc", "full_attention", "\ud800", [], [1, 2], [None], ["x"], [[1]],
    [{"a": 1}], {}, {"a": 1}, {"type": "x"}, [0] * 61, ["full_attention"] * 200,
)  # fmt: skip
DTYPES = ("F32", "BF16", "I32", "I64", "U8", "BOOL", "F8_E4M3", "F8_E8M0", "F4")
SHAPES = ((), (0,), (1,), (7,), (3, 5), (2, 3, 4), (10**6, 10**6), (10**9,))
TAILS = (".extra", ".bias", ".weight_scale", ".weight_packed", "_scale_inv", ".0.weight",
         ".q_norm.weight", ".qweight", ".e_score_correction_bias")  # fmt: skip
_COUNTS = ("num_hidden_layers", "n_layer", "num_layers")


def few_layers(config: Mapping[str, Any], most: int = 6) -> dict[str, Any]:
    """A copy with at most so many layers, per-layer lists cut to match."""
    cut = copy.deepcopy(dict(config))
    for words in (cut, cut.get("text_config"), cut.get("llm_config")):
        for key in _COUNTS:
            if isinstance(words, dict) and isinstance(words.get(key), int) and words[key] > most:
                before, words[key] = words[key], most
                for name, value in words.items():
                    if isinstance(value, list) and len(value) == before:
                        words[name] = value[:most]
    return cut


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every key, and of the first entries of lists."""
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2])
    for key, below in entries:
        yield (*prefix, key)
        if isinstance(below, dict | list):
            yield from paths(below, (*prefix, key))


def put(config: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        config = config[key]
    config[path[-1]] = copy.deepcopy(value)


def checkpoint(config: Mapping[str, Any], found: Headers | None = None) -> Checkpoint:
    return Checkpoint(id="hostile", revision="", origin="folder", config=config, headers=found)


def _readable(refusal: Day0Error) -> Day0Error:
    """The error, if it is one sentence and a hint."""
    assert refusal.message
    assert "\n" not in refusal.message
    assert refusal.hint
    assert refusal.exit_code in (2, 4)
    return refusal


def survive(
    config: Mapping[str, Any],
    found: Headers | None = None,
    stated: Mapping[str, Any] | None = None,
) -> Analysis | Day0Error:
    """The analysis, whose reports were written, or the error that a user would read."""
    try:
        analysis = of_checkpoint(checkpoint(config, found), stated=stated)
    except Day0Error as refusal:
        return _readable(refusal)
    report = json.loads(json.dumps(to_json(analysis), allow_nan=False))
    assert report["params"]["total"] >= 0
    console = Console(file=io.StringIO(), width=80, markup=False)
    console.print(render(analysis))
    return analysis
