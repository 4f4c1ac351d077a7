"""Drafts change no token: any number of them, accepted in any mixture, greedy and sampled, with
chunked prompts, pages that run out, and steps without drafts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
import torch

from day0.checkpoint.load import DEMO
from day0.runtime.engine import Engine
from day0.runtime.pools import Limits
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling, next_token
from day0.runtime.speculation import SUSPICIOUS, Fed, Speculation, Tables, Tally
from day0.runtime.speculation_ngram import Lookup
from day0.runtime.step import Step
from tests.runtime.speculated import Subject, same, served
from tests.tiny import TinyCheckpoint

Tiny = Callable[..., TinyCheckpoint]


@pytest.fixture(scope="module")
def demo() -> Subject:
    return Subject(DEMO)


@pytest.fixture(scope="module")
def greedy(demo: Subject, run_seed: int) -> list[Request]:
    """What prompts give without drafts."""
    return served(demo.plain, demo.prompts(run_seed))


@pytest.mark.parametrize(
    ("drafts", "replay"), [*((n, False) for n in range(1, 8)), (2, True), (7, True)]
)
def test_greedy_output_is_that_of_plain_decoding(
    demo: Subject, greedy: list[Request], drafts: int, replay: bool, seed: int
) -> None:
    wanted, prompts = greedy, [one.prompt for one in greedy]
    session = demo.session(drafts, chunk=16, replay=replay)
    speculation = demo.scripted(session, wanted, seed)
    same(demo.plain, served(session, prompts), wanted)
    tally = speculation.tally
    assert 0 < sum(tally.accepted) < sum(tally.drafted)
    assert tally.plain > 0  # sequences without drafts beside others, and steps without any
    assert tally.accepted[-1] > 0


@pytest.mark.hf
@pytest.mark.parametrize("kind", ["kimi_linear", "qwen3_next", "glm5_next", "minimax"])
def test_models_with_a_state(tiny: Tiny, kind: str, seed: int) -> None:
    """Recurrent state, tails of convolutions and open pools go on from the last accepted token."""
    subject = Subject(tiny(kind).folder)
    prompts = subject.prompts(seed)
    wanted = served(subject.plain, prompts)
    for drafts, replay in ((1, False), (4, False), (3, True)):
        session = subject.session(drafts, chunk=16, replay=replay)
        speculation = subject.scripted(session, wanted, seed)
        same(subject.plain, served(session, prompts), wanted)
        assert 0 < sum(speculation.tally.accepted) < sum(speculation.tally.drafted)


def test_sampled_output_is_that_of_plain_sampling(demo: Subject, seed: int) -> None:
    prompts = demo.prompts(seed)
    words = {"temperature": 1.0, "top_p": 0.9, "seed": seed % 1000}
    wanted = served(demo.plain, prompts, **words)
    session = demo.session(3)
    speculation = demo.scripted(session, wanted, seed)
    same(demo.plain, served(session, prompts, **words), wanted)
    assert 0 < sum(speculation.tally.accepted) < sum(speculation.tally.drafted)


def test_pages_that_run_out(demo: Subject, seed: int) -> None:
    """Requests that are put back and recomputed, with drafts of the others going on: four of them
    begin on a page each and soon need a second one, of which there is one."""
    prompts = [tuple(range(number, number + 5)) for number in range(4)]
    wanted = served(demo.plain, prompts, max_new_tokens=24)
    session = demo.session(3)
    speculation = demo.scripted(session, wanted, seed)
    limits = replace(session.limits, num_pages={0: 5}, chunk=11)
    run = lambda step, inputs: session.run(step, inputs)[session.logits_name]
    engine = Engine(run, limits, torch.device("cpu"), speculation=speculation)
    requests = [engine.add(prompt, Sampling(max_new_tokens=24)) for prompt in prompts]
    for _ in engine.serve():
        pass
    same(demo.plain, requests, wanted)
    assert sum(request.preemptions for request in requests) > 0
    assert sum(speculation.tally.accepted) > 0
    assert engine._slots.free == engine._slots.count
    assert all(pool.free == pool.count for pool in engine._pages.values())


def test_a_stop_id_among_accepted_drafts_ends_the_request(demo: Subject, seed: int) -> None:
    prompts = demo.prompts(seed)
    free = served(demo.plain, prompts)
    stop = (free[0].produced[4], free[1].produced[7])
    wanted = demo.plain.generate(prompts, Sampling(max_new_tokens=12, stop_ids=stop))
    assert "stop" in {request.finish for request in wanted}
    session = demo.session(4)
    demo.scripted(session, free, seed)
    got = session.generate(prompts, Sampling(max_new_tokens=12, stop_ids=stop))
    same(demo.plain, got, wanted)


@pytest.mark.parametrize("replay", [False, True])
def test_rejected_drafts_leave_no_trace(
    demo: Subject, greedy: list[Request], replay: bool, seed: int
) -> None:
    """With NaN wherever no accepted token stands: in free pages, and in all versions of slots but
    the one in use, before every step."""
    wanted, prompts = greedy, [one.prompt for one in greedy]
    session = demo.session(3, replay=replay)
    demo.scripted(session, wanted, seed)
    engine = session.engine()
    requests = [engine.add(prompt, Sampling(max_new_tokens=12)) for prompt in prompts]
    size = session.limits.page_size
    while engine.busy:
        used = {one.slot for one in engine.running}
        held = {
            page * size + offset
            for one in engine.running
            for number, page in enumerate(one.pages[0])
            for offset in range(size)
            if number * size + offset < one.done
        }
        for name, parts in session.storage.parts.items():
            cache = session.storage.caches[name]
            for tensor in parts.values():
                if cache.slotted or cache.growth == "per-sequence":
                    free = [place for place in range(len(tensor)) if place not in used]
                    tensor[free] = float("nan")
                elif cache.every == 1:
                    flat = tensor.flatten(0, 1)
                    flat[[at for at in range(size, len(flat)) if at not in held]] = float("nan")
        engine.step()
    same(demo.plain, requests, wanted)


def test_lookup_drafts_what_followed_before() -> None:
    """A text that repeats itself drafts itself, n tokens a step."""

    def run(step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return torch.nn.functional.one_hot((inputs["ids"][step.last].long() + 1) % 7, 7).float()

    limits = Limits(page_size=16, num_pages={0: 8}, num_slots=2, drafts=4)
    speculation = Speculation(Lookup(), 4, "ngram")
    engine = Engine(run, limits, torch.device("cpu"), speculation=speculation)
    request = engine.add((0, 1, 2), Sampling(max_new_tokens=30))
    for _ in engine.serve():
        pass
    assert request.tokens == [at % 7 for at in range(33)]
    phases = [phase for phase, _ in engine.steps]
    # until a pair of tokens comes again, one by one; then five a step, and the rest
    assert phases == ["prefill", *["decode"] * 5, *["verify"] * 5]
    assert speculation.tally.accepted == speculation.tally.drafted == [5, 5, 5, 4]


def test_lookup_takes_the_longest_and_latest_match() -> None:
    lookup = Lookup()
    request = asked((7, 1, 2, 9, 3, 1, 2, 8, 9, 4, 7, 1, 2))
    assert lookup.propose([request], [3], {}) == [(9, 3, 1)]  # 7 1 2, not the later 1 2
    request.tokens += [8]
    assert lookup.propose([request], [5], {}) == [(9, 4, 7, 1, 2)]  # 1 2 8
    request.tokens += [5]
    assert lookup.propose([request], [5], {}) == [()]
    lookup.forget(request)
    assert lookup.propose([asked((6, 6, 6, 6))], [9], {}) == [(6,)]


VOCAB, LENGTH, DRAWN = 5, 3, 3000


class Guesses:
    """Drafts drawn from another distribution than the model's, with its noise or with their own."""

    taps: tuple[str, ...] = ()

    def __init__(self, logits: torch.Tensor, shift: int) -> None:
        self._logits, self._shift = logits, shift

    def propose(
        self, requests: Sequence[Request], counts: Sequence[int], tables: Tables
    ) -> list[tuple[int, ...]]:
        found = []
        for one, count in zip(requests, counts, strict=True):
            sampling = replace(one.sampling, seed=one.sampling.seed + self._shift)
            text = list(one.tokens)
            for _ in range(count):
                place = {"position": len(text), "produced": len(text) - len(one.prompt)}
                text.append(next_token(self._logits[text[-1]], sampling, **place))
            found.append(tuple(text[len(one.tokens) :]))
        return found

    def follow(self, step: Step, fed: Sequence[Fed], tapped: Mapping[str, torch.Tensor]) -> None:
        pass

    def forget(self, request: Request) -> None:
        pass


