"""Binding: parameters by name, and a refusal for everything that would be silently lost."""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from day0.ir.cache import CacheSpec
from day0.ir.graph import Graph
from day0.ir.op import CacheUse, Op
from day0.ir.rows import LAST, TOKENS
from day0.ir.tensor import TensorSpec
from day0.runtime.binder import BindError, Frame, bind, take_rows
from day0.runtime.step import make_step
from day0.runtime.storage import Storage

CPU = torch.device("cpu")
ENTRIES = "day0_entries_of_a_test"
PLAIN = TensorSpec(dims=("T", 3))
GRAPH = Graph(
    rows=(TOKENS, LAST),
    inputs=("a", "b"),
    outputs=("y",),
    values={
        "a": PLAIN,
        "b": PLAIN,
        "y": PLAIN,
        "count": TensorSpec(dims=("T",), format="int32"),
        "last": TensorSpec(dims=("R", 3)),
    },
    ops=(),
)
PART = (("entry", TensorSpec(dims=(2,))),)
CACHES = {
    "paged": CacheSpec(name="paged", growth="per-token", parts=PART),
    "other": CacheSpec(name="other", growth="per-token", parts=PART),
    "state": CacheSpec(name="state", growth="per-sequence", parts=PART),
}
STEP = make_step(
    "prefill", starts=[2, 0], lengths=[2, 3], slots=[2, 1], tables={0: [[3], [1]]}, device=CPU
)


def storage() -> Storage:
    return Storage(
        CACHES, page_size=16, num_pages={0: 4}, num_slots=2, device=CPU,
        dtypes=dict.fromkeys(CACHES, torch.float32),
    )  # fmt: skip


def op(family: str = "linear", **fields: Any) -> Op:
    usual: dict[str, Any] = {
        "inputs": (("x", "a"),),
        "outputs": (("y", "y"),),
        "weights": (("weight", "w"),),
    }
    return Op(id="one", family=family, layer=0, **(usual | fields))


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., None]], str]:
    """Makes a function an entry."""

    def give(function: Callable[..., None]) -> str:
        module = ModuleType(ENTRIES)
        module.chosen = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, ENTRIES, module)
        return f"{ENTRIES}:chosen"

    return give


def bound(made: Op, entry: str, store: Storage | None = None):
    return bind(
        made, entry, graph=GRAPH, weights={"w": torch.eye(3) * 2, "b": torch.ones(3)},
        storage=store or storage(), dtype=torch.float32, device=CPU,
    )  # fmt: skip


def frame() -> Frame:
    return Frame(STEP, {"a": torch.arange(15.0).view(5, 3), "b": torch.ones(5, 3)}, {})


def test_names_find_values_weights_and_a_fresh_output(entry) -> None:
    def double(x, weight, y):
        y.copy_(x @ weight)

    call, now = bound(op(), entry(double)), frame()
    call.run(now)
    assert torch.equal(now.values["y"], now.values["a"] * 2)
    assert now.values["y"].dtype == torch.float32


def test_fields_of_the_step_and_attributes(entry) -> None:
    seen: dict[str, Any] = {}

    def look(x, weight, y, cu_seqlens, positions, seq, start, length, slot, last, *, groups):
        seen.update(locals())

    bound(op(attrs=(("groups", 7),)), entry(look)).run(frame())
    assert seen["cu_seqlens"].tolist() == [0, 2, 5]
    assert seen["positions"].tolist() == [2, 3, 0, 1, 2]
    assert seen["seq"].tolist() == [0, 0, 1, 1, 1]
    assert (seen["start"].tolist(), seen["length"].tolist()) == ([2, 0], [2, 3])
    assert (seen["slot"].tolist(), seen["last"].tolist()) == ([2, 1], [1, 4])
    assert seen["groups"] == 7


def test_numbered_slots_make_a_list(entry) -> None:
    def total(x, y):
        y.copy_(sum(x))

    made = op("concat", inputs=(("x0", "a"), ("x1", "b")), weights=())
    now = frame()
    bound(made, entry(total)).run(now)
    assert torch.equal(now.values["y"], now.values["a"] + 1)


def test_outputs_have_their_rows_and_dtype(entry) -> None:
    shapes: list[tuple[tuple[int, ...], torch.dtype]] = []

    def look(x, weight, y):
        shapes.append((tuple(y.shape), y.dtype))

    for value in ("y", "count", "last"):
        bound(op(outputs=(("y", value),)), entry(look)).run(frame())
    assert shapes == [((5, 3), torch.float32), ((5,), torch.int32), ((2, 3), torch.float32)]


