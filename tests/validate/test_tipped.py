"""A choice between nearly equal scores that rounding tips is no fault; many of them are."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from day0.runtime.opening import open_model
from day0.validate.cells.state import decode
from day0.validate.subject import Subject
from day0_kernels.moe_route import reference
from tests import tiny as tinies

pytestmark = [pytest.mark.hf, pytest.mark.slow]


@pytest.mark.parametrize(("times", "status"), [(1, "pass"), (40, "fail")])
def test_other_experts_in_single_rows(
    times: int,
    status: str,
    tiny: Callable[..., tinies.TinyCheckpoint],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """`times` decoded rows are sent to the worst experts instead of the best."""
    right, calls = reference.moe_route_general, 0

    @wraps(right)
    def tipped(**given: Any) -> None:
        nonlocal calls
        # counted from a prompt on: the same rows in the first look and in the one that follows
        calls = calls + 1 if len(given["logits"]) == 1 else 0
        turned = 3 <= calls < 3 + times
        right(**{**given, "logits": -given["logits"] if turned else given["logits"]})

    monkeypatch.setattr(reference, "moe_route_general", tipped)
    folder = str(tiny("kimi_linear").folder)
    ops = open_model(folder, quant="fp32", backend="reference").model.graphs["main"].ops
    layer = next(op.layer for op in ops if op.family == "moe_route")
    opened = open_model(folder, quant="fp32", backend="reference", layers=layer + 1)
    subject = Subject(opened, seed=seed)
    found = decode(subject)
    assert found.status == status, found.detail
    if status == "pass":
        assert "rounding tipped 1 choices" in found.detail
        assert found.error is not None
        assert found.error < 1e-4
    else:
        assert found.family == "moe_route"
        assert found.layer == layer
