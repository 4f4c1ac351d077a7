"""Sizes that cannot be are told before anything divides by them."""

from types import SimpleNamespace
from typing import Any

import pytest

from day0.errors import Day0Error
from day0.mechanisms import sizes


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"head_dim": 0}, "head_dim = 0; it must be at least 1"),
        ({"num_heads": 5, "num_kv_heads": 2}, "num_heads = 5 and num_kv_heads = 2; the first must"),
        ({"num_experts": 10, "num_groups": 4}, "num_experts = 10 and num_groups = 4"),
        ({"top_k": 9, "num_experts": 8}, "top_k = 9 and num_experts = 8; the first must not"),
        ({"top_groups": 3, "num_groups": 2}, "top_groups = 3 and num_groups = 2"),
        ({"nope_dim": 0, "rope_dim": 0}, "one of them must be at least 1"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_contradiction(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(Day0Error) as error:
        sizes.check("layer 3: some", SimpleNamespace(**spec))
    assert error.value.message.startswith("layer 3: some: ")
    assert told in error.value.message


def test_sizes_that_agree_pass() -> None:
    spec = SimpleNamespace(num_heads=8, num_kv_heads=2, head_dim=4, top_k=2, num_experts=8,
                           num_groups=2, top_groups=1, nope_dim=0, rope_dim=4)  # fmt: skip
    assert sizes.check("layer 0: some", spec) is None
    assert sizes.check("layer 0: some", object()) is None
