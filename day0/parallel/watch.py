"""Ranks that watch one another, so that when one ends all do, and say which one and why.

Every rank has a thread that beats in the store of the rendezvous and looks at the others' beats. A
rank that fails writes why; the others read it within a beat and exit. One that is killed stops
beating. What a collective says of a lost connection is an effect, so its rank waits for the cause.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from day0.errors import Day0Error
from day0.parallel.collectives import Ranks, leave

BEAT = 0.5  # seconds between two beats
PATIENCE = 10.0  # seconds without a beat after which a rank counts as gone
GRACE = 1.0  # for a rank that ends in order while the store goes away
# How gloo and NCCL say that a peer is gone, and that one did not answer in time.
LOST = ("connection closed by peer", "connection reset", "broken pipe", "connection refused",
        "remote process exited", "socket")  # fmt: skip
LATE = ("timed out", "timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a rank said before it ended; `agent`: the torchrun that started it, -1 where the rank
    said nothing and others noticed."""

    rank: int
    agent: int
    message: str
    hint: str = ""
    code: int = 1


# Ends this process because another rank failed.
End = Callable[[Failure], None]


class Watch:
    """This rank's beat, and its look at the others."""

    def __init__(self, ranks: Ranks, end: End, *, patience: float = PATIENCE) -> None:
        self._ranks, self._end, self._patience = ranks, end, patience
        store = dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
            os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False,
            wait_for_workers=False, timeout=timedelta(seconds=patience),
        )  # fmt: skip
        # torchrun keeps its store when it starts all ranks again
        again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self._store = dist.PrefixStore(  # pyright: ignore[reportPrivateImportUsage]
            f"day0/{again}", store
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="day0-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """All ranks are done: nobody is missed any more."""
        self._ended.set()

    def failed(self, error: BaseException) -> Failure | None:
        """Tell the others why this rank ends; None where another one has already told a reason,
        which is the cause."""
        text = str(error).lower()
        if not isinstance(error, Day0Error) and any(word in text for word in LOST):
            time.sleep(self._patience + 2 * BEAT)  # the thread ends this process when it knows why
        own = Failure(rank=self._ranks.rank, agent=own_agent(), **_said(error))
        return own if self._tell(own) else None

    def _tell(self, failure: Failure) -> bool:
        """Whether it is the first that anybody tells."""
        self._ended.set()
        try:
            said = json.dumps(asdict(failure))
            return self._store.compare_set("failed", "", said).decode() == said
        except RuntimeError:  # the store is gone: nobody can be told
            return True

    def _run(self) -> None:
        count, now = 0, time.monotonic()
        seen: dict[int, tuple[str, float]] = dict.fromkeys(self._ranks.everyone, ("", now))
        while not self._ended.wait(BEAT):
            count += 1
            try:
                failure = self._look(count, seen)
            except RuntimeError:
                if self._ended.wait(GRACE):
                    return
                failure = Failure(rank=0, agent=-1, message="the rendezvous does not answer",
                                  hint="is its machine still there?")  # fmt: skip
            if failure is not None and not self._ended.is_set():
                self._end(failure)

    def _look(self, count: int, seen: dict[int, tuple[str, float]]) -> Failure | None:
        store, now = self._store, time.monotonic()
        store.set(f"beat/{self._ranks.rank}", str(count))
        if store.check(["failed"]):
            return Failure(**json.loads(store.get("failed")))
        for rank, (beat, since) in seen.items():
            key = f"beat/{rank}"
            found = store.get(key).decode() if store.check([key]) else ""
            if found != beat:
                seen[rank] = found, now
            elif now - since > self._patience:
                gone = Failure(
                    rank=rank, agent=-1,
                    message=f"not heard of for {self._patience:g} s: was it killed?",
                    hint="look at its machine's log; day0 run starts from the beginning",
                )  # fmt: skip
                self._store.compare_set("failed", "", json.dumps(asdict(gone)))
                return gone
        return None


class RankFailed(Day0Error):
    """A rank's own error, with its number."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"rank {failure.rank}: {failure.message}", hint=failure.hint)
        self.exit_code = failure.code


class Followed(Exception):
    """This rank ends because another one failed, which has told why."""


@contextmanager
def watched(ranks: Ranks | None, end: End, *, patience: float = PATIENCE) -> Iterator[None]:
    """Within this, all ranks end together: in order, or with the first one's failure. `end` is
    called from a thread and must end the process at once: its main thread waits for ranks that are
    no more. RankFailed where this rank is the first to fail, Followed where it is not. Nothing is
    done without ranks."""
    if ranks is None:
        yield
        return
    watch = Watch(ranks, end, patience=patience)
    watch.start()
    try:
        yield
        dist.barrier()
        watch.end()
    except BaseException as error:
        failure = watch.failed(error)
        if failure is None:
            raise Followed from error
        if isinstance(error, Day0Error) or _late(error):
            raise RankFailed(failure) from error
        error.add_note(f"rank {ranks.rank} of --mesh {ranks.mesh.name} failed")
        raise
    leave()


def _late(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in LATE)


def _said(error: BaseException) -> dict[str, Any]:
    if isinstance(error, Day0Error):
        return {"message": error.message, "hint": error.hint, "code": error.exit_code}
    if _late(error):
        return {
            "message": "the others did not answer a collective within --dist-timeout",
            "hint": "is one of them slower, or stuck? --dist-timeout SECONDS waits longer",
        }
    first = str(error).strip().partition("\n")[0]
    return {"message": f"{type(error).__name__}: {first}"}


def own_agent() -> int:
    """Which torchrun started this process; each machine has one."""
    return int(os.environ.get("GROUP_RANK", "0"))
