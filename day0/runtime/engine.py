"""Continuous batching: steps are all prefill, all decode or, with drafts, all verify; when
pages run out the youngest request is put back and later recomputed from its tokens."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from day0.errors import DoesNotFit
from day0.runtime.pools import Limits, Pool, first_kept
from day0.runtime.prefix import Maker
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling, next_token
from day0.runtime.sharing import Places
from day0.runtime.speculation import Fed, Speculation
from day0.runtime.step import Step, graph_inputs, make_step

# step and graph inputs by name (ids [T], history [N, n] where asked for) -> logits [N, V]
Run = Callable[[Step, Mapping[str, torch.Tensor]], torch.Tensor]
# a verify step that ran, and how many rows of each sequence stay
Commit = Callable[[Step, list[int]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One token of one request; `finish` as in Request."""

    request: Request
    token: int
    finish: str


class Engine:
    """Serves requests over one model's program."""

    def __init__(
        self,
        run: Run,
        limits: Limits,
        device: torch.device,
        *,
        history: int = 0,
        speculation: Speculation | None = None,
        places: Places | None = None,
        prefix: Maker | None = None,
        commit: Commit | None = None,
    ) -> None:
        """`places`: the caches, for sequences that share or copy them; `prefix` makes the cache of
        prefixes over the engine's pages. `commit`: where `limits` say replay, what does accepted
        tokens' updates again."""
        self.limits = limits
        self._commit = commit
        self._open = False  # a verify step whose updates are not done yet
        self.speculation = speculation
        self._history = history
        self._run = run
        self._device = device
        self._slots = Pool(limits.num_slots)
        self._pages = {span: Pool(count) for span, count in limits.num_pages.items()}
        self._places = places
        self.prefix = None if prefix is None else prefix(self._pages)
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._count = 0
        self.steps: list[tuple[str, int]] = []  # (phase, rows) of every step, for metrics

    def add(self, prompt: tuple[int, ...], sampling: Sampling) -> Request:
        """Queue a request. DoesNotFit when even alone it could not finish."""
        sampling.check()
        self._must_fit(len(prompt) + sampling.max_new_tokens + self.limits.drafts)
        request = Request(self._count, prompt, sampling)
        self._count += 1
        self._waiting.append(request)
        return request

    def fork(self, request: Request, sampling: Sampling) -> Request:
        """Another continuation of a request's prompt, which no step has seen yet: the prompt is
        computed once, its pages are shared and its state is copied."""
        other = self.add(request.prompt, sampling)
        if self._places is not None and request in self._waiting:
            self._waiting.remove(other)
            request.forks.append(other)
        return other

    def cancel(self, request: Request) -> None:
        """Stop a request; what it produced stays in it."""
        for other in [*self._waiting, *self._running]:
            if request in other.forks:
                other.forks.remove(request)
                request.finish = "cancelled"
        if request in self._running:
            self._leave(request, "cancelled")
        elif request in self._waiting:
            self._waiting.remove(request)
            self._waiting.extend(request.forks)
            request.forks, request.finish = [], "cancelled"

    @property
    def running(self) -> tuple[Request, ...]:
        """The requests that hold a slot."""
        return tuple(self._running)

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._running)

    def serve(self) -> Iterator[Event]:
        """Events until nothing is left to do."""
        while self.busy:
            yield from self.step()

    def step(self) -> list[Event]:
        """One step: prefill where tokens wait, else one token for every running request, or where
        any of them has drafts, these and the next token."""
        batch = self._prefill_batch()
        if batch:
            return self._execute("prefill", batch)
        batch = self._decode_batch()
        if batch and self.speculation is not None:
            requests = [request for request, _ in batch]
            drafts = self.speculation.propose(requests, self._tables(batch))
            if any(drafts):
                batch = [(request, self.limits.rows) for request in requests]
                return self._execute("verify", batch, drafts)
        return self._execute("decode", batch) if batch else []

    def _must_fit(self, tokens: int) -> None:
        for span, pool in self._pages.items():
            need = self._need(span, tokens)
            if need > pool.count:
                fits = pool.count * self.limits.page_size
                raise DoesNotFit(
                    f"a request of {tokens:,} tokens needs {need} pages of "
                    f"{self.limits.page_size} tokens; the cache has {pool.count}",
                    hint=f"shorten prompt and --max-new-tokens to {fits:,} tokens together",
                )

    def _need(self, span: int, tokens: int) -> int:
        """Most pages that a request of so many tokens holds at once; a window's borders may lie
        within pages."""
        held = min(tokens, span + self.limits.chunk) if span else tokens
        return -(-held // self.limits.page_size) + (1 if span else 0)

    def _promised(self, span: int) -> int:
        """Pages that the running requests are about to take: for the next token and its drafts
        where all tokens are kept; the rest of their bounded share in a window."""
        ahead = self.limits.drafts
        if not span:
            size = self.limits.page_size
            needed = (-(-(len(r.tokens) + 1 + ahead) // size) for r in self._running)
            missing = (n - len(r.pages[0]) for n, r in zip(needed, self._running, strict=True))
            return sum(max(count, 0) for count in missing)
        shares = (
            self._need(span, r.most + ahead) - sum(page > 0 for page in r.pages[span])
            for r in self._running
        )
        return sum(max(share, 0) for share in shares)

    def _prefill_batch(self) -> list[tuple[Request, int]]:
        budget, batch, waiting = self.limits.chunk, [], len(self._waiting)
        for request in [r for r in self._running if not r.decoding]:
            rows = self._rows(request, budget)
            if rows and request in self._running and self._reserve(request, rows):
                batch.append((request, rows))
                budget -= rows
        batch = [(request, rows) for request, rows in batch if request in self._running]
        if len(self._waiting) > waiting:  # pages are short: what was put back stays back for now
            return batch
        while self._waiting and budget > 0:
            request = self._waiting[0]
            rows = self._admit(request, budget)
            if not rows:
                break
            self._waiting.popleft()
            batch.append((request, rows))
            budget -= rows
        return batch

    def _decode_batch(self) -> list[tuple[Request, int]]:
        batch = []
        for request in list(self._running):
            if request in self._running and self._reserve(request, self.limits.rows):
                batch.append((request, 1))
        return [(request, rows) for request, rows in batch if request in self._running]

    def _rows(self, request: Request, budget: int) -> int:
        rows = min(budget, request.pending)
        return rows if self.prefix is None else self.prefix.rows(request, rows)

    def _admit(self, request: Request, budget: int) -> int:
        """Take a request in when all its tokens and its first new one fit beside what is promised
        to the running ones: every admission is followed by a step in which all of them decode.
        Rows of its first step, up to `budget`; 0 when it has to wait."""
        slot = self._slots.take(1)
        if slot is None:
            return 0
        request.slot = slot[0] * self.limits.versions
        request.pages = {span: [] for span in self._pages}
        if self.prefix is not None:
            self.prefix.resume(request)
        rows = self._rows(request, budget)
        if not (self._fits(request) and self._grow(request, request.done + rows)):
            if self.prefix is not None:
                self.prefix.take_back(request)
            self._release(request)
            return 0
        self._running.append(request)
        return rows

    def _fits(self, request: Request) -> bool:
        for span in self._pages:
            tokens = request.most if span else len(request.tokens) + 1
            tokens += self.limits.drafts
            missing = self._need(span, tokens) - sum(page > 0 for page in request.pages[span])
            if self._free(span, missing + self._promised(span)):
                continue
            return False
        return True

    def _free(self, span: int, count: int) -> bool:
        """Whether so many pages are free, prefixes evicted as needed."""
        if self.prefix is not None:
            self.prefix.reclaim(span, count)
        return self._pages[span].free >= count

    def _reserve(self, request: Request, rows: int) -> bool:
        """Pages for `rows` more tokens, putting younger requests back as needed."""
        while not self._grow(request, request.done + rows):
            youngest = max(self._running, key=lambda other: other.number)
            self._put_back(youngest)
            if youngest is request:
                return False
        return True

    def _grow(self, request: Request, end: int) -> bool:
        """Pages up to `end`; where all tokens are kept, for all tokens known so far at once."""
        taken: list[tuple[int, list[int]]] = []
        for span, pool in self._pages.items():
            table = request.pages[span]
            reach = end if span else max(end, len(request.tokens))
            missing = -(-reach // self.limits.page_size) - len(table)
            pages = pool.take(max(missing, 0)) if self._free(span, missing) else None
            if pages is None:
                for other, numbers in taken:
                    self._pages[other].give(numbers)
                    del request.pages[other][len(request.pages[other]) - len(numbers) :]
                return False
            table.extend(pages)
            taken.append((span, pages))
        return True

    def _put_back(self, request: Request) -> None:
        self._running.remove(request)
        self._release(request)
        request.done = 0
        request.preemptions += 1
        self._waiting.appendleft(request)

    def _release(self, request: Request) -> None:
        for span, pages in request.pages.items():
            self._pages[span].give(page for page in pages if page)
        self._slots.give([request.slot // self.limits.versions])
        if self.speculation is not None:
            self.speculation.forget(request)
        request.pages, request.slot = {}, 0

    def _leave(self, request: Request, finish: str) -> None:
        if self.prefix is not None and not self._open:
            self.prefix.leaves(request)
        self._running.remove(request)
        self._waiting.extend(request.forks)
        request.forks = []
        self._release(request)
        request.finish = finish

    def _tables(self, batch: list[tuple[Request, int]]) -> dict[int, list[list[int]]]:
        return {span: [request.pages[span] for request, _ in batch] for span in self._pages}

    def _execute(
        self,
        phase: str,
        batch: list[tuple[Request, int]],
        drafts: list[tuple[int, ...]] | None = None,
    ) -> list[Event]:
        """Run one step. `drafts`: the tokens of a verify step behind each sequence's own."""
        verify, drafts = phase == "verify", drafts or [()] * len(batch)
        rows_of = [
            [*request.tokens[request.done : request.done + rows], *more]
            for (request, rows), more in zip(batch, drafts, strict=True)
        ]
        # fewer drafts than the step has rows: any token fills them up, and none of them is accepted
        ids = [
            token
            for (_, rows), own in zip(batch, rows_of, strict=True)
            for token in own + [0] * (rows - len(own))
        ]
        step = make_step(
            phase,
            starts=[request.done for request, _ in batch],
            lengths=[rows for _, rows in batch],
            slots=[request.slot for request, _ in batch],
            tables=self._tables(batch),
            device=self._device,
            all_rows=verify,
        )
        inputs = graph_inputs(
            ids,
            # a copy of every sequence is much for nothing
            [request.tokens[: request.done] for request, _ in batch] if self._history else [],
            self._history,
            self._device,
        )
        logits = self._run(step, inputs)
        self.steps.append((phase, len(ids)))
        greedy = logits.argmax(-1).tolist()  # of all rows by one question to the device
        events: list[Event] = []
        fed = [Fed(request=one, start=one.done, rows=rows) for one, rows in batch]
        row, self._open = 0, verify and self._commit is not None
        for (request, rows), checked in zip(batch, drafts, strict=True):
            first, row = row, row + (rows if verify else 1)
            if verify:
                request.slot -= request.slot % self.limits.versions
            request.done += 1 if verify else rows
            if self.prefix is not None and not verify:
                self.prefix.saw(request)
            if request.pending == 0:
                events += self._split(request, logits, first, greedy[first])
                events.append(self._produce(request, logits, first, greedy[first]))
            for at, draft in enumerate(checked, first + 1):
                if events[-1].token != draft or events[-1].finish:
                    break
                request.done += 1
                if not self.limits.replay:
                    request.slot += 1  # the version behind the accepted token
                events.append(self._produce(request, logits, at, greedy[at]))
            self._forget(request)
        if verify and self._commit is not None:
            self._commit(step, [one.request.done - one.start for one in fed])
        self._open = False
        if self.speculation is not None:
            self.speculation.follow(step, fed, [len(checked) for checked in drafts])
        return events

    def _split(self, request: Request, logits: torch.Tensor, row: int, greedy: int) -> list[Event]:
        """First tokens of a request's forks, now that the prompt is computed; forks that find no
        room wait as other requests do."""
        events = []
        for fork in request.forks:
            assert self._places is not None
            if not self._copied(request, fork, self._places):
                self._waiting.append(fork)
                continue
            self._running.append(fork)
            events.append(self._produce(fork, logits, row, greedy))
        request.forks = []
        return events

    def _copied(self, request: Request, fork: Request, places: Places) -> bool:
        """Pages shared and the state copied into a slot of its own, where there is room."""
        if not all(self._free(span, 2 + self._promised(span)) for span in self._pages):
            return False
        slot = self._slots.take(1)
        if slot is None:
            return False
        fork.slot = slot[0] * self.limits.versions
        places.fork(request, fork, self._pages, self.limits.page_size)
        return True

    def _forget(self, request: Request) -> None:
        """Give back pages that no later row of a window can read."""
        for span, table in request.pages.items():
            if not span:
                continue
            for number in range(first_kept(span, request.done) // self.limits.page_size):
                if table[number]:
                    self._pages[span].give([table[number]])
                    table[number] = 0

    def _produce(self, request: Request, logits: torch.Tensor, row: int, greedy: int) -> Event:
        """`logits` of all sequences, `greedy` the place of this row's largest."""
        sampling, produced = request.sampling, request.num_produced
        token = greedy
        if sampling.temperature or (produced < sampling.min_new_tokens and sampling.stop_ids):
            token = next_token(
                logits[row], sampling, position=len(request.tokens), produced=produced
            )
        request.tokens.append(token)
        finish = ""
        if token in sampling.stop_ids:
            finish = "stop"
        elif request.num_produced >= sampling.max_new_tokens:
            finish = "length"
        if finish:
            self._leave(request, finish)
        return Event(request=request, token=token, finish=finish)
