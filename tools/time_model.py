"""Time a whole model on this machine's GPU: TPOT and TTFT over batch sizes, by one process.

    PYTHONPATH=.:kernels python tools/time_model.py catalog:NAME --batch 1 8 32 128 --out FILE.json

Weights are made up. Every batch is served twice, the second time counts. Routing is reported: the
distinct experts that a decode step touches, without which a figure of a sparse model says nothing.
With `--drafts N` verify steps of N drafts are timed too: of random tokens, 0 to N of which are
accepted in turn, whatever the model says.
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
import triton

import day0
from day0.runtime.api import Loaded
from day0.runtime.prompts import Ask
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling
from day0.runtime.serving import Serving
from day0.runtime.speculation import Fed, Speculation, Tables
from day0.runtime.step import Step
from day0.runtime.step_costs import decode_floor_ms


def prompts(model: Loaded, count: int, length: int, seed: int) -> list[list[int]]:
    vocab = model.session.model.spec.vocab_size
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab, (count, length), generator=generator).tolist()


def timed(model: Loaded, batch: int, length: int, new: int) -> dict[str, Any]:
    """Milliseconds of the second serving; `tpot_ms` is the median gap between a sequence's tokens
    once all decode, `ttft_ms` the first token of the first and of the last sequence."""
    for seed in range(2):
        asked = prompts(model, batch, length, seed)
        outputs = model.generate(asked, max_new_tokens=new, ignore_eos=True)
    times = [[moment for moment, _ in output.timing.arrivals] for output in outputs]
    sent = outputs[0].timing.sent
    last = max(moments[0] for moments in times)
    gaps = [
        after - before
        for moments in times
        for before, after in zip(moments, moments[1:], strict=False)
        if before >= last
    ]
    return {
        "batch": batch,
        "prompt": length,
        "tpot_ms": round(statistics.median(gaps) * 1e3, 3) if gaps else None,
        "ttft_ms": [
            round((choose(moments[0] for moments in times) - sent) * 1e3, 1)
            for choose in (min, max)
        ],
    }


def touched(model: Loaded, batch: int) -> float | None:
    """Mean over layers of the distinct experts that one decode step of `batch` rows reaches."""
    counts: list[int] = []
    session = model.session

    def watch(call, frame) -> None:
        if call.op.family == "moe_route" and frame.step.phase == "decode":
            chosen = frame.values[dict(call.op.outputs)["experts"]]
            counts.append(int(chosen.unique().numel()))

    engine = session.engine()
    engine._run = lambda step, inputs: session.run(step, inputs, watch=watch)[session.logits_name]
    for ids in prompts(model, batch, 64, seed=7):
        engine.add(tuple(ids), Sampling(max_new_tokens=2))
    for _ in engine.serve():
        pass
    return round(statistics.mean(counts), 1) if counts else None


def replayed(model: Loaded, batch: int, kernels: int) -> dict[str, Any] | None:
    """Milliseconds of the decode graph of `batch` rows alone, and the kernels that take longest:
    name, launches, microseconds in all. The requests are done: what a replay writes is nobody's."""
    graphs = model.session.graphs
    if graphs is None or batch not in graphs.captured:
        return None
    graph = graphs.captured[batch].graph
    for _ in range(3):
        graph.replay()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(20):
        graph.replay()
    end.record()
    end.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    rows = sorted(profile.key_averages(), key=lambda row: -row.device_time_total)
    return {
        "graph_ms": round(begin.elapsed_time(end) / 20, 3),
        "launches": sum(row.count for row in rows),
        "kernels": [(r.key[:60], r.count, round(r.device_time_total, 1)) for r in rows[:kernels]],
    }


class Pattern:
    """Random drafts, `count` for every request; `right`: how many of each are to be accepted."""

    taps: tuple[str, ...] = ()

    def __init__(self, vocab: int) -> None:
        self._vocab = vocab
        self._generator = torch.Generator().manual_seed(11)
        self._turns = itertools.count()
        self.right: list[tuple[tuple[int, ...], int]] = []

    def propose(
        self, requests: Sequence[Request], counts: Sequence[int], tables: Tables
    ) -> list[tuple[int, ...]]:
        found = [
            tuple(torch.randint(self._vocab, (count,), generator=self._generator).tolist())
            for count in counts
        ]
        self.right = [(drafts, next(self._turns) % (len(drafts) + 1)) for drafts in found]
        return found

    def follow(self, step: Step, fed: Sequence[Fed], tapped: Mapping[str, torch.Tensor]) -> None:
        pass

    def forget(self, request: Request) -> None:
        pass


