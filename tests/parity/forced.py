"""Sessions over the same rows, the second with the first one's choices (experts and their weights,
selected entries) forced in: what is left is arithmetic, not a choice that rounding tips."""

from collections.abc import Sequence

import torch

from day0.runtime.binder import Call, Frame
from day0.runtime.session import Session
from day0.runtime.step import Step, graph_inputs, make_step

CHOOSERS = ("moe_route", "indexer")


class Choices:
    """Outputs of choosing ops by step and value, recorded by one session and put into another."""

    def __init__(self) -> None:
        self.made: dict[tuple[int, str], torch.Tensor] = {}

    def logits(self, session: Session, ids: Sequence[int], prompt: int) -> torch.Tensor:
        """[T, V] in fp32: a prefill step of `prompt` rows, then decode steps of one row each. The
        first session to ask records, the next ones are forced."""
        forced = bool(self.made)
        rows = []
        for number, (phase, start, length) in enumerate(_steps(len(ids), prompt)):

            def watch(call: Call, frame: Frame, number: int = number) -> None:
                if call.op.family not in CHOOSERS:
                    return
                for _, value in call.op.outputs:
                    if forced:
                        frame.values[value].copy_(self.made[number, value])
                    else:
                        self.made[number, value] = frame.values[value].clone()

            step = _step(session, phase, start, length)
            inputs = graph_inputs(
                list(ids[start : start + length]), [list(ids[:start])], session.history,
                torch.device("cpu"),
            )  # fmt: skip
            rows.append(session.run(step, inputs, watch=watch)[session.logits_name].float())
        return torch.cat(rows)


def _steps(total: int, prompt: int) -> list[tuple[str, int, int]]:
    return [("prefill", 0, prompt), *(("decode", start, 1) for start in range(prompt, total))]


def _step(session: Session, phase: str, start: int, length: int) -> Step:
    limits = session.limits
    pages = list(range(1, -(-(start + length) // limits.page_size) + 1))
    return make_step(
        phase, starts=[start], lengths=[length], slots=[1],
        tables={span: [pages] for span in limits.num_pages}, device=torch.device("cpu"),
        all_rows=True,
    )  # fmt: skip


def apart(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[float, float]:
    """(relative error of all rows, part of the rows with the same best token)."""
    assert bool(ours.isfinite().all())
    error = float((ours - theirs).norm() / theirs.norm())
    return error, float((ours.argmax(-1) == theirs.argmax(-1)).float().mean())
