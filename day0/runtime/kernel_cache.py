"""Compiled kernels on disk for all processes, and the count of what a process still compiles.

Triton keeps what it compiles in a folder of its own choosing; here it lies in DAY0_CACHE, one
folder for each set of versions and GPU, so that it can be carried to machines of the same kind.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from day0.checkpoint.load import default_cache

FOLDER = "TRITON_CACHE_DIR"  # one that the user names is left alone


@dataclass(slots=True)
class Compiles:
    """Of this process: specialisations `compiled` and `loaded` from disk, the `seconds` both took,
    and how many there were when it called itself ready (None: it has not yet)."""

    compiled: int = 0
    loaded: int = 0
    seconds: float = 0.0
    at_ready: int | None = None

    @property
    def new(self) -> int:
        """All specialisations that were new to the process."""
        return self.compiled + self.loaded

    def ready(self) -> None:
        """From now on nothing should be new."""
        self.at_ready = self.new

    @property
    def after_ready(self) -> int:
        """Specialisations that nobody prepared: compiled, or loaded from disk, since ready."""
        return 0 if self.at_ready is None else self.new - self.at_ready

    def heard(self, *, times: Any, cache_hit: bool, **_: Any) -> None:
        """What triton calls after every specialisation that is new to the process."""
        self.seconds += times.total / 1e6
        if cache_hit:
            self.loaded += 1
        else:
            self.compiled += 1


COMPILES = Compiles()


def watch() -> Compiles:
    """The process's count, which begins with the first call. Whoever listened before still does;
    without Triton nothing is counted."""
    try:
        from triton import knobs
    except ImportError:
        return COMPILES

    before = knobs.compilation.listener
    if getattr(before, "counts", None) is COMPILES:
        return COMPILES

    def listen(**said: Any) -> None:
        COMPILES.heard(**said)
        if before is not None:
            before(**said)

    listen.counts = COMPILES  # pyright: ignore[reportFunctionMemberAccess]
    knobs.compilation.listener = listen
    return COMPILES


def keep_in(cache_dir: Path | None, capability: tuple[int, int]) -> Path:
    """Have kernels kept in the cache (DAY0_CACHE unless `cache_dir`); gives the folder."""
    import triton

    stated = os.environ.get(FOLDER)
    if stated:
        return Path(stated)
    name = f"triton-{triton.__version__}_torch-{torch.__version__}_sm{capability[0]}{capability[1]}"
    folder = (cache_dir or default_cache()) / "kernels" / name
    os.environ[FOLDER] = str(folder)
    return folder
