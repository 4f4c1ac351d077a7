"""Requests that come at their own times, and when each of their tokens came back."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from day0.errors import Day0Error, DoesNotFit
from day0.runtime.metrics import Timing
from day0.runtime.prompts import Job

KINDS = ("burst", "fixed", "poisson")


class Serves(Protocol):
    """What a load needs of an engine (day0.runtime.engine.Engine)."""

    def add(self, prompt: tuple[int, ...], sampling: Any) -> Any: ...

    @property
    def busy(self) -> bool: ...

    def step(self) -> Iterable[Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`kind` "burst": all at once; "fixed": one every 1/rate seconds; "poisson": gaps drawn from
    an exponential distribution of mean 1/rate (as `vllm bench serve --request-rate`)."""

    kind: str = "burst"
    rate: float = 0.0

    def times(self, count: int, seed: int = 0) -> tuple[float, ...]:
        """Seconds after the start at which each request is sent; the first at once."""
        if self.kind == "burst":
            return (0.0,) * count
        draw = random.Random(seed)
        at, found = 0.0, []
        for _ in range(count):
            found.append(at)
            at += 1 / self.rate if self.kind == "fixed" else draw.expovariate(self.rate)
        return tuple(found)


def load_called(text: str) -> Load:
    """ "burst", "fixed:RATE" or "poisson:RATE" (requests per second)."""
    kind, _, rate = text.partition(":")
    if text == "burst":
        return Load()
    try:
        found = Load(kind=kind, rate=float(rate))
    except ValueError:
        found = Load(kind="", rate=0.0)
    if found.kind not in KINDS[1:] or not 0 < found.rate < float("inf"):
        raise Day0Error(
            f"--load is {text!r}; it must be burst, fixed:RATE or poisson:RATE in requests/s",
            hint="day0 validate MODEL --load poisson:4",
        )
    return found


def serve(
    engine: Serves,
    jobs: Sequence[Job],
    times: Sequence[float],
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
    cold: bool = False,
) -> tuple[list[Timing], float]:
    """Timings of the jobs in their order, and seconds from the start to the last token.

    A request counts from the moment at which it was due, so that an engine too busy to take it in
    is not flattered. One that the engine refuses, or that ends without a finish, has failed.
    """
    start = end = clock()
    order = sorted(range(len(jobs)), key=lambda number: times[number])
    numbers: dict[Any, int] = {}
    arrivals: dict[int, list[tuple[float, int]]] = {number: [] for number in order}
    finished: set[int] = set()
    while order or engine.busy:
        while order and start + times[order[0]] <= clock():
            number = order.pop(0)
            try:
                request = engine.add(jobs[number].ids, jobs[number].sampling)
            except DoesNotFit:
                continue
            numbers[request.number] = number
        if not engine.busy:
            if order:
                sleep(max(0.0, start + times[order[0]] - clock()))
            continue
        events = list(engine.step())
        if not events:
            continue
        end = clock()
        for number, count in Counter(numbers[event.request.number] for event in events).items():
            arrivals[number].append((end, count))
        finished |= {numbers[event.request.number] for event in events if event.finish}
    timings = [
        Timing(
            sent=start + times[number],
            input_tokens=len(job.ids),
            arrivals=tuple(arrivals[number]),
            cold=cold,
            failed=number not in finished,
        )
        for number, job in enumerate(jobs)
    ]
    return timings, end - start
