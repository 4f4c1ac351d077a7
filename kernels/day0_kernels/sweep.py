"""Times of one op over a grid of launch settings: what a launch table is written from.

    PYTHONPATH=kernels python3 -m day0_kernels.sweep sparse_mla --only decode \\
        --table day0_kernels.mla.launch:attend_launch block_heads=16,32,64 num_warps=4,8

The table's function answers as always, with the named fields replaced; each variant's output is
held against the table's own. Kernels are compiled by `--jobs` processes first, so that the timing
process finds them in Triton's cache. Nothing of this runs while serving: results are written into
launch.py.
"""

import argparse
import importlib
import inspect
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from day0_kernels import OPS
from day0_kernels.bench import PEER_BOUND
from day0_kernels.case import Case, converted, load, op_module
from day0_kernels.compare import relative_errors
from day0_kernels.timing import interleaved

Settings = Mapping[str, Any]


def table_of(op: str, named: str | None) -> str:
    """The launch function "module:name" to vary: `named`, or the only one of the op.

    Raises ValueError, listing them, where an op has none or several."""
    if named:
        return named
    module = importlib.import_module(f"day0_kernels.{op}.launch")
    own = [
        f"{module.__name__}:{name}"
        for name, value in inspect.getmembers(module, inspect.isfunction)
        if name.endswith("_launch") and value.__module__ == module.__name__
    ]
    if len(own) != 1:
        raise ValueError(f"{op} has {len(own)} launch functions; name one with --table: {own}")
    return own[0]


def grid(texts: Sequence[str]) -> list[dict[str, Any]]:
    """All combinations of "field=1,2" texts; ValueError for a text of another form."""
    fields = []
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise ValueError(f"{text!r} is not of the form field=value,value")
        fields.append([(name, json.loads(value.lower())) for value in values.split(",")])
    return [dict(choice) for choice in itertools.product(*fields)]


@contextmanager
def replaced(table: str, settings: Settings) -> Iterator[None]:
    """Inside, the launch function `table` gives its answer with `settings` in place, wherever it
    has been imported to. Raises TypeError at a call where the answer has no such field."""
    original = load(table)

    def changed(*args: Any, **kwargs: Any) -> Any:
        return replace(original(*args, **kwargs), **settings)

    places = [
        (module, name)
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("day0_kernels")
        for name, value in list(vars(module).items())
        if value is original
    ]
    for module, name in places:
        setattr(module, name, changed)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, original)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A kernel, its arguments, and which of them it writes. Without scratch: its size depends on
    the settings, and the call allocates it. Kernels may change caches in place: `arguments` stay as
    they were made, timed calls work on the copy `timed`."""

    kernel: Callable[..., Any]
    arguments: Mapping[str, Any]
    timed: Mapping[str, Any]
    output: str

    def result(self) -> torch.Tensor:
        """The output for a fresh copy of the arguments."""
        fresh = converted(self.arguments)
        self.kernel(**fresh)
        return fresh[self.output].reshape(-1).float()

    def call(self) -> None:
        self.kernel(**self.timed)


def subject_of(op: str, case: Case, seed: int, device: str = "cuda") -> Subject:
    """What a case times."""
    module = op_module(op)
    pair = next(pair for pair in module.PAIRS if pair.name == case.pair)
    generator = torch.Generator(device=device).manual_seed(seed)
    arguments = module.inputs(case, device, generator)
    return Subject(
        kernel=load(pair.kernel), arguments=arguments, timed=converted(arguments),
        output=pair.outputs[0],
    )  # fmt: skip


def variants(
    subject: Subject, table: str, settings: Sequence[Settings],
    time: Callable[[Callable[[], Any]], float],
) -> list[dict[str, Any]]:  # fmt: skip
    """A row per variant, fastest first, failures last; before them the table's own."""
    expected = subject.result()
    own = {"settings": {}, "us": round(time(subject.call), 2)}
    rows = []
    for chosen in settings:
        row: dict[str, Any] = {"settings": dict(chosen)}
        with replaced(table, chosen):
            try:  # a variant that cannot be built is a result
                difference = relative_errors(subject.result(), expected)[0]
                if difference < PEER_BOUND:
                    row["us"] = round(time(subject.call), 2)
                else:
                    row["failed"] = f"differs by {difference:.2e}"
            except Exception as error:  # noqa: BLE001
                row["failed"] = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        rows.append(row)
    return [own, *sorted(rows, key=lambda row: row.get("us", float("inf")))]


def _compile(command: Sequence[str], jobs: int) -> None:
    """Every job runs its share of the variants once, which leaves them in Triton's cache."""
    workers = [
        subprocess.Popen([sys.executable, "-m", "day0_kernels.sweep", *command,
                          "--share", f"{number}/{jobs}"], stdout=subprocess.DEVNULL)
        for number in range(jobs)
    ]  # fmt: skip
    for worker in workers:
        worker.wait()


def main(argv: list[str] | None = None) -> int:
    """Exit 0 when measured, 2 for a wrong argument."""
    parser = argparse.ArgumentParser(description="Launch settings of one op, timed on this GPU.")
    parser.add_argument("op", choices=OPS)
    parser.add_argument(
        "settings", nargs="+", help="field=value,value of the launch table's answer"
    )
    parser.add_argument("--table", help="module:function, where an op has several")
    parser.add_argument("--only", default="", help="comma separated parts of case names")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    parser.add_argument("--jobs", type=int, default=8, help="processes that compile (default 8)")
    parser.add_argument("--best", type=int, default=5, help="rows shown of each case (default 5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", help=argparse.SUPPRESS)
    command = list(sys.argv[1:] if argv is None else argv)
    arguments = parser.parse_args(command)
    try:
        table, settings = table_of(arguments.op, arguments.table), grid(arguments.settings)
    except ValueError as error:
        parser.error(str(error))
    wanted = [part for part in arguments.only.split(",") if part]
    cases = [
        case for case in op_module(arguments.op).CASES
        if "bench" in case.tags and (not wanted or any(part in case.name for part in wanted))
    ]  # fmt: skip
    if arguments.share:
        number, jobs = (int(part) for part in arguments.share.split("/"))
        settings = settings[number::jobs]
    elif arguments.jobs > 1:
        _compile(command, arguments.jobs)
    result = {}
    for case in cases:
        subject = subject_of(arguments.op, case, arguments.seed)
        rows = variants(subject, table, settings, _no_time if arguments.share else _time)
        result[case.name] = rows
        for row in rows[: arguments.best + 1]:
            sys.stdout.write(f"{case.name:28} {json.dumps(row)}\n")
        sys.stdout.flush()
        if arguments.out and not arguments.share:
            arguments.out.write_text(json.dumps(result, indent=0) + "\n")
        del subject
        torch.cuda.empty_cache()
    return 0


def _time(function: Callable[[], Any]) -> float:
    return interleaved({"it": function}, budget_ms=60.0)["it"].median_us


def _no_time(function: Callable[[], Any]) -> float:
    return 0.0


if __name__ == "__main__":
    raise SystemExit(main())
