"""Decode and verify steps as CUDA graphs, one for each batch size that is rounded up to.

A graph is captured on padding alone (page 0, slot 0), so capture writes nothing that a request
owns. Rows beyond the batch are padding in every replay.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from day0.passes.capturable import refusals
from day0.passes.warm_up import BUCKETS
from day0.runtime.program import Program
from day0.runtime.step import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One graph, the buffers it reads and those it writes."""

    graph: torch.cuda.CUDAGraph
    padding: "Padding"
    inputs: Mapping[str, torch.Tensor]
    outputs: Mapping[str, torch.Tensor]


class Graphs:
    """Captured steps of one program, by batch size; `capture_s`: seconds spent on each."""

    def __init__(
        self,
        program: Program,
        *,
        table_widths: Mapping[int, int],
        device: torch.device,
        rows: int = 1,
    ) -> None:
        """`table_widths`: pages of the longest sequence, by span; `rows` of every sequence."""
        self._program = program
        self._rows = rows
        self._device = device
        self._widths = table_widths
        self.captured: dict[int, Captured] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self.capture_s: dict[int, float] = {}

    def run(self, step: Step, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor] | None:
        """Outputs of the step; None for one that is larger than any graph's buffers."""
        size = next((size for size in BUCKETS if size >= step.num_sequences), None)
        wide = any(table.shape[1] > self._widths[span] for span, table in step.tables.items())
        if size is None or wide:
            return None
        one = self.capture(size, inputs)
        one.padding.fill(step)
        for name, buffer in one.inputs.items():
            buffer[: len(inputs[name])].copy_(inputs[name])
        one.graph.replay()
        return {name: value[: step.num_rows] for name, value in one.outputs.items()}

    def capture(self, size: int, inputs: Mapping[str, torch.Tensor]) -> Captured:
        """The graph of a batch size, captured now unless it is there; `inputs` of any batch say
        what the graph reads."""
        if size not in self.captured:
            began = time.perf_counter()
            self.captured[size] = self._capture(size, inputs)
            self.capture_s[size] = time.perf_counter() - began
        return self.captured[size]

    def _capture(self, size: int, inputs: Mapping[str, torch.Tensor]) -> Captured:
        padding = Padding(size, self._widths, self._device, rows=self._rows)
        buffers = {
            name: torch.zeros(
                # ids of tokens before a step come once a sequence, everything else once a row
                size if name == "history" else size * self._rows,
                *value.shape[1:],
                dtype=value.dtype,
                device=self._device,
            )
            for name, value in inputs.items()
        }
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # kernels are compiled and workspaces made before capture
            for _ in range(2):
                self._program.run(padding.step, buffers)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            outputs = self._program.run(padding.step, buffers)
        return Captured(graph=graph, padding=padding, inputs=buffers, outputs=outputs)


def refuses(program: Program) -> tuple[str, ...]:
    """Why decode steps of the program cannot be captured: families that ask the host."""
    return refusals((call.op.family, call.entry) for call in program.calls)


class Padding:
    """A decode step of `size` sequences in one buffer: all padding until `fill`. More `rows` of
    each make it a verify step."""

    def __init__(
        self, size: int, widths: Mapping[int, int], device: torch.device, *, rows: int = 1
    ) -> None:
        self._shapes = {"positions": (size * rows,), "start": (size,), "slot": (size,)}
        self._shapes |= {str(span): (size, width) for span, width in widths.items()}
        count = sum(math.prod(shape) for shape in self._shapes.values())
        self._buffer = torch.zeros(count, dtype=torch.int64, device=device)
        self._host = torch.zeros(count, dtype=torch.int64)
        self._parts = self._cut(self._host)
        own = self._cut(self._buffer)
        numbers = torch.arange(size * rows, dtype=torch.int64, device=device)
        self.step = Step(
            phase="decode" if rows == 1 else "verify",
            cu_seqlens=torch.arange(size + 1, dtype=torch.int64, device=device) * rows,
            positions=own["positions"],
            seq=numbers // rows,
            start=own["start"],
            length=torch.full_like(own["start"], rows),
            slot=own["slot"],
            last=numbers.clone(),
            tables={span: own[str(span)] for span in widths},
        )

    def fill(self, step: Step) -> None:
        """Put a step in; what is beyond it is padding again. One copy to the device."""
        self._host.zero_()
        for name in ("positions", "start", "slot"):
            value = getattr(step, name)
            self._parts[name][: len(value)] = value
        for span, table in step.tables.items():
            self._parts[str(span)][: len(table), : table.shape[1]] = table
        self._buffer.copy_(self._host)

    def _cut(self, buffer: torch.Tensor) -> dict[str, torch.Tensor]:
        parts = buffer.split([math.prod(shape) for shape in self._shapes.values()])
        return {
            name: part.view(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }
