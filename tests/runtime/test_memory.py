"""Memory is counted before loading as it is then taken, and as `analyze` counts it; what does not
fit is said with what would."""

import re
from collections.abc import Callable

import pytest

from day0.analysis import caches
from day0.checkpoint.load import DEMO
from day0.errors import Day0Error, DoesNotFit
from day0.ir.recipe import RECIPES
from day0.runtime.memory import Needs, even, needs, parsed, room_on
from day0.runtime.opening import Opened, open_model
from day0.runtime.prompts import Job
from day0.runtime.sampling import Sampling
from day0.runtime.session import Sizes, lowered_for
from day0.runtime.sizing import needs_of, sizes_for, sizes_of
from tests.runtime.commands import Command, command

__all__ = ["command"]
KIMI = "catalog:moonshotai--kimi-linear-48b-a3b-instruct"
GIB = 2**30


@pytest.fixture(scope="module")
def demo() -> Opened:
    return open_model(str(DEMO), device="cpu")


@pytest.mark.parametrize("quant", ["bf16", "fp32", "fp8"])
def test_bytes_are_those_that_loading_takes(quant: str) -> None:
    """To the byte: weights and caches, narrow ones as the values that a CPU holds."""
    opened = open_model(str(DEMO), device="cpu", quant=quant)
    sizes = Sizes(tokens=300, sequences=3, longest=100)
    needed = needs_of(opened)
    session, _ = opened.session(sizes)
    held = sum(t.nbytes for t in {id(t): t for t in session._weights.values()}.values())
    assert needed.weights == held
    parts = [t for parts in session.storage.parts.values() for t in parts.values()]
    assert needed.caches(sizes) == sum(t.nbytes for t in parts)


@pytest.mark.parametrize("batch", [1, 7])
def test_two_contexts_differ_by_what_analyze_says(demo: Opened, batch: int) -> None:
    needed = needs_of(demo)
    more = needed.caches(even(4096, batch)) - needed.caches(even(1024, batch))
    bf16 = RECIPES["bf16"]
    said = caches.held(demo.model, bf16, 4096) - caches.held(demo.model, bf16, 1024)
    assert more == batch * said


def of_kimi(device: str = "cuda", quant: str = "bf16") -> Needs:
    opened = open_model(KIMI, dummy=True, device="cpu", quant=quant)
    # as a Hopper GPU holds it: narrow weights and caches as codes
    low = lowered_for(opened.model, opened.recipe, "auto", capability=(9, 0))["prefill"]
    return needs(low, opened.recipe, device)


def test_a_large_model_on_a_gpu() -> None:
    """49.1 B parameters: 98 GB in bf16, half of it and a little in FP8."""
    bf16, fp8 = of_kimi(), of_kimi(quant="fp8")
    assert bf16.weights == pytest.approx(98.2e9, rel=0.01)
    assert 0.5 < fp8.weights / bf16.weights < 0.56
    assert bf16.total(even(8192, 8)) < 141e9 < bf16.total(even(1_048_576, 32))


def test_what_would_fit_fits_and_no_more() -> None:
    needed = of_kimi()
    room = needed.total(even(100_000, 4))
    with pytest.raises(DoesNotFit) as told:
        needed.must_fit(even(200_000, 8), room)
    assert told.value.exit_code == 3
    assert "8 sequences of up to 200,000 tokens need" in told.value.message
    context, batch = map(int, re.findall(r"--max-(?:context|batch) (\d+)", told.value.hint))
    needed.must_fit(even(context, 8), room)
    needed.must_fit(even(200_000, batch), room)
    for beyond in (even(context + 16, 8), even(200_000, batch + 1)):
        with pytest.raises(DoesNotFit):
            needed.must_fit(beyond, room)


def test_weights_that_do_not_fit_have_no_context() -> None:
    needed = of_kimi()
    with pytest.raises(DoesNotFit) as told:
        needed.must_fit(even(16, 1), 80 * GIB)
    assert "--max-context" not in told.value.hint
    assert "--quant fp8" in told.value.hint
    needed.must_fit(even(16, 1), None)  # nobody knows what there is


def jobs(*lengths: int) -> list[Job]:
    return [
        Job(prompt=None, ids=(1,) * (n - 4), sampling=Sampling(max_new_tokens=4)) for n in lengths
    ]


def test_a_batch_that_nobody_states_is_as_large_as_memory_allows(demo: Opened) -> None:
    asked = jobs(900, 2000, 400, 1500, 1000)
    needed = needs_of(demo)
    assert sizes_for(demo, asked) == Sizes(tokens=5800, sequences=5, longest=2000)
    three = Sizes(tokens=4500, sequences=3, longest=2000)
    room = str(needed.total(three))
    assert sizes_for(demo, asked, max_memory=room) == three
    with pytest.raises(DoesNotFit, match="5 sequences"):
        sizes_for(demo, asked, max_batch=5, max_memory=room)
    assert sizes_for(demo, asked, max_batch=2).sequences == 2


def test_any_load_of_a_batch_and_a_context(demo: Opened) -> None:
    assert sizes_of(demo) == even(4096, 8)
    assert sizes_of(demo, max_context=64, max_batch=2) == even(64, 2)
    with pytest.raises(DoesNotFit):
        sizes_of(demo, max_context=64, max_batch=2, max_memory="1 MiB")


@pytest.mark.parametrize(
    ("text", "count"),
    [("80GiB", 80 * GIB), ("512 mb", 512_000_000), ("1000", 1000), ("1.5KiB", 1536)],
)
def test_sizes_in_words(text: str, count: int) -> None:
    assert parsed(text) == count


@pytest.mark.parametrize("text", ["", "lots", "80 GiBs", "-1", "0", "1e9"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(Day0Error, match="--max-memory") as told:
        parsed(text)
    assert told.value.exit_code == 2


def test_the_room_is_what_is_free_or_less() -> None:
    free = room_on("cpu")
    assert room_on("cpu", "1MiB") == 2**20
    assert free is None or free > 2**26
    if free is not None:
        assert room_on("cpu", "1000TiB") < 1000 * 2**40  # type: ignore[operator]


def test_it_is_said_before_a_weight_is_read(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: object, **__: object) -> Callable[..., None]:
        raise AssertionError("weights were read")

    monkeypatch.setattr("day0.runtime.loading.load", read)
    done = command("run", "demo", "--device", "cpu", "--max-memory", "2MiB", "--prompt", "a")
    assert done.code == 3
    assert "2.00 MiB are there" in done.complaint[0]
    assert done.complaint[1].startswith("hint:")
