"""Peers of the bench: torch's attention over contiguous keys and values, where it has the same."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

from day0_kernels.case import Case
from day0_kernels.common.paged import history_of


def peers(case: Case, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """{name: (call, output)}; the histories are gathered beforehand, which the peer does not pay.
    Sequences of equal lengths only."""
    dims, attrs, lengths = case.dims, case.attrs, case.dims["lengths"]
    other = attrs["window"] or attrs["softcap"] or dims["sink"] or dims["fp8"]
    count = dims["rows"] or lengths[0]
    if other or len(set(lengths)) > 1 or 1 < count < lengths[0]:
        return {}
    batch, heads = len(lengths), (attrs["num_heads"], attrs["num_kv_heads"])

    def contiguous(name: str) -> torch.Tensor:
        entries = history_of(arguments[name], arguments["table"], list(lengths))[0]
        return entries.view(batch, lengths[0], heads[1], -1).transpose(1, 2).contiguous()

    key, value = contiguous("key_pages"), contiguous("value_pages")
    query = arguments["q"].view(batch, count, heads[0], -1).transpose(1, 2)
    found: list[torch.Tensor] = []

    def attend() -> None:
        found[:] = [
            F.scaled_dot_product_attention(
                query, key, value, is_causal=count > 1, scale=attrs["scale"], enable_gqa=True
            )
        ]

    return {"torch sdpa": (attend, lambda: found[0].transpose(1, 2).reshape(batch * count, -1))}
