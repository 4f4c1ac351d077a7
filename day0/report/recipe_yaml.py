"""An analysis in the shape of the public vLLM recipes (github.com/vllm-project/recipes,
models/ORG/NAME.yaml): their keys in their order.

Only what the analysis knows is filled in. What nobody has run is not called verified, and what only
a run or a model card tells (versions, parsers, tasks beyond text, dates) is left to its author.
"""

import math
from collections.abc import Mapping
from typing import Any

import yaml

# Their rule for what a variant needs: stored bytes and a fifth for caches and activations.
HEADROOM = 1.2
_PRECISION = (
    *(("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"), ("awq", "awq"), ("gptq", "gptq"), ("fp8", "fp8")),
    *(("mxfp8", "fp8"), ("int8", "int8"), ("int4", "int4"), ("bf16", "bf16"), ("fp16", "fp16")),
    ("fp32", "bf16"),
)
DENSE_STRATEGIES = ("single_node_tp", "multi_node_tp", "multi_node_tp_pp")
EXPERT_STRATEGIES = (
    *("single_node_tp", "single_node_tep", "single_node_dep", "multi_node_tp"),
    *("multi_node_tp_pp", "multi_node_dep", "multi_node_tep"),
)


def recipe(report: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe as plain data. `report`: schema day0.analysis/1."""
    model, params = report["model"], report["params"]
    name = model["name"].partition("@")[0]
    title = name.rpartition("/")[2] or name
    experts = "experts" in params["by_role"]
    total, active = _count(params["total"]), _count(params["active"])
    return {
        "meta": {
            "title": title,
            "slug": title.lower().replace(".", "-").replace("_", "-"),
            "provider": name.rpartition("/")[0],
            "description": f"{total} parameters, {active} active per token; {_mixers(report)}.",
            "tasks": ["text"],
            "related_recipes": [],
        },
        "model": {
            "model_id": name,
            "architecture": "moe" if experts else "dense",
            "parameter_count": total,
            "active_parameters": active if experts else total,
            "context_length": model["context_length"],
            "base_args": [],
            "base_env": {},
        },
        "features": {},
        "opt_in_features": [],
        "variants": {"default": _variant(report)},
        "compatible_strategies": list(EXPERT_STRATEGIES if experts else DENSE_STRATEGIES),
        "hardware_overrides": {},
        "strategy_overrides": {},
        "guide": _guide(report),
    }


def render(report: Mapping[str, Any]) -> str:
    """As YAML."""
    return yaml.dump(recipe(report), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Long texts as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _variant(report: Mapping[str, Any]) -> dict[str, Any]:
    stored = report["bytes"]["by_format"]
    largest = max(stored, key=lambda name: stored[name], default="")
    precision = next((word for start, word in _PRECISION if largest.startswith(start)), largest)
    size = report["bytes"]["checkpoint"] / 1e9
    return {
        "precision": precision,
        "vram_minimum_gb": math.ceil(size * HEADROOM),
        "description": f"{size:,.0f} GB of weights; per sequence "
        f"{report['kv_bytes_per_token']:,.10g} B of cache per token at bf16",
    }


def _count(value: float) -> str:
    """671B, 2.8T, 0.6B."""
    for letter, size in (("T", 1e12), ("B", 1e9)):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value / 1e6:.3g}M"


def _mixers(report: Mapping[str, Any]) -> str:
    counts: dict[str, int] = {}
    for layer in report["layers"]:
        counts[layer["mixer"]] = counts.get(layer["mixer"], 0) + 1
    return ", ".join(f"{count} {mixer} layers" for mixer, count in counts.items())


def _guide(report: Mapping[str, Any]) -> str:
    """What the analysis found, and that nothing was run."""
    lines = [
        "## Overview",
        "",
        "Written by day0 from config.json and tensor headers; nothing was run in an engine.",
        "",
        f"- tensors: {report['proof']['status']}",
        f"- state per sequence: {report['state_bytes_per_sequence']:,} B, index keys per token: "
        f"{report['index_bytes_per_token']:,.10g} B",
    ]
    new = sorted({item["family"] for item in report["inventory"] if item["verdict"] == "new"})
    if new:
        lines.append(f"- operators without an optimised implementation in day0: {', '.join(new)}")
    if report["drafts"]:
        lines.append(f"- drafts for speculation in the checkpoint: {', '.join(report['drafts'])}")
    lines += [f"- {item['severity']}: {item['message']}" for item in report["findings"]]
    return "\n".join(lines) + "\n"
