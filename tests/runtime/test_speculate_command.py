"""`day0 run --speculate`: the same ids, what the drafts gave, and errors that say what to do."""

import pytest

import day0
from day0.checkpoint.load import DEMO
from day0.runtime.metrics import Timing
from day0.runtime.prompts import Ask
from day0.runtime.sampling import Sampling
from tests.runtime.commands import Command, command

__all__ = ["command"]
RUN = ("run", "demo", "--quant", "fp32", "--device", "cpu", "--max-new-tokens", "12")
QUIET = (*RUN, "--format", "json")
REPEATED = "one two three one two three one two three one two"


def test_the_same_ids_and_figures_of_the_drafts(command: Command) -> None:
    plain = command(*QUIET, "--prompt", "Hello").data
    assert plain["speculation"] is None
    assert not any(name.startswith("spec_decode") for name in plain["metrics"])
    for source in ("mtp", "ngram", str(DEMO)):
        done = command(*QUIET, "--prompt", "Hello", "--speculate", source, "--draft-tokens", "2")
        data = done.data
        assert data["outputs"][0]["ids"] == plain["outputs"][0]["ids"]
        assert data["speculation"] == {"source": source, "draft_tokens": 2, "state": "versions"}
        assert len(data["metrics"]["spec_decode_per_position_acceptance_rates"]) == 2
        assert set(data["formulas"]) >= {"spec_decode_acceptance_length", "median_verify_step_ms"}
        noted = any("--speculate mtp" in note for note in done.notes)
        assert noted == (source != "mtp")
    metrics = data["metrics"]  # of the model itself: all drafts are right
    assert metrics["spec_decode_acceptance_length"] == pytest.approx(3, abs=0.3)
    assert metrics["spec_decode_acceptance_rate"] == pytest.approx(1, abs=0.1)
    assert metrics["median_verify_step_ms"] > 0
    # 12 tokens: one of the prompt's step, then three a step
    assert metrics["spec_decode_num_drafts"] in (4, 5)
    assert len(metrics["itl_ms"][0]) == 11
    assert metrics["tpot_ms"][0] * 11 == pytest.approx(sum(metrics["itl_ms"][0]))
    assert metrics["tpot_ms"][0] < metrics["median_verify_step_ms"]


def test_a_terminal_shows_what_the_drafts_gave(command: Command) -> None:
    done = command(*RUN, "--prompt", REPEATED, "--draft", "mtp", "--draft-tokens", "4")
    assert "drafts of mtp, 4 tokens: acceptance length" in done.out


def test_tokens_of_one_step_share_its_gap() -> None:
    """Field case 183: chunks at 0, 10 and 20 ms with 1, 3 and 3 tokens."""
    timing = Timing(sent=-0.5, input_tokens=1, arrivals=((0.0, 1), (0.010, 3), (0.020, 3)))
    assert timing.tpot_ms == pytest.approx(20 / 6)
    assert timing.itl_ms == pytest.approx([10 / 3] * 6)


def test_a_stop_string_within_a_step_ends_the_text() -> None:
    """Tokens behind it were accepted in the same step, and are not shown."""
    plain, drafted = (
        day0.load("demo", quant="fp32", backend="reference", **words)
        for words in ({}, {"speculate": str(DEMO), "draft_tokens": 7})
    )
    (free,) = plain.generate("Hello", max_new_tokens=16)
    assert free.text is not None
    for number in range(3, len(free.text) - 1, 5):
        (wanted,) = plain.generate("Hello", max_new_tokens=16, stop=free.text[number])
        (got,) = drafted.generate("Hello", max_new_tokens=16, stop=free.text[number])
        assert (got.text, got.ids, got.finish_reason) == (
            wanted.text, wanted.ids, wanted.finish_reason
        )  # fmt: skip


def test_arrivals_are_moments_of_steps() -> None:
    model = day0.load("demo", quant="fp32", speculate=str(DEMO), draft_tokens=3)
    asks = [Ask(ids=(1, 2, 3)), Ask(ids=(4, 5))]
    serving = model.serving(model.jobs(asks, sampling=Sampling(max_new_tokens=9)))
    outputs = serving.run()
    for output in outputs:
        assert [count for _, count in output.timing.arrivals] == [1, 4, 4]
    assert {phase: len(times) for phase, times in serving.step_s.items()} == {
        "prefill": 1, "verify": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--speculate", "ngram", "--draft-tokens", "99"), "--draft-tokens is 99; it must be 1"),
        (("--speculate", "mtp", "--layers", "2"), "--layers leaves out the 1 that it has"),
        (("--speculate", "nowhere-to-be-found"), "nowhere-to-be-found"),
    ],
)
def test_errors_say_what_to_do(command: Command, arguments: tuple[str, ...], said: str) -> None:
    done = command(*QUIET, *arguments)
    assert done.code == 2
    assert said in done.complaint[0]
    assert any(line.startswith("hint: ") for line in done.complaint)


def test_analyze_says_what_is_shipped(command: Command) -> None:
    data = command("analyze", "demo", "--format", "json").data
    assert data["speculation"] == {
        "mtp_declared": 1,
        "mtp_shipped": 1,
        "mtp_executable": 1,
        # states and tails of six KDA layers, open pools of two indexers and of the draft's
        "bytes_per_draft_token": 6 * (3 * 3 * 512 + 65536) + 3 * 2 * 3 * 128,
    }
    assert "MTP layers: 1 declared, 1 shipped, 1 executable" in command("analyze", "demo").out
