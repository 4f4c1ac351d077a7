"""Time of device work: interleaved runs with a cold L2 cache, and calls inside a CUDA graph."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

# Many times any L2, and long enough to write that the host is ahead when several launches follow.
FLUSH_BYTES = 1 << 30
GRAPH_CALLS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Microseconds per call: median, the spread (80th minus 20th percentile), and in a graph."""

    median_us: float
    spread_us: float
    graph_us: float | None = None

    @property
    def best_us(self) -> float:
        return min(self.median_us, self.graph_us or self.median_us)


def interleaved(functions: Mapping[str, Callable[[], object]], budget_ms: float = 300.0,
                graph: bool = False) -> dict[str, Timing]:  # fmt: skip
    """Time every function in turn, round by round, so that all see the same clocks.

    The L2 cache is overwritten before each call. `budget_ms` is spent per function, with 7 to 100
    rounds. `graph` also times `GRAPH_CALLS` calls inside one captured graph (cache warm).
    """
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    for function in functions.values():
        function()
    torch.cuda.synchronize()
    slowest = max(_once(function, flush) for function in functions.values())
    rounds = int(min(max(budget_ms / max(slowest, 1e-3), 7), 100))
    samples: dict[str, list[float]] = {name: [] for name in functions}
    events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
    for _ in range(rounds):
        for name, function in functions.items():
            flush.zero_()
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            function()
            after.record()
            events.append((name, before, after))
    torch.cuda.synchronize()
    for name, before, after in events:
        samples[name].append(before.elapsed_time(after) * 1e3)
    result = {}
    for name, times in samples.items():
        cuts = statistics.quantiles(times, n=10)
        graph_us = in_graph(functions[name]) if graph else None
        result[name] = Timing(
            median_us=statistics.median(times), spread_us=cuts[7] - cuts[1], graph_us=graph_us
        )
    return result


def _once(function: Callable[[], object], flush: torch.Tensor) -> float:
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    flush.zero_()
    before.record()
    function()
    after.record()
    torch.cuda.synchronize()
    return before.elapsed_time(after)


def in_graph(function: Callable[[], object]) -> float:
    """Microseconds per call of `GRAPH_CALLS` calls in one CUDA graph, median of 9 replays."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_CALLS):
            function()
    graph.replay()
    times = []
    for _ in range(9):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        graph.replay()
        after.record()
        torch.cuda.synchronize()
        times.append(before.elapsed_time(after) * 1e3 / GRAPH_CALLS)
    return statistics.median(times)


def ceilings() -> dict[str, float]:
    """Measured rates of this chip: `bytes` per second of a copy, `bf16`, `fp8`, `fp32` FLOP/s."""
    source = torch.randint(0, 100, (1 << 29,), dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    low = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).T
    one = torch.ones((), device="cuda")
    product = torch._scaled_mm  # pyright: ignore[reportPrivateImportUsage]
    times = interleaved(
        {
            "copy": lambda: target.copy_(source),
            "matmul": lambda: a @ b,
            "fp8": lambda: product(*low, one, one, out_dtype=torch.bfloat16),
        }
    )
    return {
        "bytes": 2 * source.numel() * 4 / times["copy"].median_us * 1e6,
        "bf16": 2 * 8192**3 / times["matmul"].median_us * 1e6,
        "fp8": 2 * 8192**3 / times["fp8"].median_us * 1e6,
        "fp32": 60e12,
    }
