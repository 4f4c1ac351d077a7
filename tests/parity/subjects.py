"""A tiny checkpoint with what transformers says of some sequences, and day0's session over it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from day0.checkpoint.load import load
from day0.ir.recipe import RECIPES
from day0.models.read import read_model
from day0.runtime.session import Session, Sizes, open_session
from tests import tiny as tinies
from tests.tiny.checkpoint import decoder_of

# Prompts longer than every top-k, window and pool of the tiny checkpoints, in fp32.
PROMPT, DECODED = 45, 20
OTHERS = ((29, 9), (17, 14))  # (prompt, decoded) of the sequences served beside
TOLERANCE = 1e-4
ATTEMPTS = 3  # at a clear greedy continuation
REPAIRS = 20  # of a random prompt
SIZES = Sizes(tokens=512, sequences=4, chunk=128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """Ids of which the first `prompt` are the prompt and the rest are fed one by one; what the
    oracle says of them in fp32, and in fp64; rows from `clear` on hang on a choice that it does
    not make clearly."""

    ids: tuple[int, ...]
    prompt: int
    said: "Rows"
    exact: "Rows"
    clear: int

    @property
    def has_head(self) -> bool:
        return self.said.logits is not None

    def check(self, ours: torch.Tensor, kind: str, places: Iterable[int] | None = None) -> None:
        """`ours` at `places` (all positions) is the oracle's `kind`, "hidden" or "logits", within
        the tolerance. A row may be further off where rounding shows in the oracle itself (a delta
        rule with eigenvalues near -1 lets it grow): five times as far from its fp64."""
        chosen = [place for place in places or range(len(self.ids)) if place < self.clear]
        said, exact = getattr(self.said, kind)[chosen], getattr(self.exact, kind)[chosen]
        ours = ours[: len(chosen)]
        distance = apart(ours, said)
        if TOLERANCE < distance < float("inf"):
            rounding, error = by_row(said, exact), by_row(ours, exact)
            assert bool((error <= (5 * rounding).clamp(min=TOLERANCE)).all()), distance
        else:
            assert distance <= TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """`hidden` [T, H] after the final norm, `logits` [T, V] or None for a class without a head."""

    hidden: torch.Tensor
    logits: torch.Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One type: its checkpoint, the session, and sequences with the oracle's values."""

    kind: str
    checkpoint: tinies.TinyCheckpoint
    session: Session
    sequences: tuple[Sequence, ...]


def opened(folder: Path, stated: Mapping[str, Any] | None = None, sizes: Sizes = SIZES) -> Session:
    """day0's session over a folder, on the definitions, in fp32."""
    checkpoint = load(str(folder))
    model = read_model(checkpoint, stated).model
    return open_session(
        model, RECIPES["fp32"], headers=checkpoint.headers, folder=folder, sizes=sizes
    )


def subject_of(checkpoint: tinies.TinyCheckpoint, seed: int) -> Subject:
    oracle = tinies.model(checkpoint)
    return Subject(
        kind=checkpoint.type_name,
        checkpoint=checkpoint,
        session=opened(checkpoint.folder),
        sequences=(
            greedy(oracle, PROMPT, DECODED, seed),
            *(drawn(oracle, *lengths, seed + 7919 * n) for n, lengths in enumerate(OTHERS, 1)),
        ),
    )


def greedy(oracle: tinies.TinyModel, prompt: int, decoded: int, seed: int) -> Sequence:
    """A clear prompt and the oracle's own greedy continuation (random where it has no head), the
    clearest of a few attempts."""
    if oracle.module.get_output_embeddings() is None:
        return drawn(oracle, prompt, decoded, seed)
    best = None
    for attempt in range(ATTEMPTS):
        ids = clear_ids(oracle, prompt, seed + 104729 * attempt)
        ids = oracle.module.generate(
            ids[None], do_sample=False, min_new_tokens=decoded, max_new_tokens=decoded
        )[0]
        found = judged(oracle, ids, prompt)
        if best is None or found.clear > best.clear:
            best = found
        if best.clear == len(ids):
            break
    assert best is not None
    return best


def drawn(oracle: tinies.TinyModel, prompt: int, decoded: int, seed: int) -> Sequence:
    """Random ids."""
    return judged(oracle, clear_ids(oracle, prompt + decoded, seed), prompt)


def clear_ids(oracle: tinies.TinyModel, num_tokens: int, seed: int) -> torch.Tensor:
    """[num_tokens] random ids at which no top-k choice of the oracle is unclear, or few: where one
    is, the ids from there on are drawn again."""
    vocab = oracle.module.config.get_text_config(decoder=True).vocab_size
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(vocab, (num_tokens,), generator=generator)
    for attempt in range(REPAIRS):
        clear = oracle.num_clear_rows(ids)
        if clear == num_tokens:
            break
        begin = max(0, clear - attempt)  # a tie between old keys needs other old tokens
        rest = torch.randint(vocab, (num_tokens - begin,), generator=generator)
        ids = torch.cat((ids[:begin], rest))
    return ids


def judged(oracle: tinies.TinyModel, ids: torch.Tensor, prompt: int) -> Sequence:
    said = said_of(oracle, ids)
    oracle.module.double()
    exact = said_of(oracle, ids)
    oracle.module.float()
    return Sequence(
        ids=tuple(ids.tolist()),
        prompt=prompt,
        said=said,
        exact=exact,
        clear=oracle.num_clear_rows(ids),
    )


def said_of(oracle: tinies.TinyModel, ids: torch.Tensor) -> Rows:
    """Hidden rows and logits of one pass."""
    found: list[torch.Tensor] = []
    hook = decoder_of(oracle.module).register_forward_hook(
        lambda module, arguments, output: found.append(output.last_hidden_state[0].float())
    )
    has_head = oracle.module.get_output_embeddings() is not None
    logits = oracle.logits(ids) if has_head else None
    if not has_head:
        oracle.hidden(ids)
    hook.remove()
    return Rows(hidden=found[0], logits=logits)


def apart(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """max |a - b| / max |b|; infinite where shapes differ or a value is no number."""
    if ours.shape != theirs.shape or not bool(ours.isfinite().all()):
        return float("inf")
    return float((ours - theirs).abs().max() / theirs.abs().max())


def by_row(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    """[T] the largest |a - b| of each row, over the largest |b| of all."""
    return (ours - theirs).abs().amax(-1) / theirs.abs().max()
