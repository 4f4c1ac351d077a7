"""A prefix that was computed before changes no token: wherever the texts part, after eviction,
after a fork, with drafts, and with several requests at once."""

import random
from collections.abc import Callable

import pytest

from day0.checkpoint.load import DEMO
from day0.runtime.engine import Engine
from day0.runtime.prefix import PrefixCache
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session
from tests.runtime.speculated import Ids, Subject, same, served
from tests.tiny import TinyCheckpoint

Tiny = Callable[..., TinyCheckpoint]
NEW = 6  # tokens produced
LENGTH = 150
MUCH = 1 << 40


@pytest.fixture(scope="module")
def demo() -> Subject:
    return Subject(DEMO)


def kept(
    subject: Subject, *, drafts: int = 0, interval: int = 32, budget: int = MUCH,
    replay: bool = False,
) -> Session:  # fmt: skip
    return subject.session(
        drafts, tokens=1200, chunk=50, kept=2000, interval=interval, prefix_bytes=budget,
        replay=replay,
    )  # fmt: skip


def prefixes(engine: Engine) -> PrefixCache:
    assert engine.prefix is not None
    return engine.prefix


def one(engine: Engine, prompt: Ids, new: int = NEW) -> Request:
    """A request served alone, to its end."""
    request = engine.add(prompt, Sampling(max_new_tokens=new))
    for _ in engine.serve():
        pass
    return request


def drawn(subject: Subject, seed: int, length: int = LENGTH) -> Ids:
    draw = random.Random(seed)
    return tuple(draw.randrange(subject.model.spec.vocab_size) for _ in range(length))


def again(subject: Subject, requests: list[Request]) -> list[Request]:
    """The same prompts on a session that keeps nothing."""
    return served(subject.plain, [one.prompt for one in requests], max_new_tokens=NEW)


def all_given_back(engine: Engine) -> None:
    """Once the cache is cleared nobody holds a page."""
    prefixes(engine).clear()
    assert prefixes(engine).held == 0
    assert all(pool.free == pool.count for pool in engine._pages.values())
    assert engine._slots.free == engine._slots.count


def part_at(subject: Subject, seed: int, cuts: tuple[int, ...]) -> None:
    """Texts that share `cuts` tokens with one that was served, and go on otherwise."""
    base, others = drawn(subject, seed), drawn(subject, seed + 1)
    session = kept(subject)
    engine = session.engine()
    cache, size = prefixes(engine), session.limits.page_size
    one(engine, base)
    ours = []
    for cut in cuts:
        before = cache.counts.saved
        other = tuple((token + 1) % subject.model.spec.vocab_size for token in base[cut : cut + 1])
        ours.append(one(engine, (*base[:cut], *other, *others[:5])))
        saved = cache.counts.saved - before
        whole = cut // size * size
        # a state stands at every interval and where earlier texts ended; pages need none
        least = cut // cache.interval * cache.interval if cache._stateful else whole
        assert least <= saved <= cut
    same(
        subject.plain,
        ours,
        again(subject, ours),
    )
    all_given_back(engine)


def test_every_border(demo: Subject, seed: int) -> None:
    part_at(demo, seed, (1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 97, 127, 128, 129, 149))


@pytest.mark.hf
@pytest.mark.parametrize(
    "kind", ["kimi_linear", "glm5_next", "qwen3_next", "gpt_oss", "deepseek_v4", "llama"]
)
def test_models_with_states_pools_and_windows(tiny: Tiny, kind: str, seed: int) -> None:
    part_at(Subject(tiny(kind).folder), seed, (7, 32, 63, 64, 65, 129))


def test_the_same_text_again_computes_its_last_page(demo: Subject, seed: int) -> None:
    session = kept(demo)
    engine = session.engine()
    prompt = drawn(demo, seed)
    first = one(engine, prompt)
    rows = sum(count for phase, count in engine.steps if phase == "prefill")
    again = one(engine, prompt)
    more = sum(count for phase, count in engine.steps if phase == "prefill") - rows
    assert again.tokens == first.tokens
    assert rows == LENGTH
    assert more <= session.limits.page_size
    assert prefixes(engine).counts.saved == LENGTH - more


def next_turns(subject: Subject, seed: int) -> None:
    """Two turns behind a text that ended in the middle of a page and of a pool: the page is copied,
    and both go on."""
    engine = kept(subject).engine()
    first = one(engine, drawn(subject, seed, 41))
    turns = [tuple(first.tokens) + drawn(subject, seed + n, 9) for n in (1, 2)]
    before = prefixes(engine).counts.saved
    ours = [one(engine, turn) for turn in turns]
    # all but the token that was produced last, which no step has seen
    assert prefixes(engine).counts.saved - before == 2 * (len(first.tokens) - 1)
    same(subject.plain, ours, again(subject, ours))
    all_given_back(engine)


def test_the_next_turn_goes_on_from_the_last(demo: Subject, seed: int) -> None:
    next_turns(demo, seed)


