"""Pooled caches for tests of definitions: what the engine would keep of them between steps."""

import torch

from day0_kernels.compress.reference import compress
from tests.kernels.ragged import Step


class Pools:
    """One pooled cache and its tail over sequences of `totals` tokens; poison until written."""

    def __init__(self, totals, dim, *, size, overlap=False, dtype=torch.float32, **attrs):
        self.size = size
        self.attrs = {"size": size, "overlap": overlap, **attrs}
        columns, span = dim * (1 + overlap), size * (1 + overlap) - 1
        self.entries = [self._poison(t // size, dim, dtype=dtype) for t in totals]
        self.tails = [self._poison(len(totals) + 1, span, columns, dtype=dtype) for _ in range(2)]

    @staticmethod
    def _poison(*dims, dtype):
        return torch.full(dims, float("nan"), dtype=dtype)

    def history(self, step: Step):
        """(entries, cu_history, history_first) after this step."""
        return step.history(self.entries, every=self.size)

    def write(self, step: Step, x, gate=None, **weights):
        """Run `compress` on this step's rows of per-sequence x and gate, and keep what it wrote."""
        pooled, cu, first = self.history(step)
        compress(
            step.rows(x), self.tails[0], pooled, step.cu_seqlens, cu, first, step.slot, step.start,
            None if gate is None else step.rows(gate),
            tail_gate=None if gate is None else self.tails[1], **weights, **self.attrs,
        )  # fmt: skip
        for i, start, stop in zip(step.ids, cu[:-1].tolist(), cu[1:].tolist(), strict=True):
            self.entries[i][: stop - start] = pooled[start:stop]
