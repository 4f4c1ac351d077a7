"""The next token of a row of logits: greedy, or sampled with temperature, top-k and top-p.

Draws depend on the request's seed and the token's position alone: neither batch, nor chunking,
nor preemption changes them.
"""

from dataclasses import dataclass

import torch

from day0.errors import Day0Error


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """`temperature` 0: greedy. `top_k` 0 and `top_p` 1: no cut. `stop_ids` end a sequence, `stop`
    strings too; before `min_new_tokens` no stop id is drawn."""

    max_new_tokens: int = 16
    min_new_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    stop_ids: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()

    def check(self) -> None:
        """Day0Error for values outside their range."""
        rules = (
            ("max_new_tokens", self.max_new_tokens, self.max_new_tokens >= 1, "1 or more"),
            ("min_new_tokens", self.min_new_tokens,
             0 <= self.min_new_tokens <= self.max_new_tokens, "0 to max_new_tokens"),
            ("temperature", self.temperature, 0 <= self.temperature < float("inf"), "0 or more"),
            ("top_k", self.top_k, self.top_k >= 0, "0 (no cut) or more"),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "above 0, at most 1"),
        )  # fmt: skip
        for name, value, fine, allowed in rules:
            if not fine:
                raise Day0Error(
                    f"{name} is {value}; it must be {allowed}",
                    hint="day0 run --help lists the options",
                )


def next_token(logits: torch.Tensor, sampling: Sampling, *, position: int, produced: int) -> int:
    """The id drawn from `logits` [V]; `position` is the new token's, `produced` how many came
    before it in this request."""
    logits = logits.float()
    if produced < sampling.min_new_tokens and sampling.stop_ids:
        logits = logits.clone()
        logits[list(sampling.stop_ids)] = float("-inf")
    if sampling.temperature == 0:
        return int(logits.argmax())
    logits = logits / sampling.temperature
    if sampling.top_k:
        kept = min(sampling.top_k, logits.numel())
        logits = logits.masked_fill(logits < logits.topk(kept).values[-1], float("-inf"))
    if sampling.top_p < 1:
        values, order = logits.sort(descending=True)
        before = values.softmax(-1).cumsum(-1) - values.softmax(-1)
        logits = logits.masked_fill(
            torch.zeros_like(logits, dtype=torch.bool).scatter(0, order, before > sampling.top_p),
            float("-inf"),
        )
    generator = torch.Generator().manual_seed(sampling.seed * 1_000_003 + position)
    return int(torch.multinomial(logits.softmax(-1).cpu(), 1, generator=generator))
