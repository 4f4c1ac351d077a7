"""Counts what Triton compiles, and how long it takes: compiling while requests wait is a fault."""

from typing import Any


class Compiles:
    """`count` and `seconds` since `watch()`. Nothing is counted where Triton is not installed."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0

    def watch(self) -> "Compiles":
        """Begin; every later compilation of this process is counted."""
        try:
            from triton import knobs
        except ImportError:
            return self
        knobs.compilation.listener = self._note
        return self

    def _note(self, *, times: Any = None, cache_hit: bool = False, **others: Any) -> None:
        if cache_hit:
            return
        self.count += 1
        self.seconds += getattr(times, "total", 0) / 1e6
