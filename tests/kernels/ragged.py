"""Ragged steps for tests of definitions: a batch played whole, in chunks, one by one, padded."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

CHUNKS = (1, 3, 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Rows starts[i] ... starts[i] + lengths[i] of the sequences `ids`, `pad` poisoned ones."""

    ids: tuple[int, ...]
    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    pad: int = 0

    @property
    def count(self) -> int:
        return sum(self.lengths)

    @property
    def cu_seqlens(self) -> torch.Tensor:
        return torch.tensor([0, *self.lengths]).cumsum(0)

    @property
    def start(self) -> torch.Tensor:
        return torch.tensor(self.starts)

    @property
    def slot(self) -> torch.Tensor:
        return torch.tensor(self.ids) + 1

    @property
    def positions(self) -> torch.Tensor:
        parts = [torch.arange(s, s + n) for s, n in zip(self.starts, self.lengths, strict=True)]
        return torch.cat([*parts, torch.zeros(self.pad, dtype=torch.int64)])

    def rows(self, full: list[torch.Tensor]) -> torch.Tensor:
        """This step's rows of per-sequence tensors; poison in the padding."""
        cuts = zip(self.ids, self.starts, self.lengths, strict=True)
        parts = [full[i][s : s + n] for i, s, n in cuts]
        return torch.cat([*parts, poison(self.pad, *full[0].shape[1:], like=full[0])])

    def empty(self, *dims: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """An output buffer, poisoned."""
        return poison(self.count + self.pad, *dims, like=torch.empty(0, dtype=dtype))

    def history(
        self, full: list[torch.Tensor], window: int = 0, every: int = 1
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(entries, cu_history, history_first) readable after this step, as engines give them."""
        parts, firsts = [], []
        for i, start, length in zip(self.ids, self.starts, self.lengths, strict=True):
            first = max(0, start - window + 1) if window else 0
            parts.append(full[i][first : (start + length) // every])
            firsts.append(first)
        borders = torch.tensor([0, *(part.shape[0] for part in parts)]).cumsum(0)
        return torch.cat(parts), borders, torch.tensor(firsts)


Op = Callable[[Step], torch.Tensor]


def poison(*dims: int, like: torch.Tensor) -> torch.Tensor:
    """NaN, or a number no selection has."""
    return torch.full(dims, float("nan") if like.is_floating_point() else -77, dtype=like.dtype)


def played(
    op: Op, totals: list[int], chunk: int | None = None, *, ids: tuple[int, ...] = (), pad: int = 0
) -> list[torch.Tensor]:
    """Outputs per sequence, `chunk` rows of each a step (None: all at once)."""
    ids = ids or tuple(range(len(totals)))
    done = dict.fromkeys(ids, 0)
    outputs: dict[int, list[torch.Tensor]] = {i: [] for i in ids}
    while any(done[i] < totals[i] for i in ids):
        lengths = tuple(min(chunk or totals[i], totals[i] - done[i]) for i in ids)
        step = Step(ids=ids, starts=tuple(done[i] for i in ids), lengths=lengths, pad=pad)
        out = op(step)
        left = poison(pad, *out.shape[1:], like=out)
        assert torch.equal(out[step.count :].isnan(), left.isnan())
        at = 0
        for i, length in zip(ids, lengths, strict=True):
            outputs[i].append(out[at : at + length])
            at += length
            done[i] += length
    return [torch.cat(outputs[i]) for i in ids]


def check_plays(make: Callable[[], Op], totals: list[int], tolerance: float) -> list[torch.Tensor]:
    """Whole = in chunks = padded = each sequence alone; the outputs of the whole."""
    whole = played(make(), totals)
    others = [(f"chunks of {chunk}", played(make(), totals, chunk)) for chunk in CHUNKS]
    others.append(("padded", played(make(), totals, 3, pad=2)))
    alone = [played(make(), totals, ids=(i,))[0] for i in range(len(totals))]
    for name, outputs in (*others, ("alone", alone)):
        for i, (a, b) in enumerate(zip(outputs, whole, strict=True)):
            assert difference(a, b) <= tolerance, f"{name}, sequence {i}: {difference(a, b):.2e}"
    return whole


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """max |a - b| / max |b|; infinite where shapes or NaN differ."""
    if a.shape != b.shape or bool(a.isnan().any()) or bool(b.isnan().any()):
        return float("inf")
    if not b.numel():
        return 0.0
    a, b = a.detach(), b.detach()
    scale = float(b.double().abs().max()) or 1.0
    return float((a.double() - b.double()).abs().max()) / scale


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float = 2e-5) -> None:
    """AssertionError with the number where a and b differ by more."""
    assert difference(a, b) <= tolerance, f"{difference(a, b):.2e} > {tolerance:.0e}"


def drawn(seed: int) -> Callable[..., torch.Tensor]:
    """randn of the given dims from one seeded generator."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*dims: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*dims, generator=generator, dtype=torch.float64).to(dtype)

    return draw
