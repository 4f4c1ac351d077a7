"""Metric definitions on timestamps that are known; field cases 183-186 and 190 among them."""

import random

import pytest

from day0.runtime.metrics import Timing, percentile, side_by_side, summary


def timing(*moments: tuple[float, int], sent: float = 0.0, **fields: object) -> Timing:
    """A request sent at `sent` ms, with (ms, tokens) as they came."""
    arrivals = tuple((at / 1e3, count) for at, count in moments)
    return Timing(sent=sent / 1e3, input_tokens=10, arrivals=arrivals, **fields)  # type: ignore[arg-type]


def test_tokens_of_a_chunk_count_one_by_one() -> None:
    """Case 183: chunks at 0, 10, 20 ms carry 1, 3, 3 tokens."""
    one = timing((0, 1), (10, 3), (20, 3))
    assert one.tpot_ms == pytest.approx(20 / 6)
    assert len(one.itl_ms) == 6
    assert sum(one.itl_ms) / 6 == pytest.approx(one.tpot_ms)


def test_ttft_stands_in_no_gap() -> None:
    """Case 184."""
    one = timing((500, 1), (510, 1), (520, 1))
    assert one.ttft_ms == pytest.approx(500)
    assert one.itl_ms == pytest.approx([10, 10])


def test_ids_are_counted_not_text() -> None:
    """Case 185: a hundred ids are a hundred tokens, whatever their text."""
    one = timing(*((10.0 * (i + 1), 1) for i in range(100)))
    figures = summary([one], duration=1.0)
    assert figures["total_output_tokens"] == 100
    assert figures["mean_tpot_ms"] == pytest.approx(10)


def test_the_peak_counts_tokens() -> None:
    """Case 186: the stream of case 183 has a peak no lower than its average."""
    figures = summary([timing((0, 1), (10, 3), (20, 3))], duration=0.020)
    assert figures["output_throughput"] == pytest.approx(7 / 0.020)
    assert figures["peak_output_throughput"] == pytest.approx(7 / 0.020)


def test_the_prefill_is_no_decode_step() -> None:
    """Case 190: iterations of 900, 10, 10, 10 ms."""
    one = timing((900, 1), (910, 1), (920, 1), (930, 1))
    assert one.ttft_ms == pytest.approx(900)
    assert 1e3 / one.tpot_ms == pytest.approx(100)


def test_one_token_has_no_time_per_further_token() -> None:
    figures = summary([timing((7, 1))], duration=0.007)
    assert figures["mean_ttft_ms"] == pytest.approx(7)
    assert figures["tpot_ms"] == [None]
    assert figures["mean_tpot_ms"] is None
    assert figures["p99_itl_ms"] is None


def test_rates_and_failures() -> None:
    good, bad = timing((100, 1), (200, 1)), timing(failed=True)
    figures = summary([good, bad], duration=0.5)
    assert (figures["completed"], figures["failed"]) == (1, 1)
    assert figures["request_throughput"] == pytest.approx(2)
    assert figures["output_throughput"] == pytest.approx(4)
    assert figures["total_token_throughput"] == pytest.approx(24)
    assert figures["mean_e2el_ms"] == pytest.approx(200)


def test_nothing_done_has_no_figures() -> None:
    figures = summary([], duration=0.0)
    assert figures["output_throughput"] is None
    assert figures["peak_output_throughput"] is None
    assert figures["median_ttft_ms"] is None


def test_percentiles_lie_between_values() -> None:
    values = [30.0, 10.0, 20.0, 40.0]
    assert percentile(values, 50) == pytest.approx(25)
    assert percentile(values, 90) == pytest.approx(37)
    assert percentile([5.0], 99) == 5


def test_cold_and_warm_stand_side_by_side() -> None:
    cold = timing((900, 1), (920, 1), cold=True)
    warm = [timing((t, 1), (t + 10, 1)) for t in (30, 50, 40)]
    figures = side_by_side([cold, *warm])
    assert figures["cold_ttft_ms"] == pytest.approx(900)
    assert figures["warm_ttft_ms"] == pytest.approx(40)
    assert figures["cold_tpot_ms"] == pytest.approx(20)
    assert figures["warm_tpot_ms"] == pytest.approx(10)
    assert side_by_side([cold])["warm_ttft_ms"] is None


def test_identities_hold_for_any_stream(seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    for _ in range(300):
        streams = []
        for _ in range(draw.randint(1, 4)):
            at, moments = draw.uniform(0, 900), []
            for _ in range(draw.randint(1, 9)):
                at += draw.uniform(0.1, 900)
                moments.append((at, draw.randint(1, 4)))
            streams.append(timing(*moments))
        end = max(stream.arrivals[-1][0] for stream in streams)
        figures = summary(streams, duration=end)
        assert figures["peak_output_throughput"] >= figures["output_throughput"] * (1 - 1e-9)  # type: ignore[operator]
        for stream in streams:
            assert len(stream.itl_ms) == stream.output_tokens - 1
            assert sum(stream.itl_ms) == pytest.approx(stream.e2el_ms - stream.ttft_ms)
