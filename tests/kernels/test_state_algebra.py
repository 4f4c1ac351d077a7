"""Recurrent layers under a context split, in double precision: maps (A, B) of segments, chained in
their order, give every segment the state that one rank has there."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from day0.registry import zigzag
from day0_kernels.gdn import reference as gdn
from day0_kernels.kda import reference as kda
from day0_kernels.kda.segment import entering_state
from day0_kernels.lightning import reference as lightning

HEADS, DK, DV = 2, 8, 12
Arguments = dict[str, Any]
BOUND = 1e-10


def draw(seed: int, *shape: int, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64) * scale


def of_kda(tokens: int, seed: int) -> tuple[Arguments, Arguments]:
    """Rows by name, and what all rows share."""
    rows = {
        "q": draw(seed, tokens, HEADS * DK), "k": draw(seed + 1, tokens, HEADS * DK),
        "v": draw(seed + 2, tokens, HEADS * DV), "gate": draw(seed + 3, tokens, HEADS * DK),
        "beta": draw(seed + 4, tokens, HEADS),
    }  # fmt: skip
    shared = {
        "a_log": draw(seed + 5, HEADS), "dt_bias": draw(seed + 6, HEADS * DK),
        "num_heads": HEADS, "head_dim": DK, "value_dim": DV, "decay": "softplus",
    }  # fmt: skip
    return rows, shared


def of_gdn(tokens: int, seed: int) -> tuple[Arguments, Arguments]:
    rows = {
        "q": draw(seed, tokens, DK), "k": draw(seed + 1, tokens, DK),
        "v": draw(seed + 2, tokens, HEADS * DV), "decay": draw(seed + 3, tokens, HEADS),
        "beta": draw(seed + 4, tokens, HEADS),
    }  # fmt: skip
    shared = {
        "a_log": draw(seed + 5, HEADS), "dt_bias": draw(seed + 6, HEADS), "num_key_heads": 1,
        "num_heads": HEADS, "head_dim": DK, "value_dim": DV, "beta_scale": 2.0,
    }  # fmt: skip
    return rows, shared


def of_lightning(tokens: int, seed: int) -> tuple[Arguments, Arguments]:
    rows = {name: draw(seed + n, tokens, HEADS * DK) for n, name in enumerate("qkv")}
    return rows, {"num_heads": HEADS, "head_dim": DK, "slope_scale": 0.3}


FAMILIES: dict[str, tuple[Callable[..., None], Callable[..., None], str, Any, int]] = {
    "kda": (kda.kda_prefill, kda.kda_segment, "o", of_kda, DV),
    "gdn": (gdn.gdn, gdn.gdn_segment, "y", of_gdn, DV),
    "lightning": (lightning.lightning, lightning.lightning_segment, "y", of_lightning, DK),
}


class Sequence:
    """One sequence of a family: run from a state, or as the map that its tokens are."""

    def __init__(self, name: str, tokens: int, seed: int, *, slow: float = 0.0) -> None:
        """`slow` is taken off the logarithm of the decay rates."""
        self._prefill, self._segment, self._out, make, self.value_dim = FAMILIES[name]
        self._rows, self._shared = make(tokens, seed)
        if "a_log" in self._shared:
            self._shared["a_log"] = self._shared["a_log"] - slow

    def run(self, first: int, last: int, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(outputs, state behind) of tokens [first, last) from `state` [n, dk, dv]."""
        out = state.new_full((last - first, HEADS * self.value_dim), torch.nan)
        held = state.clone().unsqueeze(0)
        self._prefill(
            **self._cut(first, last), **self._shared, state=held, **{self._out: out},
            slot=torch.tensor([0]), start=torch.tensor([1]),
        )  # fmt: skip
        return out, held[0]

    def map(self, first: int, last: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(A, B) of tokens [first, last)."""
        a = torch.full((1, HEADS, DK, DK), torch.nan, dtype=torch.float64)
        b = torch.full((1, HEADS, DK, self.value_dim), torch.nan, dtype=torch.float64)
        rows = self._cut(first, last)
        del rows["q"]
        self._segment(**rows, **self._shared, transition_a=a, transition_b=b)
        return a, b

    def _cut(self, first: int, last: int) -> Arguments:
        rows = {name: value[first:last] for name, value in self._rows.items()}
        return {**rows, "cu_seqlens": torch.tensor([0, last - first])}


def split_run(
    sequence: Sequence,
    spans: list[tuple[int, int]],
    state: torch.Tensor,
    change: Callable[[torch.Tensor], torch.Tensor] = lambda a: a,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Every segment as if on a rank of its own: its map, all maps gathered, the state before it,
    its outputs. `change`: what a rank makes of A."""
    maps = [sequence.map(*span) for span in spans]
    a, b = torch.stack([change(a) for a, _ in maps]), torch.stack([b for _, b in maps])
    outputs, behind = [], state
    for number, span in enumerate(spans):
        out, behind = sequence.run(*span, entering_state(a, b, state.unsqueeze(0), number)[0])
        outputs.append(out)
    return torch.cat(outputs), behind


def far(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("trial", range(3))
def test_any_split_is_the_sequence(name: str, trial: int, seed: int) -> None:
    """Segments of any lengths, empty ones too, and an initial state."""
    draws = random.Random(seed)
    tokens = draws.randrange(1, 90)
    sequence = Sequence(name, tokens, seed % 2**30)
    state = draw(seed % 2**30 + 9, HEADS, DK, sequence.value_dim)
    cuts = sorted(draws.randrange(tokens + 1) for _ in range(draws.randrange(1, 7)))
    spans = list(zip([0, *cuts], [*cuts, tokens], strict=True))
    whole, behind = sequence.run(0, tokens, state)
    out, last = split_run(sequence, spans, state)
    assert far(out, whole) < BOUND
    assert far(last, behind) < BOUND


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_layouts_of_ranks(name: str, layout: str, ranks: int, seed: int) -> None:
    """Zigzag ranks hold two segments each, handed on in the order of the tokens."""
    tokens = random.Random(seed).randrange(4, 80)
    sequence = Sequence(name, tokens, seed % 2**30)
    state = draw(seed % 2**30 + 9, HEADS, DK, sequence.value_dim)
    held = [span for rank in zigzag.spans(layout, tokens, ranks) for span in rank]
    spans = sorted((first, end) for first, end, _ in held)
    whole, behind = sequence.run(0, tokens, state)
    out, last = split_run(sequence, spans, state)
    assert len(spans) == (ranks if layout == "contiguous" else 2 * ranks)
    assert far(out, whole) < BOUND
    assert far(last, behind) < BOUND


@pytest.mark.parametrize("name", ["kda", "gdn"])
def test_a_diagonal_transition_is_not_enough(name: str, seed: int) -> None:
    """The delta rule's map has more than its decay: a rank that keeps A's diagonal alone is wrong
    by far (and lightning's, which is diagonal, is not)."""

    def diagonal(a: torch.Tensor) -> torch.Tensor:
        return torch.diag_embed(a.diagonal(dim1=-2, dim2=-1))

    found = {}
    for family in (name, "lightning"):
        # a state that decays at once forgets the fault
        sequence = Sequence(family, 24, seed % 2**30, slow=6.0)
        state = draw(seed % 2**30 + 9, HEADS, DK, sequence.value_dim)
        whole, _ = sequence.run(0, 24, state)
        out, _ = split_run(sequence, [(0, 4), (4, 8), (8, 24)], state, diagonal)
        found[family] = far(out, whole)
    assert found[name] > 1e-4
    assert found["lightning"] < BOUND
