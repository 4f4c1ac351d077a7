"""Launch of the RMS norm. Tuned on one NVIDIA H200; other chips get the same figures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Rows (one norm each: a token, or a group of its channels) of a program, and its warps."""

    rows: int
    num_warps: int


def launch(*, num_rows: int, width: int) -> Launch:
    """About 2,048 elements per program for narrow rows, about 16 per thread for wide ones."""
    if width > 1024:
        return Launch(rows=1, num_warps=4 if width <= 2048 else (8 if width <= 8192 else 16))
    rows = max(2048 >> (width - 1).bit_length(), 1)
    if num_rows < 132 * rows:
        # fewer rows a program while that leaves multiprocessors idle
        return Launch(rows=max(rows // 4, 1), num_warps=1)
    return Launch(rows=rows, num_warps=4)


def quantised_warps(*, width: int) -> int:
    """Warps of a program that norms and quantises one row."""
    if width <= 512:
        return 1
    return 4 if width <= 4096 else (8 if width <= 8192 else 16)
