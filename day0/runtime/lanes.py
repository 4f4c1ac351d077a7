"""The lanes of a program as CUDA streams: lane 0 is the caller's, the others leave it where a step
begins and come back where it ends.

That also makes a capture whole (every stream of a CUDA graph has to leave and rejoin the captured
one), and lets one run's memory serve the next: whoever uses an output does so in lane 0.
"""

from functools import cache

import torch

from day0.passes.lifetimes import Order
from day0.runtime.binder import Call, Frame


@cache
def side_streams(device: torch.device, count: int) -> tuple[torch.cuda.Stream, ...]:
    """Streams beside the caller's, one set for all programs: torch keeps freed memory by stream."""
    return tuple(torch.cuda.Stream(device) for _ in range(count))


class Lanes:
    """Runs the calls of one program in the lanes of its order, which are issued in program order
    by one thread."""

    def __init__(self, order: Order, device: torch.device) -> None:
        self._order = order
        self._device = device
        self._events = {number: torch.cuda.Event() for number in sorted(order.awaited)}
        self._streams: tuple[torch.cuda.Stream, ...] = ()

    def begin(self) -> None:
        """What was issued before comes before all lanes."""
        main = torch.cuda.current_stream(self._device)
        self._streams = (main, *side_streams(self._device, self._order.num_lanes - 1))
        for stream in self._streams[1:]:
            stream.wait_stream(main)

    def run(self, number: int, call: Call, frame: Frame) -> None:
        """Op `number`, after those it waits for."""
        stream = self._streams[self._order.lane[number]]
        for other in self._order.waits[number]:
            stream.wait_event(self._events[other])
        with torch.cuda.stream(stream):
            call.run(frame)
        if number in self._events:
            self._events[number].record(stream)

    def end(self) -> None:
        """All lanes come before what is issued next."""
        for stream in self._streams[1:]:
            self._streams[0].wait_stream(stream)
        self._streams = ()
