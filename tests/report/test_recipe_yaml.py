"""The public recipes' shape: keys in order, figures of the JSON, and no claim that nobody ran."""

import math

import pytest
import yaml

from day0.report import recipe_yaml
from tests.report.pages import KIMI_K3, report_of

KEYS = ("meta", "model", "features", "opt_in_features", "variants", "compatible_strategies",
        "hardware_overrides", "strategy_overrides", "guide")  # fmt: skip


@pytest.mark.parametrize(
    ("model", "name", "counts", "kind"),
    [
        (KIMI_K3, "moonshotai/Kimi-K3", ("2.78T", "104B"), "moe"),
        ("catalog:meta-llama--meta-llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B",
         ("8.03B", "8.03B"), "dense"),
    ],
)  # fmt: skip
def test_the_shape(model: str, name: str, counts: tuple[str, str], kind: str) -> None:
    report = report_of(model)
    found = yaml.safe_load(recipe_yaml.render(report))
    assert tuple(found) == KEYS
    assert found["model"]["model_id"] == name
    assert (found["model"]["parameter_count"], found["model"]["active_parameters"]) == counts
    assert found["model"]["architecture"] == kind
    assert found["model"]["context_length"] == report["model"]["context_length"]
    need = math.ceil(report["bytes"]["checkpoint"] / 1e9 * 1.2)
    assert found["variants"]["default"]["vram_minimum_gb"] == need
    assert "hardware" not in found["meta"]
    assert ("single_node_tep" in found["compatible_strategies"]) == (kind == "moe")
    assert "nothing was run" in found["guide"]


def test_the_precision_is_that_of_most_bytes() -> None:
    report = report_of(KIMI_K3)
    stored = {"bf16": 3, "mxfp4": 14, "fp8_b128": 5}
    changed = {**report, "bytes": {"checkpoint": 22, "by_format": stored}}
    assert recipe_yaml.recipe(changed)["variants"]["default"]["precision"] == "mxfp4"
