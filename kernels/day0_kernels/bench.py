"""Bench of one op: a correctness gate first, then every timed case beside the peers installed.

    PYTHONPATH=kernels python3 -m day0_kernels.bench kda --out kda.json --only H32

A table goes to stdout, the figures as JSON to --out.
"""

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import torch

from day0_kernels import OPS
from day0_kernels.case import DTYPES, Case, converted, load, op_module
from day0_kernels.compare import Mismatch, parity, relative_errors
from day0_kernels.timing import ceilings, interleaved

PEER_BOUND = 2e-2  # a peer whose result is further off than this computes something else


def gate(op: str, generator: torch.Generator) -> list[str]:
    """Run all cases that are not big; the mismatches, by name."""
    module, wrong = op_module(op), []
    pairs = {pair.name: pair for pair in module.PAIRS}
    for case in module.CASES:
        if "big" in case.tags:
            continue
        pair = pairs[case.pair]
        arguments = module.inputs(case, "cuda", generator)
        try:
            parity(load(pair.reference), load(pair.kernel), arguments, pair,
                   module.TOLERANCE[case.dtype], DTYPES[case.dtype])  # fmt: skip
        except Mismatch as mismatch:
            wrong.append(f"{case.name}: {mismatch}")
    return wrong


def measure(op: str, case: Case, rates: dict[str, float], generator: torch.Generator,
            wanted_peers: tuple[str, ...] | None) -> list[dict[str, Any]]:  # fmt: skip
    """Rows of one case: ours first, then the peers, timed alternately in this process."""
    module = op_module(op)
    pair = next(p for p in module.PAIRS if p.name == case.pair)
    arguments, kernel = module.inputs(case, "cuda", generator), load(pair.kernel)
    needs = getattr(module, "workspace", None)
    if needs and (workspace := needs(case)) is not None:
        arguments["workspace"] = workspace
    functions = {"day0": lambda: kernel(**arguments)}
    differences = {}
    if wanted_peers != () and importlib.util.find_spec(f"day0_kernels.{op}.peers"):
        ours = converted(arguments)
        kernel(**ours)
        for name, (function, output) in op_module(op, "peers").peers(case, arguments).items():
            if wanted_peers and name not in wanted_peers:
                continue
            function()
            expected = ours[pair.outputs[0]].reshape(-1).float()
            differences[name] = relative_errors(output().reshape(-1).float(), expected)[0]
            functions[name] = function
    timings = interleaved(functions, graph="graph" in case.tags)
    work = module.work(case)
    floor_us = max(work.bytes / rates["bytes"], work.flops / rates[work.unit]) * 1e6
    rows = []
    for name, timing in timings.items():
        row = {"case": case.name, "impl": name, "us": round(timing.median_us, 2)}
        row |= {"spread_us": round(timing.spread_us, 2), "floor_us": round(floor_us, 2)}
        if timing.graph_us is not None:
            row["graph_us"] = round(timing.graph_us, 2)
        row["gbs"] = round(work.bytes / timing.best_us / 1e3)
        row["tflops"] = round(work.flops / timing.best_us / 1e6, 1)
        row["share"] = round(floor_us / timing.best_us, 3)
        if name in differences:
            row["difference"] = float(f"{differences[name]:.2e}")
            row["same_result"] = differences[name] < PEER_BOUND
        rows.append(row)
    return rows


def show(row: dict[str, Any]) -> str:
    """One line of the table."""
    graph = f"{row['graph_us']:9.2f}" if "graph_us" in row else " " * 9
    note = "" if row.get("same_result", True) else f"  differs by {row['difference']}"
    return (
        f"{row['case']:28} {row['impl']:18} {row['us']:10.2f} +-{row['spread_us']:7.2f} {graph} "
        f"{row['floor_us']:9.2f} {row['share']:6.3f} {row['gbs']:6} {row['tflops']:7}{note}"
    )


def main(argv: list[str] | None = None) -> int:
    """Exit 0 when measured, 1 when the gate is red (then nothing is timed)."""
    parser = argparse.ArgumentParser(description="Bench of one op on the GPU of this machine.")
    parser.add_argument("op", choices=OPS)
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    parser.add_argument("--only", default="", help="comma separated parts of case names")
    parser.add_argument("--peers", help="comma separated names; all if left out, none if empty")
    parser.add_argument("--no-gate", action="store_true", help="only for tuning")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    generator = torch.Generator(device="cuda").manual_seed(arguments.seed)
    wrong = [] if arguments.no_gate else gate(arguments.op, generator)
    if wrong:
        sys.stdout.write("correctness gate is red, nothing timed\n" + "\n".join(wrong) + "\n")
        return 1
    rates = ceilings()
    head = {
        "op": arguments.op,
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": importlib.import_module("triton").__version__,
        "rates": rates,
        "seed": arguments.seed,
    }
    sys.stdout.write(json.dumps(head) + "\n")
    wanted = [part for part in arguments.only.split(",") if part]
    peers = None
    if arguments.peers is not None:
        peers = tuple(part for part in arguments.peers.split(",") if part)
    rows: list[dict[str, Any]] = []
    for case in op_module(arguments.op).CASES:
        if "bench" not in case.tags or (wanted and not any(w in case.name for w in wanted)):
            continue
        new = measure(arguments.op, case, rates, generator, peers)
        torch.cuda.empty_cache()
        for row in new:
            sys.stdout.write(show(row) + "\n")
        sys.stdout.flush()
        rows += new
        if arguments.out:
            lines = ",\n".join(json.dumps(row) for row in rows)
            arguments.out.write_text(f'{{"head": {json.dumps(head)},\n"rows": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
