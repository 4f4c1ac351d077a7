"""The machine of a plan: GPUs out of the table gpus.yaml, their number, what is assumed of them."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from day0.errors import Day0Error

TABLE = Path(__file__).with_name("gpus.yaml")
DEFAULT_GPU = "h200"
DEFAULT_COUNT = 8
MOST = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One accelerator: bytes, bytes per second to its memory and, one way, to another GPU of its
    host; `rates` dense operations per second by "bf16", "fp8", "fp4"; `source` of the figures."""

    name: str
    memory: int
    bandwidth: float
    link: float
    rates: Mapping[str, float]
    capability: tuple[int, int]
    host: int
    source: str

    def rate(self, format_name: str) -> float:
        """Operations per second of products whose weights are stored so."""
        return self.rates.get(kind_of(format_name), self.rates["bf16"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What predictions stand on. Shares of the peak rates that are reached; `usable` share of the
    memory; `network` bytes per second and GPU between hosts; `hop_seconds` before a collective's
    first byte; `workspace` bytes of a GPU for the driver, captured graphs and kernels' scratch; the
    load: prompts of `prompt` tokens in chunks of at most `chunk`, `context` tokens held at decode,
    `output` tokens produced, at most `batch` sequences at once. Launches, values between ops and
    uneven experts are not counted."""

    matrix: float = 0.5
    bandwidth: float = 0.7
    link: float = 0.7
    usable: float = 0.9
    network: float = 50e9
    hop_seconds: float = 10e-6
    workspace: int = 2 * 2**30
    prompt: int = 4096
    context: int = 8192
    output: int = 256
    chunk: int = 8192
    batch: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`stated`: the user named it; otherwise it is what day0 plans for by itself."""

    gpu: Gpu
    count: int
    stated: bool
    assumed: Assumed = field(default_factory=Assumed)

    @property
    def usable(self) -> int:
        """Bytes of one GPU that an engine fills."""
        return int(self.gpu.memory * self.assumed.usable)


def machine(gpu: str | None = None, count: int | None = None) -> Machine:
    """The machine named, or eight H200; Day0Error for an unknown GPU or an impossible count."""
    if count is not None and not 1 <= count <= MOST:
        raise Day0Error(
            f"--num-gpus is {count}; it must be 1 to {MOST}",
            hint="day0 analyze MODEL --gpu h200 --num-gpus 8",
        )
    return Machine(
        gpu=_called(gpu or DEFAULT_GPU),
        count=count or (DEFAULT_COUNT if gpu is None else 1),
        stated=gpu is not None or count is not None,
    )


def kind_of(format_name: str) -> str:
    """Which matrix units work on weights in this format; four-bit ones are widened to bf16."""
    return "fp8" if format_name.startswith(("fp8_", "mxfp8")) else "bf16"


@cache
def gpus() -> Mapping[str, Gpu]:
    """The table."""
    rows = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return {name: _row(name, row) for name, row in rows.items()}


def _row(name: str, row: Mapping[str, object]) -> Gpu:
    rates = row["rates"]
    capability = row["capability"]
    assert isinstance(rates, dict)
    assert isinstance(capability, list)
    return Gpu(
        name=name,
        memory=int(str(row["memory"])),
        bandwidth=float(str(row["bandwidth"])),
        link=float(str(row["link"])),
        rates={kind: float(rate) for kind, rate in rates.items()},
        capability=(capability[0], capability[1]),
        host=int(str(row["host"])),
        source=str(row["source"]),
    )


def _called(name: str) -> Gpu:
    table = gpus()
    found = table.get(name.lower())
    if found is None:
        near = difflib.get_close_matches(name.lower(), table, n=1, cutoff=0.4) or [DEFAULT_GPU]
        raise Day0Error(
            f"--gpu is {name!r}; it must be one of {', '.join(table)}",
            hint=f"day0 analyze MODEL --gpu {near[0]} --num-gpus 8",
        )
    return found
