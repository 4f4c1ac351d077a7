"""The JSON of `day0 analyze`: keys that other tools rely on, sums that agree, equal bytes."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from day0.analysis.analyze import analyze
from day0.report.analysis_json import to_json
from tests.corpus import ROOT

# DESIGN section 5, without the keys of plans that are not made yet.
KEYS: dict[str, tuple[str, ...]] = {
    "model": ("id", "revision", "architectures", "model_type", "dtype", "context_length"),
    "params": ("total", "active", "embedding", "by_role"),
    "bytes": ("checkpoint", "by_format"),
    "graph": ("ops", "values"),
    "new_fraction": ("ops", "params", "flops", "bytes"),
    "proof": ("status", "expected", "matched", "missing", "unexpected", "shape", "dtype",
              "unexplained_bytes", "opaque_bytes"),
    "semantics": ("settled", "assumed"),
    "config": ("unread_keys",),
    "quant": ("stored", "coverage", "conflicts"),
    "parallel": ("gpu", "num_gpus", "assumed", "recommended", "tensor_parallel", "legal",
                 "illegal", "sequence"),
}  # fmt: skip
ROWS: dict[str, tuple[str, ...]] = {
    "layers": ("index", "mixer", "ffn", "residual"),
    "inventory": ("family", "count", "verdict", "impl", "reasons", "params", "flops_per_token",
                  "bytes_per_token", "because"),
    "caches": ("name", "growth", "layers", "bytes_per_token", "window_tokens", "pool",
               "bytes_per_pool", "bytes_per_sequence"),
}  # fmt: skip
OP = ("id", "family", "inputs", "outputs", "attrs", "weights", "caches", "because")
NUMBERS = ("kv_bytes_per_token", "index_bytes_per_token", "state_bytes_per_sequence")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return json.loads(json.dumps(to_json(analyze("demo")), allow_nan=False))


def test_every_key_is_there(report: dict[str, Any]) -> None:
    assert report["schema"] == "day0.analysis/1"
    for key, below in KEYS.items():
        assert set(below) <= set(report[key]), key
    for key, below in ROWS.items():
        assert report[key], key
        assert all(set(below) <= set(row) for row in report[key]), key
    assert all(set(OP) <= set(op) for op in report["graph"]["ops"])
    assert all(isinstance(report[key], int) for key in NUMBERS)


def test_sums_agree(report: dict[str, Any]) -> None:
    params = report["params"]
    assert sum(params["by_role"].values()) == params["total"]
    assert params["trunk"] + params["drafts"] + params["opaque"] == params["total"]
    assert sum(report["bytes"]["by_format"].values()) == report["bytes"]["checkpoint"]
    assert [layer["index"] for layer in report["layers"]] == list(range(8))
    assert sum(entry["count"] for entry in report["inventory"]) == len(report["graph"]["ops"])
    rates = [row["bytes_per_token"] * len(row["layers"]) for row in report["caches"]]
    pools = [
        row["bytes_per_pool"] * len(row["layers"]) / row["pool"]
        for row in report["caches"]
        if row["pool"]
    ]
    assert sum(rates) == report["kv_bytes_per_token"]
    assert sum(pools) == report["index_bytes_per_token"]
    new = [entry for entry in report["inventory"] if entry["verdict"] == "new"]
    assert report["new_fraction"]["ops"] == len(new) / len(report["inventory"])


def test_the_graph_is_one_a_reader_can_follow(report: dict[str, Any]) -> None:
    graph, facts = report["graph"], {fact["path"] for fact in report["facts"]}
    known = set(graph["inputs"])
    for op in graph["ops"]:
        assert set(op["inputs"].values()) <= known, op["id"]
        known |= set(op["outputs"].values())
        assert set(op["because"]) <= facts, op["id"]
    assert set(graph["outputs"]) <= known == set(graph["values"])


def test_two_runs_give_the_same_bytes() -> None:
    """Whatever the seed of hashes: no set's order reaches the report."""
    command = [sys.executable, "-m", "day0", "analyze", "demo", "--format", "json"]
    first, second = (
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed},
                       capture_output=True, check=True).stdout
        for seed in ("1", "2")
    )  # fmt: skip
    assert first == second
