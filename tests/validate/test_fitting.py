"""What does not fit is said before any weight is read, with what would."""

import pytest

from day0.errors import DoesNotFit
from day0.ir.recipe import RECIPES
from day0.runtime.limits import Sizes
from day0.runtime.memory import needs, weights_by_layer
from day0.runtime.opening import open_model
from day0.runtime.session import lowered_for
from day0.validate import fitting


def test_bytes_are_those_of_the_session() -> None:
    """Predicted without weights, counted on a loaded model."""
    opened = open_model("demo", quant="bf16", backend="reference", layers=4)
    sizes = Sizes(tokens=200, sequences=2, chunk=64)
    session, _ = opened.session(sizes)
    lowered = lowered_for(opened.model, opened.recipe, "reference")
    predicted = weights_by_layer(lowered.values(), opened.recipe)
    names = {name for low in lowered.values() for op in low.graph.ops for _, name in op.weights}
    held = [session.weight(name) for name in names]
    assert sum(predicted.values()) == sum(w.nbytes for w in held if w is not None)
    caches = sum(p.nbytes for parts in session.storage.parts.values() for p in parts.values())
    assert needs(lowered["prefill"], opened.recipe, "cpu").caches(sizes) == caches


def test_layers_within() -> None:
    weights = {-1: 10, 0: 5, 1: 7, 2: 3}
    assert [fitting.layers_within(weights, room) for room in (9, 14, 15, 22, 25, 99)] == [
        0, 0, 1, 2, 3, 3
    ]  # fmt: skip


@pytest.mark.parametrize(("room", "words"), [(6 << 20, "--layers"), (11 << 20, "--grid")])
def test_too_large_says_what_fits(room: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's weights take about 9 MiB in bf16; the caches asked for another 60."""
    monkeypatch.setattr(fitting, "free_bytes", lambda device: room)
    opened = open_model("demo", quant="bf16", backend="reference")
    with pytest.raises(DoesNotFit, match="do not fit") as caught:
        fitting.must_fit(opened, Sizes(tokens=100_000, sequences=1))
    assert words in caught.value.hint
    assert caught.value.exit_code == 3


def test_as_many_layers_are_checked_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_model("demo", quant="bf16", backend="reference")
    lowered = lowered_for(opened.model, RECIPES["fp32"], "reference")
    weights = weights_by_layer(lowered.values(), RECIPES["fp32"])
    need = weights[-1] + weights[0] + weights[1]
    for room, layers in ((need, 2), (need - 1, 1), (sum(weights.values()), None)):
        whole = -(-room // 1) / fitting.CHECKED
        monkeypatch.setattr(fitting, "free_bytes", lambda device, whole=whole: whole + 1)
        assert fitting.layers_to_check(opened) == layers
    monkeypatch.setattr(fitting, "free_bytes", lambda device: 1000)
    with pytest.raises(DoesNotFit, match="not even one layer") as caught:
        fitting.layers_to_check(opened)
    assert "--only speed" in caught.value.hint
