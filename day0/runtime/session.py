"""A loaded model: logits, hidden rows, scores, and generation. `day0.load` gives one."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from day0.checkpoint.headers import Headers
from day0.errors import Day0Error
from day0.ir import format as formats
from day0.ir.cache import CacheSpec, page_size
from day0.ir.graph import Model
from day0.ir.recipe import Recipe
from day0.ir.weight import Weight
from day0.models.read import must_be_settled
from day0.passes.lower import Lowered, Target, lower
from day0.passes.quantize import Precision
from day0.registry.index import added_references
from day0.runtime.capture import Graphs, refuses
from day0.runtime.codes import Coding, coding
from day0.runtime.emulate import Rounding, by_part, rounding
from day0.runtime.engine import Engine, Event, Limits, graph_inputs
from day0.runtime.loader import DTYPES, Dummy, Files, load
from day0.runtime.pools import spans
from day0.runtime.program import Program, Watch
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling
from day0.runtime.step import Step, make_step, placed, widened
from day0.runtime.storage import Storage

# Rows of a prefill step: enough to fill the device.
CHUNK = {"cpu": 512, "cuda": 8192}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """`tokens` all sequences together may hold, `sequences` at once, `chunk` rows of a prefill
    step (0: what suits the device), `longest` tokens of one sequence (0: as many as all)."""

    tokens: int = 4096
    sequences: int = 8
    chunk: int = 0
    longest: int = 0


class Session:
    """One model's weights, programs and caches on one device."""

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        *,
        weights: Mapping[str, torch.Tensor],
        lowered: Mapping[str, Lowered],
        sizes: Sizes,
        device: torch.device,
    ) -> None:
        self.model = model
        self.recipe = recipe
        self.sizes = sizes
        self.device = device
        self._dtype = DTYPES[recipe.plain]
        self._weights = weights
        self._lowered = lowered
        self.limits = limits_of(lowered["prefill"].caches.values(), sizes, device.type)
        longest = -(-(sizes.longest or sizes.tokens) // self.limits.page_size)
        # of every step on a GPU, captured or not: kernels are specialised on widths and strides
        self._table_widths = {
            span: up_to_16(min(longest, count)) for span, count in self.limits.num_pages.items()
        }
        self.storage = self._storage(self.limits)
        self.programs = self._programs(self.storage)
        self.graphs = self._captured(self.programs["decode"])
        self._lone: tuple[int, Program] | None = None

    @property
    def lowered(self) -> Mapping[str, Lowered]:
        """The lowered graphs by phase, with the implementation chosen for every op."""
        return self._lowered

    def engine(self) -> Engine:
        """A fresh engine over this session's caches."""

        def run(step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
            return self.run(step, inputs)[self.logits_name]

        # steps are made on the CPU: `run` places them, or puts them into a graph's buffers
        return Engine(run, self.limits, torch.device("cpu"), history=self.history)

    def weight(self, name: str) -> torch.Tensor | None:
        """A weight as it is held; None for a name that nothing uses."""
        return self._weights.get(name)

    @property
    def history(self) -> int:
        """Ids before each sequence's rows that the graph asks for as an input."""
        graph = self._lowered["prefill"].graph
        return graph.values["history"].width if "history" in graph.inputs else 0

    @property
    def precision(self) -> Precision:
        """What every weight, cache and activation runs in, and why."""
        return self._lowered["prefill"].precision

    @property
    def logits_name(self) -> str:
        return self._lowered["prefill"].graph.outputs[0]

    def run(
        self,
        step: Step,
        inputs: Mapping[str, torch.Tensor],
        *,
        keep: tuple[str, ...] = (),
        watch: Watch | None = None,
    ) -> dict[str, torch.Tensor]:
        """One step of the program of its phase; of decode by a CUDA graph where there is one."""
        program = self.programs[step.phase]
        if step.phase == "decode" and self.graphs is not None and not keep and watch is None:
            found = self.graphs.run(step, inputs)
            if found is not None:
                return found
        step, inputs = self._placed(step, inputs)
        return program.run(step, inputs, keep=keep, watch=watch)

    def warm(self, step: Step, inputs: Mapping[str, torch.Tensor]) -> None:
        """Run one layer of each kind of the step's program, for what that compiles. The step is
        padding: slot 0 and page 0."""
        step, inputs = self._placed(step, inputs)
        self.programs[step.phase].warm(step, inputs)

    def _placed(
        self, step: Step, inputs: Mapping[str, torch.Tensor]
    ) -> tuple[Step, Mapping[str, torch.Tensor]]:
        if self.device.type == "cuda":
            step = widened(step, self._table_widths)
        inputs = {name: value.to(self.device) for name, value in inputs.items()}
        return placed(step, self.device), inputs

    def logits(self, ids: Sequence[int], *, chunks: Sequence[int] = ()) -> torch.Tensor:
        """[T, V] in fp32: logits after each of `ids`. `chunks`: prefill in pieces of these
        lengths, the rest in one."""
        return self._all_rows(ids, chunks, self.logits_name)

    def hidden(self, ids: Sequence[int], *, chunks: Sequence[int] = ()) -> torch.Tensor:
        """[T, H] in fp32: what the head reads, after the final norm."""
        taken = next(op for op in self.model.graphs["main"].ops if op.family == "take_rows")
        return self._all_rows(ids, chunks, taken.outputs[0][1])

    def score(self, ids: Sequence[int]) -> torch.Tensor:
        """[T - 1] log-probabilities of each id after those before it."""
        logits = self.logits(ids)[:-1].log_softmax(-1)
        return logits.gather(-1, torch.tensor(ids[1:])[:, None].to(logits.device))[:, 0]

    def stream(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> Iterator[Event]:
        """Tokens of all prompts as they come."""
        engine = self.engine()
        for prompt in prompts:
            engine.add(self.checked(prompt), sampling)
        yield from engine.serve()

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[Request]:
        """All prompts served to their end, in the prompts' order."""
        engine = self.engine()
        requests = [engine.add(self.checked(prompt), sampling) for prompt in prompts]
        for _ in engine.serve():
            pass
        return requests

    def checked(self, prompt: Sequence[int]) -> tuple[int, ...]:
        """The prompt as ids in range; Day0Error for an empty one or an id out of range."""
        if not prompt:
            raise Day0Error("the prompt is empty; one token or more is needed",
                            hint="day0 run MODEL --prompt TEXT")  # fmt: skip
        vocab = self.model.spec.vocab_size
        for token in prompt:
            if not 0 <= token < vocab:
                raise Day0Error(
                    f"token id {token} is not in the vocabulary (0 to {vocab - 1:,})",
                    hint="the tokenizer and the checkpoint must belong together",
                )
        return tuple(int(token) for token in prompt)

    def _all_rows(self, ids: Sequence[int], chunks: Sequence[int], value: str) -> torch.Tensor:
        prompt = self.checked(ids)
        program, size = self._apart(-(-len(prompt) // self.limits.page_size))
        found, done = [], 0
        for rows in (*chunks, len(prompt)):
            rows = min(rows, len(prompt) - done)
            if rows <= 0:
                break
            pages = list(range(1, -(-(done + rows) // size) + 1))
            step = make_step(
                "prefill",
                starts=[done],
                lengths=[rows],
                slots=[1],
                tables={span: [pages] for span in self.limits.num_pages},
                device=self.device,
                all_rows=True,
            )
            piece = list(prompt[done : done + rows])
            inputs = graph_inputs(piece, [list(prompt[:done])], self.history, self.device)
            found.append(program.run(step, inputs, keep=(value,))[value].float())
            done += rows
        return torch.cat(found)

    def _apart(self, pages: int) -> tuple[Program, int]:
        """A prefill program over caches of its own for one sequence, kept for the next one, and
        its page size: what the engine serves meanwhile is left alone."""
        if self._lone is None or self._lone[0] < pages:
            spans_of = dict.fromkeys(self.limits.num_pages, pages)
            storage = self._storage(replace(self.limits, num_pages=spans_of, num_slots=1))
            self._lone = pages, self._program("prefill", storage)
        return self._lone[1], self.limits.page_size

    def _storage(self, limits: Limits) -> Storage:
        caches = self._lowered["prefill"].caches
        dtypes = {name: _cache_dtype(self.recipe, cache) for name, cache in caches.items()}
        narrow, held = self.precision.caches, self._lowered["prefill"].held.caches
        return Storage(
            caches,
            page_size=limits.page_size,
            num_pages=limits.num_pages,
            num_slots=limits.num_slots,
            dtypes=dtypes,
            device=self.device,
            roundings=by_part({name: runs for name, runs in narrow.items() if name not in held}),
            codings={name: _coded(narrow[name]) for name in held},
        )

    def _captured(self, program: Program) -> Graphs | None:
        """CUDA graphs of decode steps, where the device and every operator allow them."""
        if self.device.type != "cuda" or refuses(program):
            return None
        return Graphs(program, table_widths=self._table_widths, device=self.device)

    def _programs(self, storage: Storage) -> dict[str, Program]:
        return {phase: self._program(phase, storage) for phase in self._lowered}

    def _program(self, phase: str, storage: Storage) -> Program:
        return Program(
            self._lowered[phase],
            weights=self._weights,
            storage=storage,
            dtype=self._dtype,
            device=self.device,
        )


def lowered_for(
    model: Model,
    recipe: Recipe,
    backend: str,
    *,
    device: str = "cpu",
    without: tuple[str, ...] = (),
    capability: tuple[int, int] | None = None,
) -> dict[str, Lowered]:
    """The lowered graphs by phase, without any weight; `without`: optional passes left out;
    `capability`: as for such a GPU, whatever the device is.
    NotSupported names decisive facts that are assumed, or the ops that nothing runs."""
    must_be_settled(model)
    from day0_kernels.index import REFERENCES

    references = {**REFERENCES, **added_references()}
    target = Target(
        backend=backend,
        recipe=recipe,
        references=references,
        without=without,
        capability=capability or _capability(device),
    )
    return lower(model, target)


def _capability(device: str) -> tuple[int, int] | None:
    return torch.cuda.get_device_capability(device) if device != "cpu" else None


def open_session(
    model: Model,
    recipe: Recipe,
    *,
    headers: Headers | None,
    folder: Path | None,
    backend: str = "reference",
    dummy_seed: int | None = None,
    sizes: Sizes | None = None,
    device: str = "cpu",
    without: tuple[str, ...] = (),
    lowered: Mapping[str, Lowered] | None = None,
) -> Session:
    """Lower, load and bind a model. `folder` holds the safetensors files that `headers` describe;
    with `dummy_seed` the weights are made up; `lowered`: what `lowered_for` gave. NotSupported as
    it."""
    if lowered is None:
        lowered = lowered_for(model, recipe, backend, device=device, without=without)
    place = torch.device(device)
    used = {name for low in lowered.values() for op in low.graph.ops for _, name in op.weights}
    files = None
    if dummy_seed is None:
        assert folder is not None, "weights come from files"
        assert headers is not None, "files are read by their headers"
        files = Files(folder, headers)
    low = lowered["prefill"]
    weights = load(
        (weight for name, weight in lowered["prefill"].weights.items() if name in used),
        files=files,
        dummy=None if dummy_seed is None else Dummy(dummy_seed, place),
        dtype_of=weight_dtype(recipe),
        device=place,
        rounding_of=_roundings(low.precision, made_up=files is None),
        coding_of=_codings(low),
        is_kept=lambda weight: low.precision.weights[weight.name].action == "keep",
    )
    if files is not None:
        files.close()
    return Session(
        model, recipe, weights=weights, lowered=lowered, sizes=sizes or Sizes(), device=place
    )


def weight_dtype(recipe: Recipe) -> Callable[[Weight], torch.dtype]:
    """The torch dtype a weight is held in: fp32 for the values of narrow formats, which the
    definitions multiply as they are."""
    plain = DTYPES[recipe.plain]

    def dtype(weight: Weight) -> torch.dtype:
        runs = recipe.weight(weight)
        return torch.float32 if formats.get(runs).quantised else DTYPES.get(runs, plain)

    return dtype


def _roundings(precision: Precision, *, made_up: bool) -> Callable[[Weight], Rounding | None]:
    """How a loaded weight is rounded: not at all where its stored codes are kept. Weights that
    are `made_up` have no codes."""

    def of(weight: Weight) -> Rounding | None:
        row = precision.weights[weight.name]
        kept = row.action == "keep" and not made_up
        return None if kept else rounding(row.runs)

    return of


def _codings(lowered: Lowered) -> Callable[[Weight], Coding | None]:
    """How a weight that is held as codes is written."""

    def of(weight: Weight) -> Coding | None:
        runs = lowered.precision.weights[weight.name].runs
        return coding(runs) if weight.name in lowered.held.weights else None

    return of


def _coded(runs: Mapping[str, str]) -> dict[str, Coding]:
    """Codings by part; plain parts are left out."""
    found = {part: coding(name) for part, name in runs.items()}
    return {part: one for part, one in found.items() if one is not None}


def up_to_16(count: int) -> int:
    """Triton tells multiples of 16 from other numbers."""
    return -(-count // 16) * 16


def _cache_dtype(recipe: Recipe, cache: CacheSpec) -> torch.dtype:
    return DTYPES.get(recipe.cache(cache), DTYPES[recipe.plain])


def limits_of(caches: Collection[CacheSpec], sizes: Sizes, device: str) -> Limits:
    """Pages and slots for these sizes on a device ("cpu", "cuda", "cuda:1")."""
    chunk = sizes.chunk or CHUNK.get(device.partition(":")[0], CHUNK["cpu"])
    sizes = replace(sizes, chunk=chunk)
    size = page_size(caches)
    num = {
        span: -(-sizes.tokens // size)
        + (sizes.sequences if not span else sizes.sequences * (2 + sizes.chunk // size))
        for span in spans(caches)
    }
    return Limits(page_size=size, num_pages=num, num_slots=sizes.sequences, chunk=sizes.chunk)
