"""Continuous batching on the demo: many mixed requests through too few pages, each with what it
gives alone; nothing is left over, and nothing leaks from one to the next."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pytest
import torch

from day0.checkpoint.load import DEMO, load
from day0.errors import Day0Error, DoesNotFit
from day0.ir.recipe import RECIPES
from day0.models.read import read_model
from day0.runtime.engine import Engine, Run
from day0.runtime.pools import Limits
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling, next_token
from day0.runtime.session import Session, Sizes, open_session
from day0.runtime.step import Step

NUM_REQUESTS, NUM_DISTINCT, CANCELLED = 1000, 250, 0.1
LONGEST, SEQUENCES, CHUNK, PAGES = 300, 16, 256, 26
CPU = torch.device("cpu")
# Logits of a batch and of one sequence differ by rounding; a draw may lie on a border.
NOISE = 1e-5


@pytest.fixture(scope="module")
def session() -> Session:
    checkpoint = load("demo")
    return open_session(
        read_model(checkpoint).model,
        RECIPES["fp32"],
        headers=checkpoint.headers,
        folder=DEMO,
        sizes=Sizes(tokens=1024, sequences=SEQUENCES, chunk=CHUNK),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    prompt: tuple[int, ...]
    sampling: Sampling


def drawn(rng: random.Random) -> Wanted:
    """A prompt of 1 to 300 ids, short ones more often, and any kind of sampling."""
    length = round(LONGEST ** rng.random() ** 1.5)
    count = rng.choice((1, 2, 3, 5, 8, 8, 13, 24))
    greedy = rng.random() < 0.4
    return Wanted(
        prompt=tuple(rng.randrange(256) for _ in range(length)),
        sampling=Sampling(
            max_new_tokens=count,
            min_new_tokens=rng.choice((0, min(2, count))),
            temperature=0.0 if greedy else rng.choice((0.5, 1.0, 2.0)),
            top_k=rng.choice((0, 1, 5, 40)),
            top_p=rng.choice((1.0, 0.9, 0.5)),
            seed=rng.randrange(1000),
            stop_ids=rng.choice(((), tuple(rng.sample(range(256), 8)))),
        ),
    )


def cancelling(engine: Engine, requests: list[Request], rng: random.Random) -> Iterator[Request]:
    """Serve to the end, cancelling waiting and running requests on the way."""
    while engine.busy:
        engine.step()
        if rng.random() < CANCELLED:
            going = [one for one in requests if not one.finish and one.produced]
            left = [one for one in requests if not one.finish]
            chosen = going if going and rng.random() < 0.5 else left
            if chosen:
                request = rng.choice(chosen)
                engine.cancel(request)
                yield request


def checked(session: Session, request: Request) -> int:
    """Every token is the one that the model gives alone after the same ids; the number of draws
    that rounding may tip."""
    ids, first = request.tokens[:-1], len(request.prompt)
    if not request.produced:
        return 0
    logits, near = session.logits(ids)[first - 1 :], 0
    for produced, token in enumerate(request.produced):
        row = logits[produced]

        def draw(row: torch.Tensor, produced: int = produced) -> int:
            return next_token(row, request.sampling, position=first + produced, produced=produced)

        if draw(row) != token:
            near += 1
            noise = NOISE * row.abs().max()
            tipped = {draw(row + noise * torch.randn_like(row)) for _ in range(64)}
            assert token in tipped, (request.number, produced)
    return near


def at_rest(engine: Engine) -> None:
    """No page and no slot is out."""
    assert engine._slots.free == engine._slots.count
    for span, pool in engine._pages.items():
        assert pool.free == pool.count, span


@pytest.mark.slow
def test_a_thousand_requests(session: Session, seed: int) -> None:
    """All finish, and each gives what it gives alone, whatever it shared its steps with."""
    print("seed", seed)
    rng = random.Random(seed)
    distinct = [drawn(rng) for _ in range(NUM_DISTINCT)]
    engine = Engine(serving(session), replace(session.limits, num_pages={0: PAGES}), CPU)
    wanted = [rng.choice(distinct) for _ in range(NUM_REQUESTS)]
    requests = [engine.add(one.prompt, one.sampling) for one in wanted]
    cancelled = list(cancelling(engine, requests, rng))
    at_rest(engine)
    assert {request.finish for request in requests} == {"length", "stop", "cancelled"}
    assert cancelled
    assert any(request.produced for request in cancelled)
    assert all((request.finish == "cancelled") == (request in cancelled) for request in requests)
    assert sum(request.preemptions for request in requests) > 0
    assert max(rows for _, rows in engine.steps) > LONGEST // 2

    longest: dict[int, Request] = {}
    for number, request in zip(map(distinct.index, wanted), requests, strict=True):
        known = longest.setdefault(number, request)
        if len(request.tokens) > len(known.tokens):
            longest[number] = request
    near = sum(checked(session, request) for request in longest.values())
    for number, request in zip(map(distinct.index, wanted), requests, strict=True):
        if request.tokens != longest[number].tokens[: len(request.tokens)]:
            near += checked(session, request)
        if request.finish != "cancelled":
            ended(request)
    assert near <= 3


def serving(session: Session) -> Run:
    return lambda step, inputs: session.run(step, inputs)[session.logits_name]


def ended(request: Request) -> None:
    """It stopped where its sampling says, and not before."""
    sampling, produced = request.sampling, request.produced
    assert not set(produced[:-1]) & set(sampling.stop_ids)
    if request.finish == "stop":
        assert produced[-1] in sampling.stop_ids
        assert len(produced) > sampling.min_new_tokens
    else:
        assert len(produced) == sampling.max_new_tokens


def test_really_alone(session: Session, seed: int) -> None:
    """A few through an engine each, and together through few pages."""
    print("seed", seed)
    rng = random.Random(seed)
    wanted = [drawn(rng) for _ in range(12)]
    engine = Engine(serving(session), replace(session.limits, num_pages={0: PAGES}), CPU)
    together = [engine.add(one.prompt, one.sampling) for one in wanted]
    for _ in engine.serve():
        pass
    near = 0
    for one, request in zip(wanted, together, strict=True):
        (alone,) = session.generate([one.prompt], one.sampling)
        if alone.tokens != request.tokens:
            near += checked(session, request) + checked(session, alone)
            assert near
        else:
            assert alone.finish == request.finish
    assert near <= 2


def test_padding_is_left_alone(session: Session) -> None:
    """Page 0 and slot 0 belong to nobody and stay as they were made."""
    for name, parts in session.storage.parts.items():
        for part, tensor in parts.items():
            assert not tensor[0].any(), (name, part)


def test_a_used_slot_and_used_pages_leak_nothing(session: Session, seed: int) -> None:
    """With NaN in every page and slot that is free, results are the same to the bit."""
    prompt = tuple(random.Random(seed).randrange(256) for _ in range(50))
    sampling = Sampling(max_new_tokens=6)
    (before,) = session.generate([prompt], sampling)
    for parts in session.storage.parts.values():
        for tensor in parts.values():
            tensor[1:] = float("nan")
    engine = session.engine()
    rows = []

    def run(step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        rows.append(session.run(step, inputs)[session.logits_name])
        return rows[-1]

    engine._run = run
    request = engine.add(prompt, sampling)
    for _ in engine.serve():
        pass
    assert request.tokens == before.tokens
    assert all(bool(row.isfinite().all()) for row in rows)
    for parts in session.storage.parts.values():
        for tensor in parts.values():
            tensor.zero_()


# Scheduling alone: a model that answers at once.


def scripted(step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return torch.zeros(step.num_sequences, 1)


LIMITS = Limits(page_size=4, num_pages={0: 14, 6: 13}, num_slots=5, chunk=11)


@pytest.mark.parametrize("num_pages", [{0: 14}, {6: 13}, {0: 14, 6: 13}, {}], ids=str)
def test_schedules_of_any_cache(num_pages: dict[int, int], seed: int) -> None:
    """Steps keep their rules whatever pages there are: full, windows, both, or none."""
    print("seed", seed)
    rng = random.Random(seed)
    steps = []

    def run(step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        steps.append(step)
        check_step(step, num_pages)
        return torch.zeros(step.num_sequences, 1)

    engine = Engine(run, replace(LIMITS, num_pages=num_pages), CPU)
    requests = [
        engine.add((0,) * rng.randint(1, 30), Sampling(max_new_tokens=rng.randint(1, 20)))
        for _ in range(60)
    ]
    for _ in range(100_000):
        if not engine.busy:
            break
        engine.step()
        if rng.random() < 0.05:
            engine.cancel(rng.choice(requests))
    assert not engine.busy
    at_rest(engine)
    for request in requests:
        assert request.finish in ("length", "cancelled")
        assert request.finish == "cancelled" or len(request.produced) == (
            request.sampling.max_new_tokens
        )
    assert {step.phase for step in steps} == {"prefill", "decode"}


def check_step(step: Step, num_pages: dict[int, int]) -> None:
    """Rows, slots and tables of one step: nobody shares, and every readable token has a page."""
    assert step.num_rows <= (LIMITS.chunk if step.phase == "prefill" else LIMITS.num_slots)
    assert step.phase == "prefill" or set(step.length.tolist()) == {1}
    slots = step.slot.tolist()
    assert len(set(slots)) == len(slots)
    assert min(slots) > 0
    for span in num_pages:
        owned: list[int] = []
        for row, table in enumerate(step.tables[span].tolist()):
            start, length = int(step.start[row]), int(step.length[row])
            first = max(0, start - span + 1) if span else 0
            needed = table[first // LIMITS.page_size : -(-(start + length) // LIMITS.page_size)]
            assert all(needed)
            owned += [page for page in table if page]
        assert len(set(owned)) == len(owned)


def test_windows_give_pages_back() -> None:
    """A long sequence holds no more pages than its window and a chunk need."""
    held = []

    def run(step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        held.append(engine._pages[6].count - engine._pages[6].free)
        return torch.zeros(step.num_sequences, 1)

    engine = Engine(run, replace(LIMITS, num_pages={6: 6}), CPU)
    engine.add((0,) * 100, Sampling(max_new_tokens=50))
    for _ in engine.serve():
        pass
    most = -(-(6 + LIMITS.chunk) // LIMITS.page_size) + 1
    assert max(held) <= most
    assert len(held) == -(-100 // LIMITS.chunk) + 49
    at_rest(engine)


def test_the_oldest_is_never_starved() -> None:
    """Requests that only fit one at a time all finish, in bounded steps, oldest first."""
    done = []
    engine = Engine(scripted, replace(LIMITS, num_pages={0: 7}), CPU)
    requests = [engine.add((0,) * 9, Sampling(max_new_tokens=18)) for _ in range(5)]
    steps = 0
    while engine.busy:
        done += [event.request.number for event in engine.step() if event.finish]
        steps += 1
        assert steps < 5 * (18 + 9) * 2
    assert done == [request.number for request in requests]


def test_what_never_fits_is_refused() -> None:
    engine = Engine(scripted, LIMITS, CPU)
    with pytest.raises(DoesNotFit, match="60 tokens needs 15 pages of 4 tokens; the cache has 14"):
        engine.add((0,) * 50, Sampling(max_new_tokens=10))
    assert engine.add((0,) * 46, Sampling(max_new_tokens=10)).number == 0


def test_cancelling_twice_or_late_changes_nothing() -> None:
    engine = Engine(scripted, LIMITS, CPU)
    one, two = (engine.add((0, 0), Sampling(max_new_tokens=3)) for _ in range(2))
    engine.cancel(two)
    engine.cancel(two)
    for _ in engine.serve():
        pass
    engine.cancel(one)
    assert (one.finish, two.finish) == ("length", "cancelled")
    assert two.produced == []
    at_rest(engine)


def test_bad_prompts_are_refused(session: Session) -> None:
    for prompt in ((), (0, 99999), (-1,)):
        with pytest.raises(Day0Error):
            session.checked(prompt)
