"""Launch tables of the attention residual."""

from dataclasses import dataclass

FEW = 132  # tokens: one program for each multiprocessor of an H200
MOST_HELD = 16  # sources in registers


@dataclass(frozen=True, slots=True, kw_only=True)
class MixLaunch:
    """`held`: all sources at once in registers (16 warps), else one after another; `registers` of
    a thread at most (None: what the compiler takes)."""

    held: bool
    num_warps: int = 16
    registers: int | None = None


def mix_launch(
    capability: tuple[int, int], *, num_tokens: int, channels: int, num_sources: int
) -> MixLaunch:
    """Guess of 2026-12-01, before its run: few tokens wait for one load and one reduction, many
    want several programs a multiprocessor."""
    if num_tokens <= FEW and num_sources <= MOST_HELD:
        return MixLaunch(held=True)
    return MixLaunch(held=False, num_warps=8)
