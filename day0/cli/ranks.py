"""What the processes of a mesh say: one of them everything, the others what is theirs alone."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from day0.errors import Day0Error

# torchrun ends the others within this when one fails: what all find wrong is said once.
LATER = 3.0


def speaks(mesh: str | None) -> bool:
    """Whether this process prints: rank 0 does, and whoever is none of several."""
    return mesh is None or os.environ.get("RANK", "0") == "0"


@contextmanager
def one_voice(mesh: str | None) -> Iterator[None]:
    """Within this only rank 0 writes to stdout. An error of another rank is told with its number,
    and later than rank 0 would have told the same."""
    if speaks(mesh):
        yield
        return
    from day0.parallel.watch import RankFailed

    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (it is stdout until the process ends)
    try:
        yield
    except RankFailed:
        raise
    except Day0Error as error:
        time.sleep(LATER)
        error.message = f"rank {os.environ['RANK']}: {error.message}"
        raise
