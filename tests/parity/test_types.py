"""Every type of the mission against transformers: tensors, parameters, layer kinds, cache bytes;
plain, and with a model_type nobody has seen."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from day0.analysis.analyze import Analysis, analyze
from day0.analysis.caches import trunk
from day0.analysis.layers import layer_view
from day0.ir.weight import leaves
from tests import tiny as tinies

pytestmark = pytest.mark.hf

TOKENS = 40  # beyond every top-k, window and pool of the tiny checkpoints
Tiny = Callable[..., tinies.TinyCheckpoint]


def kinds(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    views = [layer_view(i, layer, "") for i, layer in enumerate(analysis.spec.layers)]
    return tuple((view["mixer"], view["ffn"]) for view in views)


def held(analysis: Analysis) -> list[dict[str, int]]:
    """Per layer, elements after TOKENS tokens by kind of cache: as transformers groups them, conv
    tails apart from recurrent state."""
    layers: list[dict[str, int]] = [defaultdict(int) for _ in analysis.spec.layers]
    for cache in trunk(analysis.model):
        if cache.role == "conv" or (cache.slotted and cache.growth == "window"):
            kind = "tail"
        elif cache.growth == "window":
            kind = "window"
        else:
            kind = {"state": "recurrent"}.get(cache.role, cache.role)
        layers[cache.layer][kind] += cache.elements * cache.entries(TOKENS)
    return layers


@pytest.mark.parametrize("kind", tinies.ALL_TYPES)
def test_tensors_and_parameters(kind: str, tiny: Tiny) -> None:
    checkpoint = tiny(kind)
    analysis = analyze(str(checkpoint.folder))
    proof = analysis.proof
    assert proof.status == "proved", [(f.message, f.evidence) for f in proof.findings]
    assert proof.unexplained_bytes == 0
    assert proof.missing == proof.unexpected == proof.shape == proof.dtype == ()
    stored = checkpoint.num_params + checkpoint.num_buffer_elements
    assert analysis.params.total == stored
    assert analysis.params.opaque >= checkpoint.num_tower_params
    assert [item for item in analysis.findings if item.severity != "info"] == []
    assert analysis.unread_keys == ()


@pytest.mark.parametrize("kind", tinies.ALL_TYPES)
def test_layer_kinds(kind: str, tiny: Tiny) -> None:
    checkpoint = tiny(kind)
    assert kinds(analyze(str(checkpoint.folder))) == checkpoint.layer_kinds


@pytest.mark.parametrize("kind", tinies.TYPES)
def test_cache_bytes(kind: str, tiny: Tiny) -> None:
    """kv to the element; what transformers stores beyond need is asserted as its own figure."""
    checkpoint = tiny(kind)
    analysis = analyze(str(checkpoint.folder))
    ours = held(analysis)
    theirs = tinies.cache_bytes(checkpoint, TOKENS)
    for layer, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        sizes = {name: group.elements for name, group in other.items()}
        assert own["kv"] == sizes.get("kv", 0), layer
        check_index(analysis, layer, own, sizes.get("index", 0))
        check_window(analysis, layer, own, sizes.get("window", 0))
        check_state(layer, own, other.get("state"))


def check_index(analysis: Analysis, layer: int, own: dict[str, int], theirs: int) -> None:
    """Pooled index keys: transformers keeps every token's raw key, and for a softmax pool the gate
    and a flag beside it (architectures.md 2.1, 2.2)."""
    spec = analysis.spec.layers[layer].sublayers[0].branches[0].spec
    if getattr(spec, "ratio", 0):  # pooled there too
        assert own["index"] == theirs, layer
        return
    indexer = getattr(spec, "indexer", None)
    pool = getattr(indexer, "pool", 0) or 0
    if not pool or isinstance(pool, str):
        rate = getattr(indexer, "block", 1) if pool == "mean" else 1
        assert own["index"] == (theirs // TOKENS) * (TOKENS // rate), layer
        return
    di = indexer.head_dim
    assert theirs == TOKENS * (2 * di + 1), layer
    assert own["index"] == TOKENS // pool * di, layer


def check_window(analysis: Analysis, layer: int, own: dict[str, int], theirs: int) -> None:
    """A window of W: transformers keeps W - 1 tokens between steps."""
    for cache in trunk(analysis.model):
        windowed = cache.growth == "window" and not cache.slotted
        if cache.layer == layer and windowed and cache.role == "kv":
            assert own["window"] == cache.elements * cache.span
            assert theirs >= cache.elements * (cache.span - 1), layer
            return
    assert own["window"] == 0, layer


def check_state(layer: int, own: dict[str, int], theirs: Any) -> None:
    """Recurrent states to the element; conv states hold K columns there, K - 1 suffice."""
    recurrent = tails = 0
    for tensor in theirs.tensors if theirs is not None else ():
        if tensor.name.startswith(("recurrent", "linear_cache")):
            recurrent += tensor.elements
        elif tensor.name == "conv_states[0]":
            columns = tensor.shape[-1]
            tails += tensor.elements // columns * (columns - 1)
        elif tensor.name.startswith("conv_states[1]"):
            tails += tensor.elements
    assert own["recurrent"] == recurrent, layer
    if recurrent:
        assert own["tail"] >= tails, layer


def claimed_share(analysis: Analysis) -> float:
    """Share of the stored bytes outside embedding and head that ops of known families use."""
    used: dict[str, set[str]] = {"known": set(), "unknown": set()}
    for op in analysis.model.graphs["main"].ops:
        side = "unknown" if op.family == "unknown" else "known"
        for _, name in op.weights:
            if analysis.model.weights[name].role in ("embedding", "head"):
                continue
            for leaf, count in leaves(analysis.model.weights[name].source):
                used[side].update(leaf.name.format(e=i) for i in range(max(count, 1)))
    assert analysis.headers is not None
    tensors = analysis.headers.tensors
    opaque = {name for group in analysis.model.groups for name in group.tensors}
    ends = ("embed_tokens.weight", "lm_head.weight", "head.weight", "embed.weight", "output.weight",
            "tok_embeddings.weight", "word_embeddings.weight")  # fmt: skip
    body = {
        name: header.bytes
        for name, header in tensors.items()
        if name not in opaque and not name.endswith(ends)
    }
    return sum(body.get(name, 0) for name in used["known"]) / sum(body.values())


@pytest.mark.parametrize("kind", tinies.TYPES)
def test_renamed_to_an_unknown_type(kind: str, tiny: Tiny, tmp_path: Path) -> None:
    checkpoint = tiny(kind)
    renamed = tinies.rename(checkpoint, tmp_path / "renamed")
    analysis = analyze(str(renamed.folder))
    assert analysis.spec.model_type not in ("", checkpoint.type_name)
    assert claimed_share(analysis) >= 0.95
    assert analysis.proof.missing == ()
    assert analysis.proof.shape == ()
    mixers = [mixer for mixer, _ in kinds(analysis)]
    assert mixers == [mixer for mixer, _ in checkpoint.layer_kinds]
    decisive = {fact.path for fact in analysis.assumed if fact.decisive}
    told = {item for f in analysis.findings if f.code == "assumed_facts" for item in f.evidence}
    assert {item.split(" = ")[0] for item in told} == decisive
