"""Definition of the next token: greedy, or drawn after temperature, top-k and top-p cuts.

A draw is a function of the request's seed and the new token's position alone, on any device: the
uniform number is a hash (splitmix64), not a generator's state.
"""

import torch

GAMMA, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1


def sampling(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    seed: torch.Tensor,
    position: torch.Tensor,
    token: torch.Tensor,
) -> None:
    """Write token [R] int64 for logits [R, V]; the other inputs are [R], one per request.

    temperature 0: the largest logit (of equals the lowest id). Else softmax of logits /
    temperature over the top_k largest (0: all) and of those the fewest whose probabilities, in
    descending order, reach top_p (1: all); the id at which the running sum in order of ids passes
    the hash's number in [0, 1).
    """
    for row in range(logits.shape[0]):
        if float(temperature[row]) == 0:
            token[row] = logits[row].argmax()
            continue
        kept = probabilities(
            logits[row], float(temperature[row]), int(top_k[row]), float(top_p[row])
        )
        running = kept.cumsum(0)  # [V]
        mark = uniform(int(seed[row]), int(position[row])) * running[-1]
        # cut ids add nothing to the sum, so the first that passes the mark is a kept one
        token[row] = (running <= mark).sum().clamp(max=int(kept.nonzero()[-1]))


def probabilities(
    logits: torch.Tensor, temperature: float, top_k: int, top_p: float
) -> torch.Tensor:
    """[V] in fp64, zero where cut."""
    scaled = logits.double() / temperature
    order = scaled.argsort(descending=True, stable=True)
    if 0 < top_k < scaled.numel():
        scaled[order[top_k:]] = float("-inf")
    p = scaled.softmax(0)
    if top_p < 1:
        ranked = p[order]
        before = ranked.cumsum(0) - ranked
        dropped = before >= top_p
        dropped[0] = False
        p[order[dropped]] = 0.0
    return p / p.sum()


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) with 53 random bits."""
    mixed = _splitmix(_splitmix(seed & _MASK) ^ (position & _MASK))
    return (mixed >> 11) / (1 << 53)


def _splitmix(value: int) -> int:
    value = (value + GAMMA) & _MASK
    value = ((value ^ (value >> 30)) * FIRST) & _MASK
    value = ((value ^ (value >> 27)) * SECOND) & _MASK
    return value ^ (value >> 31)
