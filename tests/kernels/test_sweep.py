"""Launch settings are tried against the table's own result, on kernels of the interpreter."""

import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from day0_kernels import sweep


@dataclass(frozen=True, kw_only=True)
class Launch:
    block: int
    warps: int


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> str:
    """A launch table, imported by name into the module of a kernel that adds 1 to its state."""

    def toy_launch(*, rows: int) -> Launch:
        return Launch(block=rows, warps=4)

    def toy(x: torch.Tensor, state: torch.Tensor, y: torch.Tensor) -> None:
        launch = user.toy_launch(rows=x.shape[0])
        if launch.block > 32:
            raise RuntimeError("out of resources\nlong story")
        state += 1
        y.copy_(x * state + (launch.block == 16))

    home, user = (types.ModuleType(f"day0_kernels.toy.{name}") for name in ("launch", "toy"))
    home.toy_launch = user.toy_launch = toy_launch  # pyright: ignore[reportAttributeAccessIssue]
    user.toy = toy  # pyright: ignore[reportAttributeAccessIssue]
    for module in (home, user):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return "day0_kernels.toy.launch:toy_launch"


def subject() -> sweep.Subject:
    arguments = {"x": torch.ones(8), "state": torch.ones(8), "y": torch.empty(8)}
    kernel = sys.modules["day0_kernels.toy.toy"].toy
    timed = {name: value.clone() for name, value in arguments.items()}
    return sweep.Subject(kernel=kernel, arguments=arguments, timed=timed, output="y")


def test_settings_reach_the_kernel_and_wrong_ones_are_named(table: str) -> None:
    times = iter((5.0, 3.0, 2.0))

    def time(function: Any) -> float:
        function()
        return next(times)

    settings = sweep.grid(["block=8,4,16,64", "warps=2"])
    rows = sweep.variants(subject(), table, settings, time)
    assert rows[0] == {"settings": {}, "us": 5.0}
    assert [row["settings"]["block"] for row in rows[1:3]] == [4, 8]
    assert [row["us"] for row in rows[1:3]] == [2.0, 3.0]
    failed = {row["settings"]["block"]: row["failed"] for row in rows[3:]}
    assert failed[16].startswith("differs by 5.00e-01")
    assert failed[64] == "RuntimeError: out of resources"
    # the table answers as before
    assert sys.modules["day0_kernels.toy.toy"].toy_launch(rows=8) == Launch(block=8, warps=4)


def test_a_field_that_is_not_there_is_a_failure_of_each_variant(table: str) -> None:
    rows = sweep.variants(subject(), table, sweep.grid(["blok=8"]), lambda function: 1.0)
    assert "blok" in rows[1]["failed"]


def test_the_grid_and_the_table_are_asked_for_plainly() -> None:
    assert sweep.grid(["a=1,2", "b=true"]) == [{"a": 1, "b": True}, {"a": 2, "b": True}]
    with pytest.raises(ValueError, match="'a' is not of the form field=value,value"):
        sweep.grid(["a"])
    assert sweep.table_of("mla", None) == "day0_kernels.mla.launch:attend_launch"
    with pytest.raises(ValueError, match="has [2-9] launch functions; name one with --table"):
        sweep.table_of("kda", None)
