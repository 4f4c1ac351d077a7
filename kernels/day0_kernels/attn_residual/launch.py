"""Launch tables of the attention residual."""

from dataclasses import dataclass

FEW = 132  # tokens: one program for each multiprocessor of an H200
MOST_HELD = 16  # sources in registers


@dataclass(frozen=True, slots=True, kw_only=True)
class MixLaunch:
    """`held`: all sources at once in registers, else one after another; `registers` of a thread at
    most (None: what the compiler takes)."""

    held: bool
    registers: int | None = None

    @property
    def num_warps(self) -> int:
        return 8 if self.held else 4


def mix_launch(
    capability: tuple[int, int], *, num_tokens: int, channels: int, num_sources: int
) -> MixLaunch:
    """Swept on an H200 on 2026-12-01 with 9 sources: rows of up to 4,096 channels are held where a
    multiprocessor has one; beyond, and where programs queue, four warps read one source ahead."""
    if num_tokens <= FEW and channels <= 4096 and num_sources <= MOST_HELD:
        return MixLaunch(held=True)
    return MixLaunch(held=False)


def blocks_launch(*, num_tokens: int, num_queries: int) -> int:
    """Queries of a program of phase 1, as many as leave every multiprocessor a program: each more
    saves a trip to the sources. Guess of 2026-12-01, before any run."""
    return max(min(num_tokens * num_queries // FEW, num_queries), 1)


def merge_warps(channels: int) -> int:
    """Warps of phase 2. Guess of 2026-12-01, before any run."""
    return 8 if channels > 2048 else 4
