"""Pages and slots as tensors: what is written at a position is read back there, by each sequence
its own, whatever pages it has; numbers 0 stay untouched."""

import random

import pytest
import torch

from day0.ir.cache import CacheSpec
from day0.ir.tensor import TensorSpec
from day0.runtime.pools import first_kept
from day0.runtime.step import Step, make_step
from day0.runtime.storage import Storage

PAGE = 12
CPU = torch.device("cpu")


def spec(name: str, growth: str, **fields) -> CacheSpec:
    parts = (("a", TensorSpec(dims=(2,))), ("b", TensorSpec(dims=(1, 3))))
    return CacheSpec(name=name, growth=growth, parts=parts, **fields)


CACHES = {
    "full": spec("full", "per-token"),
    "window": spec("window", "window", span=7),
    "pools": spec("pools", "pooled", every=4),
    "tail": spec("tail", "window", span=3, slotted=True),
    "state": spec("state", "per-sequence"),
}


def storage() -> Storage:
    return Storage(
        CACHES,
        page_size=PAGE,
        num_pages={0: 9, 7: 9},
        num_slots=3,
        dtypes=dict.fromkeys(CACHES, torch.float32),
        device=CPU,
    )


def step(starts: list[int], lengths: list[int], tables: dict[int, list[list[int]]]) -> Step:
    slots = list(range(1, len(starts) + 1))
    return make_step(
        "prefill", starts=starts, lengths=lengths, slots=slots, tables=tables, device=CPU
    )


def test_shapes() -> None:
    """One page and one slot more than there are, for padding."""
    parts = {name: tuple(part["a"].shape) for name, part in storage().parts.items()}
    assert parts == {
        "full": (10, PAGE, 2),
        "window": (10, PAGE, 2),
        "pools": (10, PAGE // 4, 2),
        "tail": (4, 3, 2),
        "state": (4, 2),
    }


def test_a_part_keeps_its_own_dtype() -> None:
    """A format that torch holds in the part's spec wins; others are the cache's."""
    parts = (("a", TensorSpec(dims=(2,), format="fp32")), ("b", TensorSpec(dims=(2,))))
    one = CacheSpec(name="one", growth="per-sequence", parts=parts)
    made = Storage(
        {"one": one}, page_size=PAGE, num_pages={}, num_slots=1, device=CPU,
        dtypes={"one": torch.bfloat16, "fp32": torch.float32},
    )  # fmt: skip
    assert made.parts["one"]["a"].dtype == torch.float32
    assert made.parts["one"]["b"].dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["full", "window"])
def test_rows_come_back_in_order(name: str, seed: int) -> None:
    """Three sequences in random steps over scattered pages: every history is theirs."""
    print("seed", seed)
    rng, store, cache = random.Random(seed), storage(), CACHES[name]
    numbers = rng.sample(range(1, 10), 9)
    pages = [numbers[0:3], numbers[3:6], numbers[6:9]]
    done = [0, 0, 0]
    while max(done) < 2 * PAGE:
        rows = [rng.randint(0, 5) for _ in done]
        if not sum(rows):
            continue
        span = cache.span
        now = step(done, rows, {span: pages})
        values = torch.stack([now.seq * 1000.0 + now.positions, now.positions.float()], dim=-1)
        store.write_rows(cache, "a", now, values)
        history = store.history(cache, now, {})
        read = store.gather(cache, "a", history)
        for number, (start, more) in enumerate(zip(done, rows, strict=True)):
            first = first_kept(span, start)
            assert int(history.history_first[number]) == first
            begin, end = history.cu_history[number : number + 2].tolist()
            expected = [number * 1000.0 + place for place in range(first, start + more)]
            assert read[begin:end, 0].tolist() == expected
        done = [start + more for start, more in zip(done, rows, strict=True)]
    for part in store.parts[name].values():
        assert not part[0].any()


def test_pools_count_when_they_are_whole() -> None:
    """A pool of four tokens is readable from its last token on."""
    store, cache = storage(), CACHES["pools"]
    for start, rows, whole in ((0, 3, 0), (0, 4, 1), (3, 1, 1), (5, 6, 2), (20, 3, 5), (20, 4, 6)):
        history = store.history(cache, step([start], [rows], {0: [[4, 2]]}), {})
        assert history.cu_history.tolist() == [0, whole]
        size = PAGE // 4
        assert history.index.tolist() == [
            [4, 2][pool // size] * size + pool % size for pool in range(whole)
        ]


def test_scatter_writes_where_gather_read() -> None:
    store, cache = storage(), CACHES["full"]
    history = store.history(cache, step([13, 2], [2, 3], {0: [[5, 1], [7, 0]]}), {})
    value = torch.arange(float(history.index.numel())).view(-1, 1, 1).expand(-1, 1, 3)
    store.scatter(cache, "b", history, value)
    assert torch.equal(store.gather(cache, "b", history), value)
    flat = store.parts["full"]["b"]
    assert flat[1, 0, 0].tolist() == [12.0] * 3  # position 12 of the first: its second page
    assert flat[7, 4, 0].tolist() == [19.0] * 3
    assert int((flat.flatten(1) != 0).any(1).sum()) == 3
    assert not flat[0].any()


def test_rows_without_a_page_are_dropped() -> None:
    """Pages that a window gave back are 0 in the table; nothing is written to page 0."""
    store, cache = storage(), CACHES["window"]
    now = step([10], [4], {7: [[0, 3]]})
    store.write_rows(cache, "a", now, torch.ones(4, 2))
    part = store.parts["window"]["a"]
    assert part[3, :2].all()
    assert float(part.sum()) == 4.0


def test_histories_of_a_step_are_shared_by_equal_caches() -> None:
    store, memo = storage(), {}
    now = step([0], [5], {0: [[1]], 7: [[2]]})
    found = [store.history(CACHES[name], now, memo) for name in ("full", "window", "pools")]
    assert len(memo) == 3
    assert store.history(CACHES["full"], now, memo) is found[0]


def test_a_sequence_without_rows_is_legal() -> None:
    store = storage()
    now = step([0, 6], [4, 0], {0: [[1], [2]]})
    history = store.history(CACHES["full"], now, {})
    assert history.cu_history.tolist() == [0, 4, 10]
