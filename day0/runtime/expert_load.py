"""How often every expert is chosen while requests are served."""

from collections.abc import Mapping
from typing import Any

import torch

from day0.parallel.mesh import Mesh, shares
from day0.runtime.binder import Call, Frame


class ExpertLoad:
    """Counts, by layer and expert. It watches a program's calls, so that CUDA graphs stand aside:
    a statistic for a run that is not timed."""

    def __init__(self) -> None:
        self._counts: dict[int, torch.Tensor] = {}

    def watch(self, call: Call, frame: Frame) -> None:
        """Counts what a router chose; sees every call."""
        if call.op.family != "moe_route":
            return
        chosen = frame.values[call.op.outputs[0][1]].flatten().long()
        logits = frame.values[call.op.inputs[0][1]]
        found = torch.bincount(chosen, minlength=logits.shape[-1]).cpu()
        before = self._counts.get(call.op.layer)
        self._counts[call.op.layer] = found if before is None else before + found

    def rows(self, mesh: Mesh) -> list[Mapping[str, Any]]:
        """Per layer: `chosen` by expert, `by_rank` of experts, and the busiest over the mean of
        both: 1 is even."""
        found = []
        for layer, counts in sorted(self._counts.items()):
            chosen = counts.tolist()
            by_rank = [sum(chosen[low:high]) for low, high in shares(len(chosen), mesh.ep)]
            found.append({
                "layer": layer,
                "chosen": chosen,
                "by_rank": by_rank,
                "busiest_expert": _busiest(chosen),
                "busiest_rank": _busiest(by_rank),
            })  # fmt: skip
        return found


def _busiest(counts: list[int]) -> float:
    return max(counts) * len(counts) / max(sum(counts), 1)
