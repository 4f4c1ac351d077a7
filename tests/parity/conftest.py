"""One subject at a time: its oracle and its session serve all tests of a type."""

from collections.abc import Callable

import pytest

from tests import tiny as tinies
from tests.parity.subjects import Subject, subject_of


@pytest.fixture(scope="module")
def subject(
    request: pytest.FixtureRequest, tiny: Callable[..., tinies.TinyCheckpoint], run_seed: int
) -> Subject:
    """The subject of the type named by the parameter."""
    return subject_of(tiny(request.param), run_seed)
