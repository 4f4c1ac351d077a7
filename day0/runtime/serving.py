"""Jobs served to their end: text as it grows, stop strings, and the moments of every token."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from day0.runtime.engine import Engine, Event
from day0.runtime.metrics import Timing
from day0.runtime.prompts import Job
from day0.runtime.speculation import Tally
from day0.runtime.text import Growing, Stops, Text

Piece = Callable[[int, str], None]  # job number, text that can be shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a job became. `ids` as produced, an end token included; `text` (None without a
    tokenizer) without special tokens and without the stop string. `finish_reason` "length",
    "stop", or "cancelled"."""

    prompt: str | None
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    text: str | None
    finish_reason: str
    timing: Timing


@dataclass(slots=True, kw_only=True)
class _State:
    growing: Growing | None
    stops: Stops
    ids: list[int] = field(default_factory=list)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    text: str = ""
    finish: str = ""


class Serving:
    """One run of an engine over jobs. After an interruption `outputs` holds what came so far."""

    def __init__(
        self,
        engine: Engine,
        jobs: Sequence[Job],
        text: Text | None,
        *,
        cold: bool = False,
        on_piece: Piece | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.jobs = tuple(jobs)
        self._engine = engine
        self._cold = cold
        self._on_piece = on_piece
        self._clock = clock
        self._states = [
            _State(growing=None if text is None else Growing(text), stops=Stops(job.sampling.stop))
            for job in self.jobs
        ]
        self._numbers: dict[int, int] = {}
        first = None  # whose prompt a fork continues
        for number, job in enumerate(self.jobs):
            if job.fork and first is not None:
                request = engine.fork(first, job.sampling)
            else:
                request = first = engine.add(job.ids, job.sampling)
            self._numbers[request.number] = number
        self._before = len(engine.steps)
        self._found = replace(engine.prefix.counts) if engine.prefix else None
        self._start = self._end = clock()
        self.step_s: dict[str, list[float]] = {}  # seconds of every step, by phase

    def run(self) -> tuple[Output, ...]:
        """Serve all jobs to their end."""
        self._start = self._end = self._clock()
        while self._engine.busy:
            began, before = self._clock(), len(self._engine.steps)
            events = self._engine.step()
            self._end = self._clock()
            for phase, _ in self._engine.steps[before:]:
                self.step_s.setdefault(phase, []).append(self._end - began)
            for event in events:
                self._take(event)
        return self.outputs

    @property
    def steps(self) -> tuple[tuple[str, int], ...]:
        """(phase, rows) of every step."""
        return tuple(self._engine.steps[self._before :])

    @property
    def reuse(self) -> dict[str, float | int | None]:
        """What this run found of earlier prefixes, and what is kept; nothing without a cache."""
        return self._engine.prefix.figures(self._found) if self._engine.prefix else {}

    @property
    def tally(self) -> Tally | None:
        """Drafts of this run, counted; None without speculation."""
        speculation = self._engine.speculation
        return None if speculation is None else speculation.tally

    @property
    def duration(self) -> float:
        """Seconds from the start to the last token."""
        return self._end - self._start

    @property
    def outputs(self) -> tuple[Output, ...]:
        return tuple(
            Output(
                prompt=job.prompt,
                prompt_ids=job.ids,
                ids=tuple(state.ids),
                text=None if state.growing is None else state.text,
                finish_reason=state.finish or "cancelled",
                timing=Timing(
                    sent=self._start,
                    input_tokens=len(job.ids),
                    arrivals=tuple(state.arrivals),
                    cold=self._cold,
                    failed=not state.finish,
                ),
            )
            for job, state in zip(self.jobs, self._states, strict=True)
        )

    def _take(self, event: Event) -> None:
        number = self._numbers[event.request.number]
        state, sampling = self._states[number], self.jobs[number].sampling
        if state.finish:  # a stop string stood among the tokens of the same step
            return
        state.ids.append(event.token)
        moment, count = state.arrivals[-1] if state.arrivals else (0.0, 0)
        if count and moment == self._end:  # accepted drafts come with the token before them
            state.arrivals[-1] = moment, count + 1
        else:
            state.arrivals.append((self._end, 1))
        if state.growing is None:
            state.finish = event.finish
            return
        piece = "" if event.finish == "stop" else state.growing.push(event.token)
        if event.finish:
            piece += state.growing.finish()
        shown, stopped = piece, False
        if len(state.ids) >= sampling.min_new_tokens:
            shown, stopped = state.stops.push(piece)
        if stopped:
            state.finish = "stop"
            self._engine.cancel(event.request)
        elif event.finish:
            state.finish = event.finish
            shown += state.stops.finish()
        state.text += shown
        if shown and self._on_piece is not None:
            self._on_piece(number, shown)