@pytest.mark.parametrize("shift", [0, 7919], ids=["noise of the model", "noise of its own"])
def test_sampled_output_has_the_distribution_of_the_model(shift: int, seed: int) -> None:
    """Chi-square of all texts of three tokens over a vocabulary of five."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(VOCAB, VOCAB, generator=generator)
    others = logits + torch.randn(VOCAB, VOCAB, generator=generator)

    def run(step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return logits[inputs["ids"][step.last].long()]

    limits = Limits(page_size=16, num_pages={0: 64}, num_slots=64, drafts=LENGTH)
    speculation = Speculation(Guesses(others, shift), LENGTH, "guesses")
    engine = Engine(run, limits, torch.device("cpu"), speculation=speculation)
    requests = [
        engine.add((0,), Sampling(max_new_tokens=LENGTH + 1, temperature=1.0, seed=seed + number))
        for number in range(DRAWN)
    ]
    for _ in engine.serve():
        pass
    counts = torch.zeros([VOCAB] * LENGTH, dtype=torch.float64)
    for request in requests:  # the first new token comes from the prompt: drafts begin behind it
        counts[tuple(request.produced[:LENGTH])] += 1
    p = logits.double().softmax(-1)
    wanted = DRAWN * p[0].view(-1, 1, 1) * p.unsqueeze(2) * p.unsqueeze(0)
    assert chi_square(counts, wanted)
    tally = speculation.tally
    assert 0.1 < sum(tally.accepted) / sum(tally.drafted) < 0.95
    # the same texts with every draft taken would not pass
    taken = torch.zeros_like(counts)
    q = others.double().softmax(-1)
    for number, row in enumerate(p[0]):
        taken[number] = DRAWN * row * q[number].view(-1, 1) * q
    assert not chi_square(taken, wanted)


def chi_square(counts: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether counts agree with what is wanted, at one in ten thousand; rare cells are one."""
    order = wanted.flatten().argsort()
    counts, wanted = counts.flatten()[order], wanted.flatten()[order]
    rare = int((wanted.cumsum(0) < 5).sum()) + 1
    merge = lambda values: torch.cat((values[:rare].sum()[None], values[rare:]))
    counts, wanted = merge(counts), merge(wanted)
    free = len(wanted) - 1
    # Wilson and Hilferty's cube root: 3.72 is the normal deviate of 1e-4
    bound = free * (1 - 2 / (9 * free) + 3.72 * (2 / (9 * free)) ** 0.5) ** 3
    return float(((counts - wanted) ** 2 / wanted).sum()) < bound


def test_no_acceptance_at_all_is_a_warning() -> None:
    tally = Tally.of("mtp", 4)
    for _ in range(SUSPICIOUS // 4 - 1):
        tally.count(4, 0)
    assert tally.warning == ""
    tally.count(4, 0)
    assert "none of 200 drafted tokens was accepted" in tally.warning
    tally.count(4, 1)
    assert tally.warning == ""


def asked(tokens: tuple[int, ...]) -> Request:
    return Request(0, tokens, Sampling())
