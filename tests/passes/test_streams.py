"""Lanes: every dependency is in a lane's order or waited for, memory is reused only after its
readers, and what pays is decided by the rates."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from day0.catalog.entry import entry_called, model_of
from day0.ir.graph import Graph
from day0.ir.op import Op
from day0.ir.recipe import RECIPES
from day0.ir.schedule import Schedule
from day0.passes.dependencies import dependencies, waists
from day0.passes.duration import Duration
from day0.passes.lifetimes import order_of
from day0.passes.lower import Lowered, Target, lower
from day0.passes.streams import assign, critical, waits_of
from tests.schedules import any_order, chooser, graphs

seconds = st.floats(0.0, 1e-4)


def scheduled(graph: Graph, lane: list[int]) -> Graph:
    names = [op.id for op in graph.ops]
    waits = waits_of(dependencies(graph), lane)
    lanes = [[n for n, own in zip(names, lane, strict=True) if own == at] for at in range(3)]
    return replace(
        graph,
        schedule=Schedule(
            lanes=tuple(tuple(ops) for ops in lanes),
            waits=tuple(
                (name, tuple(names[other] for other in others))
                for name, others in zip(names, waits, strict=True)
                if others
            ),
        ),
    )


def depends(later: Op, earlier: Op) -> bool:
    """By definition: reads what it yields, or both use a cache and one of them writes it."""
    made = {value for _, value in earlier.outputs}
    if made & {value for _, value in later.inputs}:
        return True
    modes = {use.cache: use.mode for use in earlier.caches}
    return any(use.cache in modes and "w" in use.mode + modes[use.cache] for use in later.caches)


def run(graph: Graph, sequence: list[int], place: dict[str, int]) -> tuple[object, ...]:
    """Outputs and caches after the ops ran in `sequence` on buffers numbered by `place`."""
    memory: dict[int, object] = {}
    caches: dict[str, object] = dict.fromkeys("ABC", 0)
    for number in sequence:
        op = graph.ops[number]
        read = [memory[place[v]] if v in place else v for _, v in op.inputs]
        seen = [caches[use.cache] if "r" in use.mode else None for use in op.caches]
        found = hash((op.id, *read, *seen))
        for use in op.caches:
            if "w" in use.mode:
                caches[use.cache] = hash((found, use.slot))
        memory[place[op.outputs[0][1]]] = found
    return tuple(memory[place[name]] for name in graph.outputs), tuple(caches.items())


def places(graph: Graph) -> dict[str, int]:
    """Buffers as an allocator gives them that keeps what is freed by lane: the last one freed
    first."""
    order = order_of(graph)
    free: dict[int, list[int]] = {}
    place: dict[str, int] = {}
    count = 0
    for number, op in enumerate(graph.ops):
        for value in order.drops.get(number, ()):
            maker = next(n for n, o in enumerate(graph.ops) if o.outputs[0][1] == value)
            free.setdefault(order.lane[maker], []).append(place[value])
        mine = free.get(order.lane[number], [])
        place[op.outputs[0][1]] = mine.pop() if mine else count
        count = max(count, place[op.outputs[0][1]] + 1)
    return place


@given(graphs(), st.data())
def test_every_dependency_is_in_order_or_waited_for(graph: Graph, data: st.DataObject) -> None:
    lane = data.draw(st.lists(st.integers(0, 2), min_size=len(graph.ops), max_size=len(graph.ops)))
    order = order_of(scheduled(graph, lane))
    before: list[set[int]] = []
    for number, own in enumerate(order.lane):
        direct = {n for n in range(number) if order.lane[n] == own} | set(order.waits[number])
        before.append(direct.union(*(before[n] for n in direct)))
    for earlier, later in combinations(range(len(graph.ops)), 2):
        if depends(graph.ops[later], graph.ops[earlier]):
            assert earlier in before[later]
    for number, others in enumerate(order.waits):  # and none is waited for without need
        for other in others:
            rest = {n for n in range(number) if order.lane[n] == order.lane[number]}
            rest |= set(others) - {other}
            assert other not in rest.union(*(before[n] for n in rest))


@given(graphs(), st.data(), st.integers(0, 2**31))
def test_any_order_on_reused_memory_gives_the_same(
    graph: Graph, data: st.DataObject, seed: int
) -> None:
    lane = data.draw(st.lists(st.integers(0, 2), min_size=len(graph.ops), max_size=len(graph.ops)))
    whole = scheduled(graph, lane)
    alone = {op.outputs[0][1]: number for number, op in enumerate(graph.ops)}
    expected = run(graph, list(range(len(graph.ops))), alone)
    sequence = any_order(order_of(whole), chooser(seed))
    assert sorted(sequence) == list(range(len(graph.ops)))
    assert run(whole, sequence, places(whole)) == expected


@given(graphs())
def test_one_lane_keeps_no_more_than_is_read_again(graph: Graph) -> None:
    """Serially, a value is dropped right after its last use."""
    order = order_of(graph)
    dropped = {value: number for number, values in order.drops.items() for value in values}
    for number, op in enumerate(graph.ops[:-1]):
        for _, value in op.outputs:
            if value not in graph.outputs:
                last = max([number, *(n for n, o in enumerate(graph.ops)
                                      if value in dict(o.inputs).values())])  # fmt: skip
                assert dropped.get(value, len(graph.ops)) == last + 1


@given(graphs())
def test_waists_are_what_nothing_runs_beside(graph: Graph) -> None:
    before = dependencies(graph)
    ancestors: list[set[int]] = []
    for deps in before:
        ancestors.append(set(deps).union(*(ancestors[dep] for dep in deps)))
    count = range(len(before))
    alone = [
        n for n in count if all(m in ancestors[n] or n in ancestors[m] or m == n for m in count)
    ]
    assert list(waists(before)) == alone


@given(graphs(), st.data())
def test_the_prediction_lies_between_the_longest_chain_and_one_after_another(
    graph: Graph, data: st.DataObject
) -> None:
    before = dependencies(graph)
    times = [
        Duration(latency=data.draw(seconds), work=data.draw(seconds)) for _ in range(len(before))
    ]
    wait = data.draw(seconds)
    lane, predicted = assign(before, times, wait)
    serial = sum(time.total for time in times)
    assert max(critical(before, times), sum(time.work for time in times)) <= predicted * (1 + 1e-9)
    assert predicted <= serial * (1 + 1e-9)
    assert not any(lane) or predicted < serial


def chain(start: int, length: int) -> list[tuple[int, ...]]:
    return [(start,), *((start + n,) for n in range(1, length))]


@pytest.mark.parametrize(
    ("latency", "work", "wait", "pays"),
    [
        (3.0, 0.0, 1.0, True),  # launches overlap
        (3.0, 0.0, 50.0, False),  # waiting costs more than it saves
        (0.0, 3.0, 0.1, False),  # bytes do not overlap
        (1.0, 9.0, 0.0, True),  # what of it is latency does: 6 of 60
    ],
)
def test_a_second_lane_has_to_pay(latency: float, work: float, wait: float, pays: bool) -> None:
    """Two chains of three between one op and one that joins them."""
    before = ((), (0,), (1,), (2,), (0,), (4,), (5,), (3, 6))
    times = [Duration(latency=latency, work=work)] * len(before)
    lane, predicted = assign(before, times, wait)
    assert any(lane) == pays
    if not pays:
        assert predicted == pytest.approx(8 * (latency + work))
        return
    assert {lane[1], lane[2], lane[3]} != {lane[4], lane[5], lane[6]}
    assert len({lane[1], lane[2], lane[3]}) == len({lane[4], lane[5], lane[6]}) == 1
    alone = max(2 * wait + 3 * (latency + work), 6 * work)
    assert predicted == pytest.approx(2 * (latency + work) + alone)


REFERENCES = {"compress": "definition", "indexer": "definition"}


def lowered(name: str, phase: str, without: tuple[str, ...] = ()) -> Lowered:
    target = Target(
        backend="auto",
        recipe=RECIPES["bf16"],
        references=REFERENCES,
        capability=(9, 0),
        without=without,
        complete=False,
    )
    return lower(model_of(entry_called(name), {}), target)[phase]


def beside(low: Lowered, one: str, other: str) -> bool:
    """Whether the op ids end up in two lanes, neither after the other."""
    order = order_of(low.graph)
    number = {op.id: at for at, op in enumerate(low.graph.ops)}
    before: list[set[int]] = []
    for at, own in enumerate(order.lane):
        direct = {n for n in range(at) if order.lane[n] == own} | set(order.waits[at])
        before.append(direct.union(*(before[n] for n in direct)))
    a, b = sorted((number[one], number[other]))
    return a not in before[b]


def op_of(low: Lowered, layer: int, text: str) -> str:
    return next(op.id for op in low.graph.ops if op.layer == layer and text in op.id)


def test_shared_experts_run_beside_routed_ones() -> None:
    low = lowered("moonshotai--kimi-linear-48b-a3b-instruct", "decode")
    for layer in (1, 13, 26):
        assert beside(low, op_of(low, layer, "ffn.shared.down"), f"layers.{layer}.ffn.experts")
    schedule = low.graph.schedule
    assert schedule is not None
    assert schedule.critical_s <= schedule.scheduled_s < 0.95 * schedule.serial_s
    assert low.changed["streams"] == schedule.lanes[1]


def test_the_query_runs_beside_the_latents_norm() -> None:
    """Of an indexed layer: the latent's norm and write beside query and index, without a name."""
    low = lowered("zai-org--glm-5.3-flash", "decode")
    layer = next(op.layer for op in low.graph.ops if op.family == "sparse_mla")
    assert beside(low, op_of(low, layer, "mixer.kv_a_norm"), op_of(low, layer, "mixer.q_b_proj"))


def test_without_it_there_is_no_schedule() -> None:
    low = lowered("moonshotai--kimi-linear-48b-a3b-instruct", "decode", ("streams",))
    assert low.graph.schedule is None
    assert "streams" not in low.changed


def test_a_prompt_that_fills_the_device_stays_in_one_lane() -> None:
    schedule = lowered("moonshotai--kimi-k3", "prefill").graph.schedule
    assert schedule is not None
    assert len(schedule.lanes) == 1
    assert not schedule.waits
