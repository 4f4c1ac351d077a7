"""What every test stands on: a seed per run, empty caches, no network, the corpus.

Imports nothing that has to be installed but pytest: the tests start on a bare machine.
"""

import os
import random
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import corpus as corpus_place
from tests import network
from tests.tiny_fixtures import tiny as tiny

TORCH_FOLDERS = ("kernels", "parity", "runtime", "validate")
HAS_TORCH = find_spec("torch") is not None
CACHE_FOLDER = pytest.StashKey[str]()

# Interpreters without torch run the torch-free tests; the header says what was left out.
collect_ignore = [] if HAS_TORCH else list(TORCH_FOLDERS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden again from what is said"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Settle the environment before any test module is imported and reads it."""
    os.environ.setdefault("DAY0_SEED", str(random.SystemRandom().randrange(2**31)))
    if "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.setdefault("OMP_NUM_THREADS", "1")

    cache = tempfile.mkdtemp(prefix="day0-tests-")
    config.stash[CACHE_FOLDER] = cache
    os.environ["DAY0_CACHE"] = str(Path(cache, "day0"))
    os.environ["HF_HOME"] = str(Path(cache, "huggingface"))
    # Subprocesses are beyond the guard in network.py: for them the hub is a closed loopback port.
    os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    for name in list(os.environ):
        if name.lower() in {"http_proxy", "https_proxy", "all_proxy"} or name in {
            "HF_TOKEN",
            "HF_HUB_OFFLINE",
            "HF_HUB_CACHE",
        }:
            del os.environ[name]

    if find_spec("hypothesis") is not None:
        import hypothesis

        # No deadline: the machine is shared, and time per example is not what these tests judge.
        hypothesis.settings.register_profile("day0", deadline=None, print_blob=True)
        hypothesis.settings.load_profile("day0")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[CACHE_FOLDER], ignore_errors=True)


def pytest_report_header() -> list[str]:
    lines = [f"seed: DAY0_SEED={os.environ['DAY0_SEED']}"]
    if not HAS_TORCH:
        lines.append(f"torch is not installed: tests/{{{','.join(TORCH_FOLDERS)}}} are left out")
    return lines


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs more GPUs than there are; torch is imported only if a test asks for one."""
    wanting = [
        (item, 2 if item.get_closest_marker("multi_gpu") else 1)
        for item in items
        if item.get_closest_marker("gpu") or item.get_closest_marker("multi_gpu")
    ]
    if not wanting:
        return
    import torch

    present = torch.cuda.device_count()
    for item, needed in wanting:
        if present < needed:
            item.add_marker(pytest.mark.skip(reason=f"needs {needed} CUDA device(s): {present}"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # pyright: ignore[reportOptionalMemberAccess]
    if report.failed:
        report.sections.append(("seed", f"repeat with DAY0_SEED={os.environ['DAY0_SEED']}"))


@pytest.fixture(scope="session", autouse=True)
def network_guard() -> Iterator[None]:
    """Only loopback may be connected to, in fixtures as in tests."""
    with pytest.MonkeyPatch.context() as patch:
        network.install(patch)
        yield


@pytest.fixture(scope="session")
def run_seed() -> int:
    """The seed of this run, for what is built once; DAY0_SEED sets it."""
    return int(os.environ["DAY0_SEED"])


@pytest.fixture
def seed(run_seed: int, request: pytest.FixtureRequest) -> int:
    """A seed of this test in this run; independent of which other tests run, and in what order."""
    return zlib.crc32(f"{run_seed} {request.node.nodeid}".encode()) % 2**31


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real configurations and header listings beside the checkout."""
    folder = corpus_place.find()
    if folder is None:
        message = f"no shared/corpus beside {corpus_place.ROOT}"
        if corpus_place.in_ci():
            pytest.fail(f"CI=true, and {message}")
        pytest.skip(message)
    return folder


@pytest.fixture
def nan_poison() -> Iterator[None]:
    """Fresh memory is NaN (integers: the maximum), so that reading what nobody wrote shows."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    filled = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(before, warn_only=warned)
    torch.utils.deterministic.fill_uninitialized_memory = filled
