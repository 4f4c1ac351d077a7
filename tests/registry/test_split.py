"""Whether n ranks may share an op, what each then holds, and the collectives of a whole graph."""

from typing import Any

import pytest

from day0.analysis.analyze import analyze
from day0.analysis.kinds import Kinds, kinds_of
from day0.analysis.parallel.mesh import Law, legal_degrees
from day0.ir.op import CacheUse, Op
from day0.ir.tensor import TensorSpec
from day0.registry.family import Shapes
from day0.registry.index import family
from day0.registry.split import expert_way, local, split, taken
from day0.registry.ways import Way
from tests.field_cases.asking import analysis, small


def matrix(out: int, inner: int, format: str = "bf16") -> tuple[Op, Shapes]:
    op = Op(
        id="proj",
        family="linear",
        layer=0,
        inputs=(("x", "x"),),
        outputs=(("y", "y"),),
        weights=(("weight", "proj.weight"),),
    )
    shapes = Shapes(
        inputs={"x": TensorSpec(dims=("T", inner))},
        weights={"weight": TensorSpec(dims=(out, inner), format=format)},
        caches={},
        attrs={"groups": 1},
    )
    return op, shapes


def attention(heads: int, keys: int, format: str = "bf16") -> tuple[Op, Shapes, Way]:
    op = Op(
        id="attend",
        family="gqa",
        layer=0,
        inputs=(("q", "q"),),
        outputs=(("y", "y"),),
        caches=(CacheUse(slot="kv", cache="kv", mode="r"),),
    )
    entry = TensorSpec(dims=(keys, 128), format=format)
    shapes = Shapes(
        inputs={"q": TensorSpec(dims=("T", heads * 128))},
        weights={},
        caches={"kv": (entry, entry)},
        attrs={"num_heads": heads, "num_kv_heads": keys},
    )
    (way,) = family("gqa").ways(shapes)
    return op, shapes, way


def ways(shapes: Shapes) -> dict[str, Way]:
    return {way.name: way for way in family("linear").ways(shapes)}


