"""How far two tensors are apart, also where there is nothing in them or nothing but zeros."""

import pytest
import torch

from day0_kernels.compare import relative_errors


@pytest.mark.parametrize(
    ("actual", "truth", "expected"),
    [
        ([3.0, 4.5], [3.0, 4.0], (0.1, 0.5 / 12.5**0.5)),
        ([0.0, 2.0], [0.0, 0.0], (2.0**0.5, 2.0)),  # over zeros: the error as it is
        ([], [], (0.0, 0.0)),  # a cache to which no pool was closed
        ([float("nan"), 1.0], [float("nan"), 1.0], (0.0, 0.0)),
    ],
    ids=["plain", "zeros", "empty", "nan"],
)
def test_relative_errors(
    actual: list[float], truth: list[float], expected: tuple[float, float]
) -> None:
    found = relative_errors(torch.tensor(actual), torch.tensor(truth))
    assert found == pytest.approx(expected, rel=1e-6)
