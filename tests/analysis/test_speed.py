"""analyze is fast and light: the figures stand in the README (printed here with -s).

The process has one thread, so on an idle machine wall time is CPU time; here other tests run
beside it, and the CPU time is judged. A shared machine is slower too, up to three times: a
plain piece of Python timed before and after says by how much.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import corpus as corpus_place
from tests import listing

ROOT = corpus_place.ROOT
K3 = "moonshotai__Kimi-K3"


@dataclass(frozen=True)
class Figures:
    """Of a whole process: seconds on the wall, CPU seconds, peak memory in MB."""

    wall: float
    cpu: float
    memory: float


def measure(*arguments: str) -> Figures:
    """The best of two runs: the machine is shared, and what it can do is judged."""
    runs = [_once(("-m", "day0", *arguments)) for _ in range(2)]
    best = min(runs, key=lambda figures: figures.cpu)
    print(f"{' '.join(arguments)}: {best}")
    return best


IDLE_CHURN = 0.25  # CPU seconds of CHURN where nothing else runs
CHURN = "kept = [(number, str(number), {number: number}) for number in range(400_000)]"


def slowed() -> float:
    """How much slower than idle the machine makes small objects now, at least 1."""
    return max(1.0, _once(("-c", CHURN)).cpu / IDLE_CHURN)


# A forked child starts with its parent's memory on its account: a small process measures.
WATCH = """
import os, resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
wall = time.perf_counter() - start
print(code, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""


def _once(arguments: tuple[str, ...]) -> Figures:
    command = [sys.executable, "-c", WATCH, sys.executable, *arguments]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    code, wall, cpu, memory = map(float, told.split())
    assert code == 0
    return Figures(wall, cpu, memory)


@pytest.fixture
def k3_config(corpus: Path, tmp_path: Path) -> Path:
    shutil.copy(corpus / "configs" / f"{K3}.json", tmp_path / "config.json")
    return tmp_path


def test_from_the_config_alone(k3_config: Path) -> None:
    before = slowed()
    figures = measure("analyze", str(k3_config))
    assert figures.cpu < 1.0 * max(before, slowed())
    assert figures.memory < 150


def test_all_plans_from_the_config(k3_config: Path) -> None:
    """The JSON has every plan (issue 7)."""
    slow = slowed()
    figures = measure("analyze", str(k3_config), "--format", "json")
    assert figures.cpu < 1.5 * max(slow, slowed())
    assert figures.memory < 200


@pytest.mark.slow
def test_kimi_k3_with_all_its_headers(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "k3"
    config = json.loads((corpus / "configs" / f"{K3}.json").read_text(encoding="utf-8"))
    listing.write_sparse(corpus / "headers" / f"{K3}.tsv", folder, config)
    before = slowed()
    figures = measure("analyze", str(folder))
    assert figures.cpu < 8.0 * max(before, slowed())
    assert figures.memory < 1500