def test_an_optional_parameter_may_be_missing(entry) -> None:
    def with_bias(x, weight, y, bias=None):
        y.copy_(x if bias is None else x + bias)

    without, given = frame(), frame()
    bound(op(), entry(with_bias)).run(without)
    bound(op(weights=(("weight", "w"), ("bias", "b"))), entry(with_bias)).run(given)
    assert torch.equal(given.values["y"], without.values["y"] + 1)


def test_a_paged_cache_comes_as_history_and_is_written_back(entry) -> None:
    store = storage()
    store.parts["paged"]["entry"][3, 0] = 5.0  # position 0 of the first sequence
    seen: dict[str, Any] = {}

    def write(x, weight, y, entry, cu_history, history_first):
        seen.update(cu=cu_history.tolist(), first=history_first.tolist(), old=entry.clone())
        entry[4:] = 9.0

    uses = (CacheUse(slot="kv", cache="paged", mode="rw"),)
    bound(op(caches=uses), entry(write), store).run(frame())
    assert (seen["cu"], seen["first"]) == ([0, 4, 7], [0, 0])
    assert seen["old"][0].tolist() == [5.0, 5.0]
    assert store.parts["paged"]["entry"][3, 0].tolist() == [5.0, 5.0]
    assert store.parts["paged"]["entry"][1, :3].eq(9).all()
    assert not store.parts["paged"]["entry"][0].any()


def test_what_is_only_read_is_not_written_back(entry) -> None:
    store = storage()

    def scribble(x, weight, y, entry):
        entry.fill_(9.0)

    uses = (CacheUse(slot="kv", cache="paged", mode="r"),)
    bound(op(caches=uses), entry(scribble), store).run(frame())
    assert not store.parts["paged"]["entry"].any()


def test_two_paged_caches_have_long_names(entry) -> None:
    names: set[str] = set()

    def look(x, weight, y, kv_entry, index_entry, kv_cu_history, index_history_first):
        names.update(locals())

    uses = (
        CacheUse(slot="kv", cache="paged", mode="r"),
        CacheUse(slot="index", cache="other", mode="r"),
    )
    bound(op(caches=uses), entry(look)).run(frame())
    assert {"kv_entry", "index_entry"} <= names

    def ambiguous(x, weight, y, entry):
        raise AssertionError

    with pytest.raises(BindError, match="asks for 'entry'"):
        bound(op(caches=uses), entry(ambiguous))


def test_slots_come_whole(entry) -> None:
    store = storage()

    def fill(x, weight, y, entry, slot):
        entry[slot] = 4.0

    uses = (CacheUse(slot="state", cache="state", mode="rw"),)
    bound(op(caches=uses), entry(fill), store).run(frame())
    assert store.parts["state"]["entry"][:, 0].tolist() == [0.0, 4.0, 4.0]


def test_an_unknown_parameter_is_refused(entry) -> None:
    def asks(x, weight, y, temperature):
        raise AssertionError

    with pytest.raises(BindError, match="one: .* asks for 'temperature'; the linear op has "):
        bound(op(), entry(asks))


def test_an_attribute_that_nobody_reads_is_refused(entry) -> None:
    """Unless it stands at its default."""

    def plain(x, weight, y):
        y.copy_(x)

    bound(op(attrs=(("groups", 1),)), entry(plain))
    with pytest.raises(BindError, match="does not take groups=3"):
        bound(op(attrs=(("groups", 3),)), entry(plain))


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"weights": (("weight", "w"), ("bias", "b"))}, "bias"),
        ({"inputs": (("x", "a"), ("gate", "b"))}, "gate"),
        ({"outputs": (("y", "y"), ("count", "count"))}, "count"),
    ],
    ids=["weight", "input", "output"],
)
def test_a_slot_that_nobody_reads_is_refused(fields: dict[str, Any], lost: str, entry) -> None:
    def plain(x, weight, y):
        raise AssertionError

    with pytest.raises(BindError, match=f"does not take the op's '{lost}'"):
        bound(op(**fields), entry(plain))


def test_rows_that_yield_logits() -> None:
    made = op("take_rows", outputs=(("y", "last"),), weights=())
    now = frame()
    take_rows(made, storage()).run(now)
    assert torch.equal(now.values["last"], now.values["a"][[1, 4]])