@pytest.mark.parametrize(
    ("heads", "keys", "legal"),
    [(28, 4, {1, 2, 4, 28}), (32, 8, {1, 2, 4, 8, 16, 32}), (25, 25, {1, 5, 25}), (6, 4, {1, 2})],
)
def test_heads_and_the_keys_they_share(heads: int, keys: int, legal: set[int]) -> None:
    """More ranks than key heads repeat them, where the ranks are a multiple."""
    op, shapes, way = attention(heads, keys)
    assert {n for n in range(1, 40) if not split(op, shapes, "tp", n, way)} == legal
    for n in legal:
        part = local(shapes, way, n)
        assert part.attrs == {"num_heads": heads // n, "num_kv_heads": max(keys // n, 1)}
        assert part.caches["kv"][0].dims == (max(keys // n, 1), 128)
        assert part.inputs["q"].width == heads // n * 128


def test_all_reasons_are_told_with_their_numbers() -> None:
    op, shapes, way = attention(28, 6)
    assert split(op, shapes, "tp", 8, way) == (
        "28 heads / 8 = 3.5, not whole",
        "8 is no multiple of 6 key/value heads, so none of them can be repeated",
    )


@pytest.mark.parametrize(
    ("format", "columns", "rows"),
    [("bf16", 1, 1), ("fp8_b128", 128, 128), ("mxfp4", 1, 32), ("nvfp4", 1, 16),
     ("awq4_g128", 8, 128), ("fp8_b32_ue8m0", 32, 32)],
)  # fmt: skip
def test_borders_of_storage_formats(format: str, columns: int, rows: int) -> None:
    op, shapes = matrix(4096, 1536, format)
    for n in (2, 4, 6, 8, 12, 16, 24, 32, 48, 96):
        if 4096 % n == 0:
            told = split(op, shapes, "tp", n, ways(shapes)["columns"])
            assert bool(told) == bool(4096 // n % columns), (n, told)
        told = split(op, shapes, "tp", n, ways(shapes)["rows"])
        assert bool(told) == bool(1536 // n % rows), (n, told)


def test_a_missed_border_names_the_weight_and_the_quotient() -> None:
    op, shapes = matrix(1536, 4096, "fp8_b128")
    assert split(op, shapes, "tp", 8, ways(shapes)["columns"]) == (
        "proj.weight: N 1536/8 = 192 is no multiple of 128 (fp8_b128)",
    )


def test_an_optional_way_is_left_where_it_is_illegal() -> None:
    op, shapes = matrix(7168, 3584, "fp8_b128")
    must = ways(shapes)["rows"]
    way = Way(name=must.name, cuts=must.cuts, yields=must.yields, optional=True)
    assert split(op, shapes, "tp", 8, must)
    assert not split(op, shapes, "tp", 8, way)
    assert taken(op, shapes, way, 8) is None
    assert taken(op, shapes, way, 4) is way
    assert taken(op, shapes, must, 8) is must


def experts(number: int) -> tuple[Op, Shapes]:
    op = Op(id="experts", family="experts", layer=0, inputs=(), outputs=())
    weights = {
        "gate": TensorSpec(dims=(number, 1536, 64)),
        "up": TensorSpec(dims=(number, 1536, 64)),
        "down": TensorSpec(dims=(number, 64, 1536)),
    }
    attrs = {"num_experts": number, "top_k": 8}
    return op, Shapes(
        inputs={"x": TensorSpec(dims=("T", 64))}, weights=weights, caches={}, attrs=attrs
    )


def test_experts_are_dealt_out_unevenly_and_the_fullest_rank_is_told() -> None:
    op, shapes = experts(128)
    way = expert_way(family("experts"), shapes)
    assert split(op, shapes, "ep", 6) == ()
    assert local(shapes, way, 6).weights["down"].dims == (22, 64, 1536)
    assert local(shapes, way, 8).weights["gate"].dims == (16, 1536, 64)
    assert split(op, shapes, "ep", 129) == ("128 experts are fewer than 129 ranks",)


def test_an_unknown_axis_is_refused() -> None:
    op, shapes = matrix(8, 8)
    with pytest.raises(ValueError, match="'dp'.*tp, ep, cp"):
        split(op, shapes, "dp", 2)


def found(**words: Any) -> Kinds:
    got = analysis(small(**words))
    return kinds_of(got.model, got.recipe, got.entries)


@pytest.mark.parametrize(
    "name",
    ["moonshotai--kimi-k3", "zai-org--glm-5.3-flash", "zai-org--glm-5.2",
     "deepseek-ai--deepseek-v4-flash-0731", "minimaxai--minimax-m3",
     "qwen--qwen3-next-80b-a3b-instruct", "minimaxai--minimax-m1-80k"],
)  # fmt: skip
def test_shares_of_every_op_make_up_the_whole(name: str) -> None:
    """What an op yields on a rank is its share of what the whole one yields, and what it takes is
    what the op before left there."""
    got = analyze(f"catalog:{name}")
    found = kinds_of(got.model, got.recipe, got.entries)
    degrees = [n for n in legal_degrees(Law(found)) if n > 1]
    assert {2, 4} <= set(degrees)
    graph = got.model.graphs["main"]
    ops = {op.id: op for op in graph.ops}
    for n in degrees:
        width = {name: spec.width for name, spec in graph.values.items()}
        for kind in found.kinds:
            way = taken(kind.op, kind.shapes, kind.way, n)
            parts = (way.cuts[0].parts(n) or n) if way and way.yields == "split" else 1
            made = family(kind.op.family).infer(local(kind.shapes, way, n))
            for slot, spec in family(kind.op.family).infer(kind.shapes).items():
                assert made[slot].width == -(-spec.width // parts), (n, kind.op.id, slot)
            for name_of in kind.ops:
                for _, value in ops[name_of].outputs:
                    width[value] = -(-width[value] // parts)
        for kind in found.kinds:
            way = taken(kind.op, kind.shapes, kind.way, n)
            for slot, cut in (way.inputs if way else {}).items():
                value = dict(kind.op.inputs)[slot]
                share = graph.values[value].width // (cut.parts(n) or n)
                assert width[value] in (share, graph.values[value].width), (n, kind.op.id, slot)


def test_a_plain_model_sums_twice_a_layer() -> None:
    """After attention and after the feed-forward, and once behind the embedding (Megatron-LM,
    arXiv:1909.08053)."""
    kinds = found(num_hidden_layers=5)
    collectives = [(one.kind, kinds.places.get(one.before)) for one in kinds.placement.collectives]
    sums = [place for kind, place in collectives if kind == "all_reduce"]
    assert sums == [0, *(layer for layer in range(5) for _ in range(2))]
    assert [kind for kind, _ in collectives if kind != "all_reduce"] == ["all_gather"]


def test_what_a_layer_splits_stays_split_until_its_last_product() -> None:
    """Every value between a column product and its row product comes split, and no other."""
    got = analysis(small())
    kinds = kinds_of(got.model, got.recipe, got.entries)
    ways_of = kinds.placement.ways.items()
    names = {name.split(".", 2)[2]: way for name, way in ways_of if name.startswith("layers.")}
    assert {name: way.name for name, way in names.items()} == {
        "mixer.q_proj": "columns", "mixer.k_proj": "columns", "mixer.v_proj": "columns",
        "mixer.q_rope": "channels", "mixer.k_rope": "channels", "mixer.attend": "heads",
        "mixer.o_proj": "rows", "ffn.gate_proj": "columns", "ffn.up_proj": "columns",
        "ffn.act": "channels", "ffn.down_proj": "rows",
    }  # fmt: skip
    # projections are cut in the heads that attention deals out, whose counts decide what is legal
    assert names["mixer.q_proj"].cuts[0].units == 4
    assert names["mixer.k_proj"].cuts[0].units == 2
