"""A lowered Graph bound to weights and storage: runs a Step."""

from collections.abc import Callable, Mapping

import torch

from day0.ir.op import Op
from day0.passes.lower import Lowered
from day0.runtime.binder import Call, Frame, bind, cache_write, take_rows
from day0.runtime.step import Step
from day0.runtime.storage import Storage

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
    ) -> None:
        self.graph = lowered.graph

        def bound(op: Op) -> Call:
            if op.family in BUILT_IN:
                return BUILT_IN[op.family](op, storage)
            choice = lowered.choices[op.id]
            # a definition reads wide rows and history; kernels quantise rows themselves
            defined = choice.backend == "reference"
            return bind(
                op,
                choice.entry,
                graph=lowered.graph,
                weights=weights,
                storage=storage,
                dtype=dtype,
                device=device,
                activations=lowered.precision.activations.get(op.id, ()) if defined else (),
                history=None if defined else dtype,
            )

        self.calls = tuple(bound(op) for op in lowered.graph.ops)
        self._last_use = _last_uses(self.graph.outputs, self.calls)

    @torch.no_grad()
    def run(
        self,
        step: Step,
        inputs: Mapping[str, torch.Tensor],
        *,
        keep: tuple[str, ...] = (),
        watch: Watch | None = None,
    ) -> dict[str, torch.Tensor]:
        """Outputs of the graph, and the values named in `keep`. Values are dropped after their
        last use; `watch` sees every call and the frame just after it ran."""
        frame = Frame(step, dict(inputs), {})
        wanted = {*self.graph.outputs, *keep}
        for number, call in enumerate(self.calls):
            call.run(frame)
            if watch is not None:
                watch(call, frame)
            for value in self._last_use.get(number, ()):
                if value not in wanted:
                    frame.values.pop(value, None)
        return {value: frame.values[value] for value in wanted}


def _last_uses(outputs: tuple[str, ...], calls: tuple[Call, ...]) -> dict[int, list[str]]:
    last: dict[str, int] = {}
    for number, call in enumerate(calls):
        for _, value in (*call.op.inputs, *call.op.outputs):
            last[value] = number
    table: dict[int, list[str]] = {}
    for value, number in last.items():
        if value not in outputs:
            table.setdefault(number, []).append(value)
    return table
