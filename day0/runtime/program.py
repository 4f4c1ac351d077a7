"""A lowered Graph bound to weights and storage: runs a Step."""

from collections.abc import Callable, Mapping, Sequence

import torch

from day0.ir.op import Op
from day0.ir.rows import LAST
from day0.parallel.collectives import Ranks
from day0.passes.lifetimes import order_of
from day0.passes.lower import Lowered
from day0.passes.warm_up import distinct
from day0.runtime.binder import FORMATS, Call, Frame, bind, cache_write, take_rows
from day0.runtime.exchange import EXCHANGES
from day0.runtime.lanes import Lanes
from day0.runtime.replay import Replay, accepted_rows, replayed
from day0.runtime.step import Step
from day0.runtime.storage import Storage
from day0.runtime.verify import by_version, keeps_versions, stepped

BUILT_IN = {"cache_write": cache_write, "take_rows": take_rows}
Watch = Callable[[Call, Frame], None]


class Program:
    """The calls of one lowered graph, in program order."""

    def __init__(
        self,
        lowered: Lowered,
        *,
        weights: Mapping[str, torch.Tensor],
        storage: Storage,
        dtype: torch.dtype,
        device: torch.device,
        replay: bool = False,
        ranks: Ranks | None = None,
    ) -> None:
        """`replay`: a verify step whose updates are done again where they stay; see `commit`."""
        self.graph = lowered.graph
        self._replays: list[Replay] = []

        def bound(op: Op) -> Call:
            if op.family in BUILT_IN:
                return BUILT_IN[op.family](op, storage)
            if op.family in EXCHANGES:
                assert ranks is not None, "a graph with collectives runs on the ranks of a mesh"
                spec = lowered.graph.values[op.outputs[0][1]]
                return EXCHANGES[op.family](op, ranks, FORMATS.get(spec.format, dtype))
            choice = lowered.choices[op.id]
            # a definition reads wide rows and history; kernels quantise rows themselves
            defined = choice.backend == "reference"
            verify = lowered.phase == "verify"
            versions = verify and not replay and keeps_versions(choice.entry)
            call = bind(
                op,
                choice.entry,
                graph=lowered.graph,
                weights=weights,
                storage=storage,
                dtype=dtype,
                device=device,
                activations=lowered.precision.activations.get(op.id, ()) if defined else (),
                history=None if defined else dtype,
                beside=by_version(op, storage) if versions else None,
            )
            if not verify or versions:
                return call
            if not replay:
                return stepped(call, storage)
            call, again = replayed(call, storage)
            self._replays += [again] if again else []
            return call

        self.calls = tuple(bound(op) for op in lowered.graph.ops)
        self._dtype, self._device = dtype, device
        self._distinct = distinct(lowered)
        self.order = order_of(self.graph)
        on_gpu = device.type == "cuda" and self.order.num_lanes > 1
        self._lanes = Lanes(self.order, device) if on_gpu else None

    @torch.no_grad()
    def warm(self, step: Step, inputs: Mapping[str, torch.Tensor]) -> None:
        """Run one layer of each kind, and what stands outside layers, in one lane. What they read
        of layers that are left out is zeros."""
        frame = Frame(step, dict(inputs), {})
        for number in self._distinct:
            call = self.calls[number]
            for _, value in call.op.inputs:
                if value not in frame.values:
                    frame.values[value] = self._zeros(value, step)
            call.run(frame)

    @torch.no_grad()
    def commit(self, step: Step, accepted: Sequence[int]) -> None:
        """Of the verify step that ran last, the first `accepted` rows of each sequence stay."""
        rows, borders = accepted_rows(step.cu_seqlens.to(self._device), accepted)
        for one in self._replays:
            one.commit(rows, borders)

    def _zeros(self, value: str, step: Step) -> torch.Tensor:
        spec = self.graph.values[value]
        rows = step.last.shape[0] if spec.dims[0] == LAST.name else step.num_rows
        inner = (dim for dim in spec.dims if isinstance(dim, int))
        dtype = FORMATS.get(spec.format, self._dtype)
        return torch.zeros(rows, *inner, dtype=dtype, device=self._device)

    @torch.no_grad()
    def run(
        self,
        step: Step,
        inputs: Mapping[str, torch.Tensor],
        *,
        keep: tuple[str, ...] = (),
        watch: Watch | None = None,
    ) -> dict[str, torch.Tensor]:
        """Outputs of the graph, and the values named in `keep`. Values are dropped once nobody
        reads them any more. On a GPU ops run in the lanes of the graph's schedule; with `watch`,
        which sees every call and the frame just after it ran, one after another."""
        values = dict(inputs)
        wanted = {*self.graph.outputs, *keep}
        lanes = self._lanes if watch is None else None
        if lanes is not None:
            lanes.begin()
        # what a lane gathers for itself is its own: another one would have to wait for it
        frames = [Frame(step, values, {}) for _ in range(self.order.num_lanes)]
        for number, call in enumerate(self.calls):
            for value in self.order.drops.get(number, ()):
                if value not in wanted:
                    values.pop(value, None)
            frame = frames[self.order.lane[number]]
            if lanes is None:
                call.run(frame)
            else:
                lanes.run(number, call, frame)
            if watch is not None:
                watch(call, frame)
        if lanes is not None:
            lanes.end()
        return {value: values[value] for value in wanted}
