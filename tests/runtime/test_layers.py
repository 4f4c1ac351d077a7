"""--layers N: what is kept computes what it did in the whole model."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import day0
from day0.errors import Day0Error
from day0.mechanisms.spec import Part
from day0.models.cut import cut
from day0.passes.lower import OPTIONAL
from day0.runtime.api import Loaded

IDS = [3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26]


def load(layers: int | None = None, name: str = "demo") -> Loaded:
    """With every row of every value."""
    return day0.load(
        name, quant="fp32", device="cpu", layers=layers, max_context=64, without=tuple(OPTIONAL)
    )


@pytest.fixture(scope="module")
def whole() -> Loaded:
    return load()


def last_value(loaded: Loaded, layer: int) -> str:
    """The output of the layer's last op."""
    ops = [op for op in loaded.opened.model.graphs["main"].ops if op.layer == layer]
    return ops[-1].outputs[0][1]


@pytest.mark.parametrize("layers", [1, 4, 5])
def test_kept_layers_compute_the_same(whole: Loaded, layers: int) -> None:
    part = load(layers)
    model = part.opened.model
    assert {op.layer for op in model.graphs["main"].ops} == {-1, *range(layers)}
    assert len(model.spec.layers) == layers
    assert set(model.graphs) == {"main"}
    assert any(f"{layers} layers are run" in note for note in part.opened.notes)
    value = last_value(part, layers - 1)
    found = [loaded.session._all_rows(IDS, (), value) for loaded in (whole, part)]
    assert torch.equal(*found)
    assert part.generate(IDS, max_new_tokens=3, ignore_eos=True)[0].ids


def test_caches_of_left_out_layers_are_gone(whole: Loaded) -> None:
    def layers(loaded: Loaded) -> set[int]:
        return {cache.layer for cache in loaded.opened.model.caches.values()}

    assert layers(load(4)) == set(range(4)) < layers(whole)


def test_an_owner_behind_the_cut_is_kept(whole: Loaded) -> None:
    spec = whole.opened.model.spec
    reader = Part(stem="any", spec=SimpleNamespace(kv_of=3, topk_of=-1))
    first = spec.layers[0]
    sublayers = (replace(first.sublayers[0], branches=(reader,)), *first.sublayers[1:])
    changed = replace(spec, layers=(replace(first, sublayers=sublayers), *spec.layers[1:]))
    assert len(cut(changed, 1).layers) == 4
    assert len(cut(spec, 1).layers) == 1


@pytest.mark.parametrize("layers", [0, -1, 9])
def test_layers_that_are_not_there(layers: int) -> None:
    with pytest.raises(Day0Error, match=f"--layers is {layers}; it must be 1 to 8"):
        load(layers)


@pytest.mark.hf
@pytest.mark.parametrize("kind", ["glm5_next", "bailing_hybrid", "glm_moe_dsa"])
def test_owners_and_decays_of_real_types(tiny, kind: str) -> None:
    folder = str(tiny(kind).folder)
    full = load(name=folder)
    depth = len(full.opened.model.spec.layers)
    part = load(depth - 1, folder)
    value = last_value(part, depth - 2)
    vocab = full.opened.model.spec.vocab_size
    ids = [token % vocab for token in IDS]
    found = [loaded.session._all_rows(ids, (), value) for loaded in (full, part)]
    assert torch.equal(*found)