@pytest.mark.hf
@pytest.mark.parametrize("kind", ["glm5_next", "deepseek_v4", "gpt_oss"])
def test_the_next_turn_of_models_with_pools_and_windows(tiny: Tiny, kind: str, seed: int) -> None:
    next_turns(Subject(tiny(kind).folder), seed)


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_a_budget_is_kept_and_evicts_what_was_not_used(
    demo: Subject, share: float, seed: int
) -> None:
    full = kept(demo).engine()
    prompts = [drawn(demo, seed + number, 100) for number in range(4)]
    for prompt in prompts:
        one(full, prompt)
    budget = int(prefixes(full).held * share)
    engine = kept(demo, budget=budget).engine()
    ours = []
    for prompt in (*prompts, prompts[3], prompts[0]):
        ours.append(one(engine, prompt))
        assert prefixes(engine).held <= budget
    counts = prefixes(engine).counts
    assert counts.evicted > 0
    assert counts.hits >= 1  # the text served last
    same(
        demo.plain,
        ours,
        again(demo, ours),
    )
    all_given_back(engine)


def test_prefixes_make_room_for_requests(demo: Subject, seed: int) -> None:
    """A pool that prefixes fill up: they go, no request waits for ever."""
    session = demo.session(0, tokens=320, chunk=50, interval=32, kept=32, prefix_bytes=MUCH)
    engine = session.engine()
    prompts = [drawn(demo, seed + number, 140) for number in range(5)]
    ours = [one(engine, prompt) for prompt in prompts]
    ours += (requests := [engine.add(p, Sampling(max_new_tokens=NEW)) for p in prompts])
    for _ in engine.serve():
        pass
    assert all(request.finish == "length" for request in requests)
    assert prefixes(engine).counts.evicted > 0
    same(
        demo.plain,
        ours,
        again(demo, ours),
    )
    all_given_back(engine)


def test_many_at_once_share_pages_that_are_in_use(demo: Subject, seed: int) -> None:
    draw, base = random.Random(seed), drawn(demo, seed)
    session = kept(demo)
    engine = session.engine()
    prompts = [base[: draw.randrange(1, LENGTH)] + drawn(demo, seed + n, 7) for n in range(12)]
    ours = [engine.add(prompt, Sampling(max_new_tokens=NEW)) for prompt in prompts]
    for _ in engine.serve():
        pass
    assert prefixes(engine).counts.hits > 0
    same(demo.plain, ours, served(demo.plain, prompts, max_new_tokens=NEW))
    all_given_back(engine)


@pytest.mark.parametrize("replay", [False, True])
def test_behind_drafts(demo: Subject, replay: bool, seed: int) -> None:
    """The state kept at a text's end is the one behind the last accepted token."""
    prompts = [drawn(demo, seed + number, 41) for number in range(3)]
    wanted = served(demo.plain, prompts, max_new_tokens=NEW)
    session = kept(demo, drafts=3, replay=replay)
    speculation = demo.scripted(session, wanted, seed)
    same(demo.plain, served(session, prompts, max_new_tokens=NEW), wanted)
    assert sum(speculation.tally.accepted) > 0
    turns = [(*request.tokens, *drawn(demo, seed + 9, 5)) for request in wanted]
    later = served(demo.plain, turns, max_new_tokens=NEW)
    engine = session.engine()
    engine.speculation = demo.scripted(session, later, seed)
    before = prefixes(engine).counts.saved
    same(demo.plain, served(session, turns, max_new_tokens=NEW), later)
    # with replay, a text that ends within a verify step leaves the state of its prompt alone
    assert prefixes(engine).counts.saved - before >= 3 * (32 if replay else 41)


@pytest.mark.parametrize("reuse", [True, False])
def test_forks_share_a_prompt(demo: Subject, reuse: bool, seed: int) -> None:
    """Continuations drawn with several seeds: each is the one that its seed gives alone."""
    session = kept(demo) if reuse else demo.session(0, tokens=1200, chunk=50)
    engine = session.engine()
    prompt = drawn(demo, seed, 75)
    drawings = [Sampling(max_new_tokens=NEW, temperature=1.0, seed=n) for n in range(4)]
    first = engine.add(prompt, drawings[0])
    requests = [first, *(engine.fork(first, sampling) for sampling in drawings[1:])]
    for _ in engine.serve():
        pass
    assert sum(count for phase, count in engine.steps if phase == "prefill") == len(prompt)
    alone = demo.plain.engine()
    wanted = [alone.add(prompt, sampling) for sampling in drawings]
    for _ in alone.serve():
        pass
    assert [r.tokens for r in requests] == [r.tokens for r in wanted]
    assert len({tuple(r.tokens) for r in requests}) > 1
    if reuse:
        all_given_back(engine)
    assert engine._slots.free == engine._slots.count


def test_forks_of_a_cancelled_request_go_on(demo: Subject, seed: int) -> None:
    engine = demo.session(0, tokens=600).engine()
    sampling = Sampling(max_new_tokens=NEW)
    first = engine.add(drawn(demo, seed, 20), sampling)
    others = [engine.fork(first, sampling) for _ in range(2)]
    engine.cancel(others[0])
    engine.cancel(first)
    for _ in engine.serve():
        pass
    assert [r.finish for r in (first, *others)] == ["cancelled", "cancelled", "length"]
    assert others[1].num_produced == NEW
