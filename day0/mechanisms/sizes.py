"""Sizes of a mechanism that cannot be: caught before anything divides by them."""

from typing import Any

from day0.errors import Day0Error

# Fields of specs that count from one, and pairs (multiple, divisor), (most, least).
AT_LEAST_ONE = (
    *("num_heads", "num_kv_heads", "num_key_heads", "head_dim", "value_dim", "conv_size"),
    *("num_experts", "top_k", "num_groups", "num_streams", "groups", "intermediate"),
)
MULTIPLES = (
    ("num_heads", "num_kv_heads"),
    ("num_heads", "num_key_heads"),
    ("num_heads", "groups"),
    ("num_experts", "num_groups"),
)
NOT_ABOVE = (("top_k", "num_experts"), ("top_groups", "num_groups"))


def check(place: str, spec: Any) -> None:
    """Day0Error when the sizes of a mechanism's spec contradict each other; `place` names it."""
    for name in AT_LEAST_ONE:
        value = getattr(spec, name, 1)
        if value < 1:
            raise _error(place, f"{name} = {value}", "it must be at least 1")
    if getattr(spec, "nope_dim", 1) + getattr(spec, "rope_dim", 0) < 1:
        raise _error(place, "nope_dim = 0 and rope_dim = 0", "one of them must be at least 1")
    for many, few in MULTIPLES:
        whole, part = getattr(spec, many, None), getattr(spec, few, None)
        if whole is not None and part is not None and whole % part:
            raise _error(place, f"{many} = {whole} and {few} = {part}",
                         "the first must be a multiple of the second")  # fmt: skip
    for less, more in NOT_ABOVE:
        small, large = getattr(spec, less, None), getattr(spec, more, None)
        if small is not None and large is not None and small > large:
            raise _error(place, f"{less} = {small} and {more} = {large}",
                         "the first must not be above the second")  # fmt: skip


def _error(place: str, values: str, rule: str) -> Day0Error:
    return Day0Error(
        f"{place}: {values}; {rule}", hint="mend config.json, or state the right ones with --facts"
    )
