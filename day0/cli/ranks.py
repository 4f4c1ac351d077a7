"""What the processes of a mesh say: one of them everything, the others what is theirs alone."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from day0.errors import Day0Error

if TYPE_CHECKING:
    from day0.parallel.collectives import Ranks
    from day0.parallel.watch import Failure

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


@contextmanager
def together(ranks: "Ranks | None") -> Iterator[None]:
    """Within this all ranks end together, and one process of each machine says which failed."""
    from day0.parallel.watch import Followed, watched

    try:
        with watched(ranks, _end):
            yield
    except Followed:
        sys.exit(1)


def _end(failure: "Failure") -> None:
    """A process of the machine whose rank has told the failure says nothing."""
    from day0.parallel.watch import RankFailed, own_agent

    if os.environ.get("LOCAL_RANK", "0") == "0" and failure.agent != own_agent():
        said = RankFailed(failure)
        sys.stderr.write(f"error: {said.message}\n" + (f"hint: {said.hint}\n" if said.hint else ""))
        sys.stderr.flush()
    os._exit(failure.code)
