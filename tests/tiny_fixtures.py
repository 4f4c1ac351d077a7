"""The fixture that hands out tiny checkpoints."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.tiny import TinyCheckpoint, shared


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, run_seed: int) -> Callable[..., TinyCheckpoint]:
    """`tiny(type_name, **overrides)`: the run's checkpoint of that type, built once by any worker.

    Its folder is shared: copy it before changing it.
    """
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Each worker has a folder of its own below the run's.
        base = base.parent
    built: dict[str, TinyCheckpoint] = {}

    def give(type_name: str, **overrides: Any) -> TinyCheckpoint:
        key = f"{type_name} {sorted(overrides.items())!r}"
        if key not in built:
            built[key] = shared(type_name, base / "tiny", seed=run_seed, **overrides)
        return built[key]

    return give