def verified(model: Loaded, batch: int, length: int, new: int) -> dict[str, Any]:
    """Milliseconds of verify steps of the second serving, the tokens that each gave a sequence, and
    the step's floor."""
    session = model.session
    drafts, versions = session.limits.drafts, session.limits.rows
    serving = None
    for seed in range(2):
        pattern = Pattern(session.model.spec.vocab_size)
        session.speculation = lambda pattern=pattern: Speculation(pattern, drafts, "pattern")
        engine = session.engine()
        right = engine._run

        def run(step: Step, inputs: Mapping[str, torch.Tensor], right=right, pattern=pattern):
            logits = right(step, inputs)
            if step.phase == "verify":
                places = [
                    (number * versions + place, token)
                    for number, (tokens, count) in enumerate(pattern.right)
                    for place, token in enumerate(tokens[:count])
                ]
                if places:
                    rows, ids = torch.tensor(places, device=logits.device).T
                    logits[rows, ids] = float("inf")
            return logits

        engine._run = run
        jobs = model.jobs(
            [Ask(ids=tuple(ids)) for ids in prompts(model, batch, length, seed)],
            sampling=Sampling(max_new_tokens=new), ignore_eos=True,
        )  # fmt: skip
        serving = Serving(engine, jobs, None)
        serving.run()
    session.speculation = None
    assert serving is not None
    assert serving.tally is not None
    times = serving.step_s["verify"]
    # while all sequences are there
    full = [s for s, (_, rows) in zip(times, verify_steps(serving), strict=True)
            if rows == batch * versions]  # fmt: skip
    figures = serving.tally.figures()
    floor = decode_floor_ms(
        session.lowered["verify"], session.recipe, rows=batch * versions, length=length,
        each=versions,
    )  # fmt: skip
    step_ms = statistics.median(full) * 1e3
    return {
        "batch": batch,
        "prompt": length,
        "drafts": drafts,
        "verify_step_ms": round(step_ms, 3),
        "verify_floor_ms": round(floor, 3),
        "verify_floor_share": round(floor / step_ms, 3),
        "accepted_length": figures["accepted_length"],
    }


def verify_steps(serving: Serving) -> list[tuple[str, int]]:
    return [step for step in serving.steps if step[0] == "verify"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--long-prompt", type=int, default=8192, help="timed at batch 1")
    parser.add_argument("--new", type=int, default=33)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--quant", default="bf16")
    parser.add_argument("--without", nargs="*", default=[], help="passes to leave out")
    parser.add_argument("--kernels", type=int, default=16, help="rows of each graph's profile")
    parser.add_argument("--drafts", type=int, default=0, help="of each verify step; 0: none")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    # every sequence of the largest batch, and the long prompt, fit
    context = given.prompt + given.new
    context = max(context, -(-(given.long_prompt + given.new) // max(given.batch)))
    model = day0.load(
        given.model, quant=given.quant, dummy=True, layers=given.layers, max_context=context,
        max_batch=max(given.batch), without=given.without,
        speculate="ngram" if given.drafts else None, draft_tokens=given.drafts or 1,
    )  # fmt: skip
    model.session.speculation = None
    rows = []
    for batch in given.batch:
        row = timed(model, batch, given.prompt, given.new)
        rows.append(row | {"graph": replayed(model, batch, given.kernels)})
        print(json.dumps(rows[-1]), flush=True)
        if given.drafts:
            rows.append(verified(model, batch, given.prompt, given.new))
            print(json.dumps(rows[-1]), flush=True)
    if given.long_prompt:
        rows.append(timed(model, 1, given.long_prompt, 9))
        print(json.dumps(rows[-1]), flush=True)
    report = {
        "model": given.model,
        "layers": len(model.session.model.spec.layers),
        "recipe": given.quant,
        "without": given.without,
        "date": date.today().isoformat(),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "experts_touched": {str(batch): touched(model, batch) for batch in given.batch},
        "capture_s": model.session.graphs.capture_s if model.session.graphs else None,
        "peak_memory_bytes": torch.cuda.max_memory_allocated(),
        "rows": rows,
    }
    print(json.dumps(report, indent=1))
    if given.out:
        given.out.write_text(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
