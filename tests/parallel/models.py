"""One model on one rank or on several: its logits, and the tokens it goes on with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from day0.parallel.collectives import Ranks
from day0.passes.shard import Place
from day0.registry.cost import stored_bytes
from day0.runtime.opening import open_model
from day0.runtime.sampling import Sampling
from day0.runtime.session import Session, Sizes, lowered_for, open_session

Prompts = Sequence[Sequence[int]]
NEW = 3
PAGES = Sizes(tokens=2048, sequences=4, chunk=64)
TOLERANCE = 1e-4  # of the largest logit, fp32

# Sizes that two and four ranks can share: those that are drawn need not be.
LATENT = {"num_attention_heads": 12, "num_key_value_heads": 12, "intermediate_size": 64,
          "moe_intermediate_size": 56}  # fmt: skip
TINY: Mapping[str, Mapping[str, Any]] = {
    "kimi_linear": {**LATENT, "linear_num_heads": 8},
    "glm5_next": {**LATENT, "linear_num_heads": 8},
    "deepseek_v32": LATENT,
    # two key/value heads: on four ranks each is on two of them
    "qwen3_next": {
        "num_attention_heads": 8, "num_key_value_heads": 2, "linear_num_key_heads": 4,
        "linear_num_value_heads": 8, "intermediate_size": 64, "moe_intermediate_size": 36,
        "shared_expert_intermediate_size": 24,
    },
    "minimax": {"num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 64},
    "minimax_m3": {
        "num_attention_heads": 8, "num_key_value_heads": 4, "index_n_heads": 4,
        "intermediate_size": 64, "dense_intermediate_size": 64, "shared_intermediate_size": 64,
    },
    "bailing_hybrid": {
        "num_attention_heads": 8, "num_key_value_heads": 8, "intermediate_size": 64,
        "moe_intermediate_size": 56,
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """`logits` of every prompt in one piece, of the longest in several (`chunked`), `ids` that each
    goes on with, greedily, all prompts served together."""

    logits: tuple[torch.Tensor, ...]
    chunked: torch.Tensor
    ids: tuple[tuple[int, ...], ...]


def session_of(name: str, ranks: Ranks | None, **how: Any) -> Session:
    """The model in fp32 on the CPU; on `ranks` its share, `how` as Place has it."""
    opened = open_model(name, quant="fp32", device="cpu")
    place = Place()
    if ranks is not None:
        place = replace(Place(mesh=ranks.mesh, rank=ranks.rank, wide=True), **how)
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
    )


def on_ranks(ranks: Ranks, cases: Sequence[tuple[str, Mapping[str, Any]]], seed: int) -> list[Said]:
    """What this rank says of every (model, how)."""
    found = []
    for name, how in cases:
        session = session_of(name, ranks, **how)
        found.append(said(session, prompts_for(session, seed)))
    return found


def prompts_for(session: Session, seed: int) -> Prompts:
    """Uneven lengths, one of a single token."""
    generator = torch.Generator().manual_seed(seed)
    vocab = session.model.spec.vocab_size
    return [
        torch.randint(0, vocab, (length,), generator=generator).tolist() for length in (21, 1, 10)
    ]


def own_bytes(session: Session) -> int:
    """Stored bytes of the elements that a session holds, each weight once."""
    low = session.lowered["prefill"]
    names = {name for op in low.graph.ops for _, name in op.weights}
    return sum(
        stored_bytes(low.weights[name].spec.format, low.weights[name].spec.dims) for name in names
    )


def apart(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """max |a - b| / max |b|."""
    return float((ours - theirs).abs().max() / theirs.abs().max())
