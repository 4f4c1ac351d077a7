"""`day0.load`: what the object gives agrees with itself, whichever way it is asked."""

from collections import Counter

import pytest
import torch

import day0
from day0.errors import Day0Error, DoesNotFit
from day0.runtime.api import Loaded
from day0.runtime.prompts import Ask
from day0.runtime.sampling import Sampling

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def demo() -> Loaded:
    return day0.load("demo", quant="fp32", device="cpu", max_context=256)


def test_logits_hidden_and_score_fit_together(demo: Loaded) -> None:
    assert demo.opened.text is not None
    ids = demo.opened.text.encode(PROMPT)
    logits, hidden, score = demo.logits(ids), demo.hidden(ids), demo.score(ids)
    spec = demo.opened.model.spec
    assert logits.shape == (len(ids), spec.vocab_size)
    assert hidden.shape == (len(ids), spec.shape.hidden_size)
    picked = [logits[row].softmax(-1)[token].log() for row, token in enumerate(ids[1:])]
    torch.testing.assert_close(score, torch.stack(picked))
    head = demo.session._weights["head"]
    torch.testing.assert_close(hidden @ head.T, logits, rtol=1e-4, atol=1e-4)
    assert torch.equal(demo.logits(PROMPT), logits)


def test_greedy_is_the_largest_logit_each_time(demo: Loaded) -> None:
    (output,) = demo.generate(PROMPT, max_new_tokens=6, ignore_eos=True)
    rows = demo.logits([*output.prompt_ids, *output.ids])
    first = len(output.prompt_ids) - 1
    assert list(output.ids) == rows[first:-1].argmax(-1).tolist()
    assert output.finish_reason == "length"
    assert output.prompt == PROMPT


def test_text_and_ids_ask_the_same(demo: Loaded) -> None:
    assert demo.opened.text is not None
    ids = list(demo.opened.text.encode(PROMPT))
    by_text, by_ids = demo.generate([PROMPT, ids], max_new_tokens=5)
    (alone,) = demo.generate(ids, max_new_tokens=5)
    assert by_text.ids == by_ids.ids == alone.ids
    assert by_ids.prompt is None


def test_draws_depend_on_the_seed_alone(demo: Loaded, seed: int) -> None:
    print("seed", seed)
    options = {"temperature": 1.3, "top_k": 50, "top_p": 0.95, "max_new_tokens": 12}
    prompts = ["One", "Another one", PROMPT]
    together = demo.generate(prompts, seed=seed, **options)  # type: ignore[arg-type]
    alone = [demo.generate(prompt, seed=seed, **options)[0] for prompt in prompts]  # type: ignore[arg-type]
    assert [output.ids for output in together] == [output.ids for output in alone]
    other = demo.generate(PROMPT, seed=seed + 1, **options)  # type: ignore[arg-type]
    assert other[0].ids != together[2].ids


def test_pieces_join_to_the_text(demo: Loaded, seed: int) -> None:
    print("seed", seed)
    pieces: dict[int, str] = {0: "", 1: ""}

    def take(number: int, piece: str) -> None:
        pieces[number] += piece

    outputs = demo.generate(
        ["a", "b"], max_new_tokens=20, temperature=1.0, seed=seed, ignore_eos=True, on_piece=take
    )
    assert list(pieces.values()) == [output.text for output in outputs]
    assert demo.opened.text is not None
    for output in outputs:
        assert output.text == demo.opened.text.decode(output.ids)


def test_a_stop_string_ends_the_text_before_it(demo: Loaded, seed: int) -> None:
    print("seed", seed)
    options = {"temperature": 1.0, "seed": seed, "max_new_tokens": 24, "ignore_eos": True}
    (whole,) = demo.generate(PROMPT, **options)  # type: ignore[arg-type]
    assert whole.text
    stop = whole.text[4:6]
    (output,) = demo.generate(PROMPT, stop=stop, **options)  # type: ignore[arg-type]
    assert output.text == whole.text[: whole.text.find(stop)]
    assert output.finish_reason == "stop"
    assert output.ids == whole.ids[: len(output.ids)]
    (late,) = demo.generate(PROMPT, stop=stop, min_new_tokens=24, **options)  # type: ignore[arg-type]
    assert len(late.ids) == 24


def test_a_stop_id_ends_a_sequence_and_is_no_text(demo: Loaded) -> None:
    (whole,) = demo.generate(PROMPT, max_new_tokens=10, ignore_eos=True)
    end = whole.ids[4]
    jobs = demo.jobs(
        [Ask(prompt=PROMPT)], sampling=Sampling(max_new_tokens=10, stop_ids=(end,)),
        ignore_eos=True,
    )  # fmt: skip
    (output,) = demo.serving(jobs).run()
    upto = whole.ids.index(end)
    assert output.ids == whole.ids[: upto + 1]
    assert output.finish_reason == "stop"
    assert demo.opened.text is not None
    assert output.text == demo.opened.text.decode(whole.ids[:upto])


def test_the_first_serving_is_the_cold_one() -> None:
    loaded = day0.load("demo", device="cpu", max_context=64, max_batch=2)
    first, second = (loaded.generate("a", max_new_tokens=2)[0].timing for _ in range(2))
    assert (first.cold, second.cold) == (True, False)
    assert first.output_tokens == 2


def test_auto_means_the_definitions_and_says_so(demo: Loaded) -> None:
    ops = Counter(op.family for op in demo.session.lowered["decode"].graph.ops)
    assert demo.opened.backend == "auto"
    assert {impl for _, impl, *_ in demo.implementations} == {"reference"}
    assert {family: count for family, *_, count in demo.implementations} == ops


@pytest.mark.parametrize(
    ("prompt", "options", "error"),
    [
        ("", {}, "empty"),
        ([], {}, "empty"),
        ([0, 272], {}, "not in the vocabulary"),
        ("a", {"max_new_tokens": 0}, "max_new_tokens is 0"),
        ("a", {"temperature": float("nan")}, "temperature is nan"),
        ("a", {"top_p": 0.0}, "top_p is 0"),
    ],
    ids=["text", "ids", "vocabulary", "length", "temperature", "top-p"],
)
def test_what_cannot_be_is_refused(
    demo: Loaded, prompt: str | list[int], options: dict, error: str
) -> None:
    with pytest.raises(Day0Error, match=error):
        demo.generate([prompt], **options)


def test_what_the_cache_cannot_hold_is_refused(demo: Loaded) -> None:
    tokens = 256 * 8 + 400
    with pytest.raises(DoesNotFit, match="needs"):
        demo.generate([[1] * tokens])
    assert len(demo.generate("a", max_new_tokens=2)[0].ids) == 2
