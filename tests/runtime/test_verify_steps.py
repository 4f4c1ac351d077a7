"""Verify steps as a GPU would run them: in buffers of fixed shapes, and on what is chosen there,
whose place the kernels' definitions take."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import pytest
import torch

from day0.checkpoint.load import DEMO, load
from day0.ir.recipe import RECIPES
from day0.models.read import read_model
from day0.passes.lower import SPECULATIVE, Lowered, Target, lower
from day0.runtime.capture import Padding
from day0.runtime.drafting import open_with_drafts
from day0.runtime.engine import Engine
from day0.runtime.limits import Sizes
from day0.runtime.memory import needs
from day0.runtime.opening import open_model
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session, lowered_for, open_session
from day0.runtime.sizing import needs_of, sizes_of
from day0.runtime.step import Step
from day0_kernels.index import REFERENCES
from tests import tiny as tinies
from tests.fake_gpu import HOPPER, on_definitions
from tests.runtime.speculated import Subject, same, served

pytest.importorskip("triton")
Tiny = Callable[..., tinies.TinyCheckpoint]
RECIPE = RECIPES["fp32"]


@pytest.fixture(scope="module")
def demo() -> Subject:
    return Subject(DEMO)


def on_a_gpu(
    subject: Subject, drafts: int, *, replay: bool
) -> tuple[Session, Mapping[str, Lowered]]:
    """A session over what a Hopper GPU would run, and the choices made for it."""
    target = Target(backend="auto", recipe=RECIPE, references=REFERENCES, capability=HOPPER)
    chosen = lower(subject.model, target, phases=SPECULATIVE)
    checkpoint = load(str(subject.folder))
    session = open_session(
        read_model(checkpoint).model, RECIPE, headers=checkpoint.headers, folder=subject.folder,
        lowered={phase: on_definitions(low) for phase, low in chosen.items()},
        sizes=Sizes(tokens=384, sequences=4, drafts=drafts, replay=replay),
    )  # fmt: skip
    return session, chosen


def check_on_a_gpu(subject: Subject, seed: int, *entries: str) -> None:
    wanted = served(subject.plain, subject.prompts(seed), max_new_tokens=9)
    session, chosen = on_a_gpu(subject, 3, replay=False)
    taken = {choice.entry for choice in chosen["verify"].choices.values()}
    assert set(entries) <= taken
    for one in (session, on_a_gpu(subject, 3, replay=True)[0]):
        speculation = subject.scripted(one, wanted, seed)
        same(
            subject.plain,
            served(one, [request.prompt for request in wanted], max_new_tokens=9),
            wanted,
        )
        assert 0 < sum(speculation.tally.accepted) < sum(speculation.tally.drafted)


def test_kernels_that_keep_every_version(demo: Subject, seed: int) -> None:
    # convolutions know no versions: the runtime feeds them token by token
    conv = "day0_kernels.short_conv.decode:short_conv_decode"
    check_on_a_gpu(demo, seed, "day0_kernels.kda.decode:kda_verify", conv)


@pytest.mark.hf
def test_gated_delta_net_keeps_every_version(tiny: Tiny, seed: int) -> None:
    folder = tiny("qwen3_next", linear_key_head_dim=64, linear_value_head_dim=64).folder
    check_on_a_gpu(Subject(folder), seed, "day0_kernels.gdn.decode:gdn_verify")


@pytest.mark.parametrize("drafts", [1, 4])
def test_a_padded_step_computes_the_same(demo: Subject, drafts: int, seed: int) -> None:
    """More sequences than there are: the added ones are padding, which touches nothing live."""
    wanted = served(demo.plain, demo.prompts(seed), max_new_tokens=8)
    session = demo.session(drafts)
    speculation = demo.scripted(session, wanted, seed)
    name, widths, errors = session.logits_name, {0: 30}, []

    def run(step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        if step.phase != "verify":
            return session.run(step, inputs)[name]
        before = live(session)
        found = session.run(step, inputs)[name]
        after = live(session)
        for key, tensor in before.items():
            session.storage.parts[key[0]][key[1]].copy_(tensor)
        padding = Padding(6, widths, torch.device("cpu"), rows=session.limits.rows)
        padding.fill(step)
        assert padding.step.phase == "verify"
        more = padding.step.num_rows - step.num_rows
        ids = torch.cat((inputs["ids"], inputs["ids"].new_zeros(more)))
        again = session.run(padding.step, {"ids": ids})[name][: step.num_rows]
        errors.append(float((again - found).abs().max() / found.abs().max()))
        own = session.limits.versions  # of slot 0, which is padding's
        for key, tensor in live(session).items():
            first = own if session.storage.caches[key[0]].slotted else 1
            first = own if session.storage.caches[key[0]].growth == "per-sequence" else first
            assert torch.allclose(tensor[first:], after[key][first:], rtol=1e-5, atol=1e-5), key
        return again

    engine = Engine(run, session.limits, torch.device("cpu"), speculation=speculation)
    requests = [engine.add(one.prompt, Sampling(max_new_tokens=8)) for one in wanted]
    for _ in engine.serve():
        pass
    same(demo.plain, requests, wanted)
    assert len(errors) > 1
    assert max(errors) <= 1e-5


def live(session: Session) -> dict[tuple[str, str], torch.Tensor]:
    return {
        (cache, part): tensor.clone()
        for cache, parts in session.storage.parts.items()
        for part, tensor in parts.items()
    }


@pytest.mark.parametrize("drafts", [0, 1, 7])
def test_memory_is_what_was_planned(demo: Subject, drafts: int) -> None:
    """A version of every slot for each draft and one more (field case: n + 1 copies)."""
    session = demo.session(drafts)
    planned = needs(demo.lowered["prefill"], RECIPE, "cpu")
    sizes = Sizes(tokens=384, sequences=4)
    held = in_caches(session)
    assert replace(planned, drafts=drafts).caches(sizes) == held


def in_caches(session: Session) -> int:
    return sum(part.nbytes for parts in session.storage.parts.values() for part in parts.values())


def test_what_does_not_fit_in_versions_is_replayed(demo: Subject, seed: int) -> None:
    """Chosen by memory, before anything is loaded; and the output stays."""
    both = partial(open_model, quant="fp32", backend="reference")
    opened = open_with_drafts("demo", "mtp", 3, main=both, other=both)
    wide = sizes_of(opened, max_context=128, max_batch=4)
    assert not wide.replay
    total = needs_of(opened).total(wide)
    narrow = sizes_of(opened, max_context=128, max_batch=4, max_memory=str(total - 1))
    assert narrow.replay
    sessions = [opened.session(sizes)[0] for sizes in (wide, narrow)]
    held = [in_caches(session) for session in sessions]
    # three more versions of five slots, one of which is padding's, in fp32
    kept = [c for c in sessions[0].storage.caches.values()
            if c.slotted or c.growth == "per-sequence"]  # fmt: skip
    version = sum(4 * cache.elements * max(cache.span, 1) for cache in kept)
    assert held[0] - held[1] == 5 * 3 * version
    asked = demo.prompts(seed)
    got = [served(session, asked, max_new_tokens=6) for session in sessions]
    same(demo.plain, got[1], got[0])


@pytest.mark.parametrize("recipe", ["bf16", "fp8"])
def test_both_recipes(demo: Subject, recipe: str, seed: int) -> None:
    """In rounded values a step of several rows may tip a choice, which a random model makes much
    of: four layers, one of each kind, do so rarely."""
    checkpoint = load("demo")
    model = read_model(checkpoint, layers=4).model
    words = {"headers": checkpoint.headers, "folder": DEMO, "without": ("fuse",)}

    def session(drafts: int) -> Session:
        lowered = lowered_for(
            model, RECIPES[recipe], "reference", phases=SPECULATIVE, without=("fuse",)
        )
        sizes = Sizes(tokens=384, sequences=4, drafts=drafts)
        return open_session(model, RECIPES[recipe], lowered=lowered, sizes=sizes, **words)

    wanted = served(session(0), demo.prompts(seed), max_new_tokens=12)
    checking = session(3)
    speculation = demo.scripted(checking, wanted, seed)
    got = served(checking, [one.prompt for one in wanted], max_new_tokens=12)
    equal = [ours.tokens == theirs.tokens for ours, theirs in zip(got, wanted, strict=True)]
    assert sum(equal) >= 3
    assert 0 < sum(speculation.tally.accepted) < sum(speculation.tally.drafted)
