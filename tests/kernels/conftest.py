"""Kernel tests: the interpreter where there is no GPU, NaN in fresh memory, a seed per run."""

import os
import random

import pytest
import torch

if not torch.cuda.is_available():
    # must stand before the first import of triton, which reads it once
    os.environ["TRITON_INTERPRET"] = "1"

SEED = int(os.environ.get("DAY0_SEED", random.randrange(2**31)))


def pytest_report_header() -> str:
    return f"kernels: DAY0_SEED={SEED}, device {'cuda' if torch.cuda.is_available() else 'cpu'}"


@pytest.fixture
def device() -> str:
    """Where kernels run in this session."""
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def generator(device: str) -> torch.Generator:
    """A generator on the device, seeded anew per run (printed in the header, DAY0_SEED repeats)."""
    return torch.Generator(device=device).manual_seed(SEED)


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Fresh float memory is NaN for the length of a test."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(before, warn_only=True)
