"""Every current decoder-only type against transformers: tensors, parameters, layer kinds, cache
bytes; plain, and with a model_type nobody has seen."""

import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from day0.analysis.analyze import Analysis, analyze
from day0.analysis.caches import trunk
from day0.analysis.layers import layer_view
from day0.ir.weight import leaves
from day0.models.known.types import HEADERS_ONLY
from day0.models.read import guesses
from tests import tiny
from tests.tiny.checkpoint import renamed

from . import checkpoints
from .conftest import TOKENS, Made
from .exceptions import ELSEWHERE, EXCEPTIONS, RENAMED

pytestmark = pytest.mark.hf

READ = tuple(name for name in checkpoints.TYPES if name not in EXCEPTIONS | ELSEWHERE)
# Kinds and caches of the mission's types are tests/parity's.
OTHERS = tuple(name for name in READ if checkpoints.mission_type(name) is None)
NAMELESS = tuple(name for name in READ if name not in RENAMED)
Make = Callable[[str], Made]


def test_the_list_is_that_of_transformers() -> None:
    from tools.breadth_types import types

    assert tuple(types()) == checkpoints.TYPES


def test_figures() -> None:
    """The two figures of the promise, and that no mission family is left out."""
    assert len(READ) >= 120
    assert len(EXCEPTIONS) <= 15
    assert len(NAMELESS) >= 110
    assert set(EXCEPTIONS) <= set(checkpoints.TYPES)
    assert set(RENAMED) <= set(READ)
    assert not [name for name in EXCEPTIONS if checkpoints.mission_type(name)]
    assert not [name for name in EXCEPTIONS if name in tiny.TYPES]


def views(analysis: Analysis) -> list[dict[str, str]]:
    return [layer_view(i, layer, "") for i, layer in enumerate(analysis.spec.layers)]


@pytest.mark.parametrize("type_name", READ)
def test_tensors_and_parameters(type_name: str, made: Make) -> None:
    checkpoint = made(type_name)
    analysis = analyze(str(checkpoint.folder))
    proof = analysis.proof
    assert proof.status == "proved", [(f.message, f.evidence) for f in proof.findings]
    assert proof.unexplained_bytes == 0
    assert proof.missing == proof.unexpected == proof.shape == proof.dtype == ()
    assert analysis.params.total == checkpoint.elements
    assert [item for item in analysis.findings if item.severity != "info"] == []
    assert analysis.unread_keys == ()
    assert guesses(analysis.model) == ()


@pytest.mark.parametrize("type_name", OTHERS)
def test_layer_kinds(type_name: str, made: Make) -> None:
    """Which layers have experts and which keep a window, by the oracle's modules and caches."""
    checkpoint = made(type_name)
    found = views(analyze(str(checkpoint.folder)))
    assert len(found) == len(checkpoint.sparse)
    for index, (view, sparse) in enumerate(zip(found, checkpoint.sparse, strict=True)):
        assert ("moe" in view["ffn"]) == sparse, index
        assert "unknown" not in view["mixer"] + view["ffn"], index
    for index, cache in enumerate(checkpoint.caches):
        if cache["kv"] and index < len(found):
            mixer = found[index]["mixer"]
            assert ("sliding" in mixer) == bool(cache["sliding"]), (index, mixer, cache)


@pytest.mark.parametrize("type_name", OTHERS)
def test_cache_bytes(type_name: str, made: Make) -> None:
    """Keys and values to the element; of a window of W transformers keeps W - 1 between steps."""
    checkpoint = made(type_name)
    analysis = analyze(str(checkpoint.folder))
    ours: dict[int, int] = defaultdict(int)
    windows: dict[int, tuple[int, int]] = {}
    for cache in trunk(analysis.model):
        if cache.role != "kv" or cache.slotted:
            continue
        if cache.growth == "window":
            windows[cache.layer] = cache.elements, cache.span
        else:
            ours[cache.layer] += cache.elements * cache.entries(TOKENS)
    for index, cache in enumerate(checkpoint.caches):
        if not cache["sliding"]:
            assert ours[index] == cache["kv"], index
        elif cache["kv"]:
            elements, span = windows[index]
            assert span == cache["sliding"]
            assert cache["kv"] in (elements * (span - 1), elements * span, elements * TOKENS)


def claimed_share(analysis: Analysis) -> float:
    """Share of the stored bytes outside embeddings and head that ops of known families use."""
    used: dict[str, set[str]] = {"known": set(), "unknown": set(), "ends": set()}
    for op in analysis.model.graphs["main"].ops:
        side = "unknown" if op.family == "unknown" else "known"
        for _, name in op.weights:
            weight = analysis.model.weights[name]
            place = "ends" if weight.role in ("embedding", "head", "lookup") else side
            for leaf, count in leaves(weight.source):
                used[place].update(leaf.name.format(e=i) for i in range(max(count, 1)))
    assert analysis.headers is not None
    opaque = {name for group in analysis.model.groups for name in group.tensors}
    body = {
        name: header.bytes
        for name, header in analysis.headers.tensors.items()
        if name not in opaque and name not in used["ends"]
    }
    return sum(body.get(name, 0) for name in used["known"]) / sum(body.values())


@pytest.mark.parametrize("type_name", OTHERS)
def test_the_config_alone_gives_the_same_parameters(
    type_name: str, made: Make, tmp_path: Path
) -> None:
    """Or says that it does not know the layers. A class without a head stores none, and its config
    may promise one."""
    checkpoint = made(type_name)
    shutil.copy(checkpoint.folder / "config.json", tmp_path)
    alone, stored = analyze(str(tmp_path)), analyze(str(checkpoint.folder))
    if type_name in HEADERS_ONLY:
        assert {view["mixer"] for view in views(alone)} == {"unknown"}
        return
    head = alone.spec.vocab_size * alone.spec.shape.hidden_size
    extra = 0 if alone.spec.tied == stored.spec.tied else head
    assert alone.params.trunk == stored.params.trunk + extra
    assert alone.cache_totals.kv_bytes_per_token == stored.cache_totals.kv_bytes_per_token


@pytest.mark.parametrize("type_name", NAMELESS)
def test_renamed_to_an_unknown_type(type_name: str, made: Make, tmp_path: Path) -> None:
    checkpoint = made(type_name)
    folder = tmp_path / "renamed"
    shutil.copytree(checkpoint.folder, folder)
    path = folder / "config.json"
    path.write_text(json.dumps(renamed(json.loads(path.read_text()), "unheard_of")))
    analysis = analyze(str(folder))
    assert analysis.spec.model_type == "unheard_of"
    assert claimed_share(analysis) >= 0.95
    assert analysis.proof.missing == ()
    assert analysis.proof.shape == ()
    before = [view["mixer"] for view in views(analyze(str(checkpoint.folder)))]
    assert [view["mixer"] for view in views(analysis)] == before
    decisive = {fact.path for fact in analysis.assumed if fact.decisive}
    told = {item for f in analysis.findings if f.code == "assumed_facts" for item in f.evidence}
    assert {item.split(" = ")[0] for item in told} == decisive
