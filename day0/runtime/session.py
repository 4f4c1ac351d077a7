"""A loaded model: logits, hidden rows, scores, and generation. `day0.load` gives one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from day0.checkpoint.headers import Headers
from day0.errors import Day0Error
from day0.ir.graph import Model
from day0.ir.recipe import Recipe
from day0.models.read import must_be_settled
from day0.parallel.collectives import Ranks
from day0.passes.lower import PHASES, Lowered, Target, lower
from day0.passes.quantize import Precision
from day0.passes.shard import Place
from day0.registry.index import added_references
from day0.runtime.capture import Graphs, refuses
from day0.runtime.emulate import by_part
from day0.runtime.engine import Engine, Event
from day0.runtime.forms import coded
from day0.runtime.limits import Sizes, cache_dtype, limits_of, up_to_16
from day0.runtime.loader import DTYPES
from day0.runtime.loading import loaded
from day0.runtime.pools import Limits
from day0.runtime.prefix import PrefixCache
from day0.runtime.program import Program, Watch
from day0.runtime.replay import for_replay
from day0.runtime.request import Request
from day0.runtime.sampling import Sampling
from day0.runtime.sharing import Places
from day0.runtime.speculation import Speculation
from day0.runtime.step import Step, graph_inputs, make_step, placed, widened
from day0.runtime.storage import Storage


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
        limits: Limits | None = None,
        ranks: Ranks | None = None,
        read_bytes: int = 0,
    ) -> None:
        """`limits`: those of the caches, where page tables are shared with another session;
        `ranks`: of the mesh it is a place of; `read_bytes` of the checkpoint's files."""
        self.ranks = ranks
        self.watch: Watch | None = None  # sees every call that an engine makes
        self.read_bytes = read_bytes
        self.model = model
        self.recipe = recipe
        self.sizes = sizes
        self.device = device
        self._dtype = DTYPES[recipe.plain]
        self._weights = weights
        self._lowered = lowered
        self.limits = limits or limits_of(lowered["prefill"].caches.values(), sizes, device.type)
        # what drafts for an engine, made anew for each
        self.speculation: Callable[[], Speculation] | None = None
        # the session that computes them, over the same pages and slots
        self.follower: Session | None = None
        self._kept: Engine | None = None
        longest = (sizes.longest or sizes.tokens) + self.limits.drafts
        longest = -(-longest // self.limits.page_size)
        # of every step on a GPU, captured or not: kernels are specialised on widths and strides
        self._table_widths = {
            span: up_to_16(min(longest, count)) for span, count in self.limits.num_pages.items()
        }
        self.storage = self._storage(self.limits)
        self.programs = self._programs(self.storage)
        self.graphs = self._captured("decode")
        self.verify_graphs = self._captured("verify")
        self._lone: tuple[int, Program] | None = None

    @property
    def lowered(self) -> Mapping[str, Lowered]:
        """The lowered graphs by phase, with the implementation chosen for every op."""
        return self._lowered

    def engine(self) -> Engine:
        """An engine over this session's caches: a fresh one, or with a cache of prefixes always
        the same, whose pages hold them."""
        if self._kept is None or not self.sizes.prefix_bytes:
            self._kept = self._engine()
        return self._kept

    def _engine(self) -> Engine:
        speculation = None if self.speculation is None else self.speculation()

        def run(step: Step, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
            found = self.run(step, inputs, watch=self.watch)
            if speculation is not None:
                speculation.saw(found)
            return found[self.logits_name]

        # steps are made on the CPU: `run` places them, or puts them into a graph's buffers
        follower = () if self.follower is None else (self.follower,)
        places = Places(tuple(one.storage for one in (self, *follower)))
        prefix = None
        if self.sizes.prefix_bytes:
            caches = [spec for one in places.storages for spec in one.caches.values()]
            prefix = partial(
                PrefixCache, places, caches, page_size=self.limits.page_size,
                budget=self.sizes.prefix_bytes, interval=self.sizes.interval,
            )  # fmt: skip
        return Engine(
            run, self.limits, torch.device("cpu"), history=self.history, speculation=speculation,
            places=places, prefix=prefix, commit=self.commit if self.limits.replay else None,
        )  # fmt: skip

    def commit(self, step: Step, accepted: Sequence[int]) -> None:
        """Where limits say replay: of the verify step that ran last, the first `accepted` rows of
        each sequence stay."""
        self.programs["verify"].commit(step, accepted)

    @property
    def weights(self) -> Mapping[str, torch.Tensor]:
        """All weights by name, as they are held."""
        return self._weights

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
        """One step of the program of its phase; of decode and verify by a CUDA graph where there
        is one."""
        program = self.programs[step.phase]
        graphs = {"decode": self.graphs, "verify": self.verify_graphs}.get(step.phase)
        if graphs is not None and not keep and watch is None:
            found = graphs.run(step, inputs)
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
            limits = replace(self.limits, num_pages=spans_of, num_slots=1, drafts=0)
            storage = self._storage(limits)
            self._lone = pages, self._program("prefill", storage)
        return self._lone[1], self.limits.page_size

    def _storage(self, limits: Limits) -> Storage:
        caches = self._lowered["prefill"].caches
        dtypes = {name: cache_dtype(self.recipe, cache) for name, cache in caches.items()}
        narrow, held = self.precision.caches, self._lowered["prefill"].held.caches
        return Storage(
            caches,
            page_size=limits.page_size,
            num_pages=limits.num_pages,
            num_slots=limits.num_slots,
            versions=limits.versions,
            dtypes=dtypes,
            device=self.device,
            roundings=by_part({name: runs for name, runs in narrow.items() if name not in held}),
            codings={name: coded(narrow[name]) for name in held},
        )

    def _captured(self, phase: str) -> Graphs | None:
        """CUDA graphs of decode or verify steps, where the device and every operator allow them."""
        program = self.programs.get(phase)
        if program is None or self.device.type != "cuda" or refuses(program):
            return None
        if phase == "verify" and self.limits.replay:  # what is recorded would be the graph's own
            return None
        rows = self.limits.rows if phase == "verify" else 1
        return Graphs(program, table_widths=self._table_widths, device=self.device, rows=rows)

    def _programs(self, storage: Storage) -> dict[str, Program]:
        return {phase: self._program(phase, storage) for phase in self._lowered}

    def _program(self, phase: str, storage: Storage) -> Program:
        lowered, replay = self._lowered[phase], phase == "verify" and self.limits.replay
        return Program(
            for_replay(lowered, self._lowered["prefill"]) if replay else lowered,
            weights=self._weights,
            storage=storage,
            dtype=self._dtype,
            device=self.device,
            replay=replay,
            ranks=self.ranks,
        )


def lowered_for(
    model: Model,
    recipe: Recipe,
    backend: str,
    *,
    device: str = "cpu",
    without: tuple[str, ...] = (),
    capability: tuple[int, int] | None = None,
    graph: str = "main",
    phases: tuple[str, ...] = PHASES,
    taps: bool = False,
    place: Place | None = None,
) -> dict[str, Lowered]:
    """The lowered graphs by phase, without any weight; `without`: optional passes left out;
    `capability`: as for such a GPU, whatever the device is; `graph`, `phases`, `taps` as
    `passes.lower` has them; `place`: the rank of a mesh they are for. DoesNotFit where the mesh is
    an illegal split.
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
        place=place or Place(),
    )
    return lower(model, target, graph, phases=phases, taps=taps)


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
    limits: Limits | None = None,
    ranks: Ranks | None = None,
) -> Session:
    """Lower, load and bind a model. `folder` holds the safetensors files that `headers` describe;
    with `dummy_seed` the weights are made up; `lowered`: what `lowered_for` gave; `limits`, `ranks`
    as a Session has them. NotSupported as `lowered_for`."""
    if lowered is None:
        lowered = lowered_for(model, recipe, backend, device=device, without=without)
    place = torch.device(device)
    weights, read_bytes = loaded(
        lowered, recipe, headers=headers, folder=folder, dummy_seed=dummy_seed, device=place
    )
    return Session(
        model,
        recipe,
        weights=weights,
        lowered=lowered,
        sizes=sizes or Sizes(),
        device=place,
        limits=limits,
        ranks=ranks,
        read_bytes=read_bytes,
    )
