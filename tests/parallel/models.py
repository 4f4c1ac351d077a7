"""One model on one rank or on several: its logits, and the tokens it goes on with."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from day0.parallel.collectives import Ranks
from day0.passes.shard import Place
from day0.runtime.opening import open_model
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session, Sizes, lowered_for, open_session

Prompts = Sequence[Sequence[int]]
NEW = 4
PAGES = Sizes(tokens=2048, sequences=4, chunk=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """`logits` of every prompt in one piece, of the longest in several, `ids` that each goes on
    with, greedily, all prompts served together; `read` bytes of weights."""

    logits: tuple[torch.Tensor, ...]
    chunked: torch.Tensor
    ids: tuple[tuple[int, ...], ...]
    read: int


def session_of(
    name: str, ranks: Ranks | None, *, exchange: bool = False, chunks: int = 1
) -> Session:
    """The model in fp32 on the CPU; on `ranks` its share."""
    opened = open_model(name, quant="fp32", device="cpu")
    place = Place()
    if ranks is not None:
        place = Place(mesh=ranks.mesh, rank=ranks.rank, exchange=exchange, chunks=chunks)
    return open_session(
        opened.model,
        opened.recipe,
        headers=opened.headers,
        folder=opened.folder,
        lowered=lowered_for(opened.model, opened.recipe, "auto", place=place),
        sizes=PAGES,
        ranks=ranks,
    )


def said(session: Session, prompts: Prompts) -> Said:
    """What a session says to prompts."""
    longest = max(prompts, key=len)
    ends = session.generate(prompts, Sampling(max_new_tokens=NEW))
    return Said(
        logits=tuple(session.logits(prompt) for prompt in prompts),
        chunked=session.logits(longest, chunks=(3, 1, len(longest) // 2)),
        ids=tuple(tuple(request.tokens[-NEW:]) for request in ends),
        read=0,
    )


def prompts_for(vocab: int, seed: int) -> Prompts:
    """Uneven lengths, one of a single token."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(0, vocab, (length,), generator=generator).tolist() for length in (37, 1, 18)
    ]
