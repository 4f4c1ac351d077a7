"""Hashed n-gram features: the table and its rows, what decides them, how they join the streams."""

from collections.abc import Callable

import pytest

from day0.ir.weight import Cat, Leaf
from day0.mechanisms.ngram import Ngram, primes_from
from tests.mechanisms import readings
from tests.tiny import TinyCheckpoint

Tiny = Callable[..., TinyCheckpoint]


def sizes(config: dict) -> tuple[int, int]:
    """(n-gram sizes with a hash, hash heads)."""
    kinds = config["ngram_size"] - 1
    return kinds, kinds * config["heads_per_ngram"]


def specs(got: readings.Read) -> dict[int, Ngram]:
    found = {}
    for index, layer in enumerate(got.reading.spec.layers):
        spec = layer.sublayers[0].residual.spec
        if spec.ngram is not None:
            found[index] = spec.ngram
    return found


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (2, 5, [2, 3, 5, 7, 11]),
        (14, 3, [17, 19, 23]),
        (17, 2, [17, 19]),
        (20_000_000, 2, [20_000_003, 20_000_023]),
    ],
)
def test_primes(start: int, count: int, expected: list[int]) -> None:
    assert primes_from(start, count) == expected


@pytest.mark.hf
def test_rows_from_words_are_those_of_the_stored_table(tiny: Tiny) -> None:
    folder = tiny("qwen4_exp").folder
    config = readings.config_of(folder)
    stored = specs(readings.from_folder(folder))
    said = specs(readings.from_folder(folder, headers=False))
    assert set(stored) == set(said) == {number - 1 for number in config["ple_layer_ids"]}
    for index, spec in stored.items():
        assert (spec.rows, spec.row_dim) == (said[index].rows, said[index].row_dim)
        assert sum(spec.shards) == spec.rows
        assert len(spec.shards) == config["split_ngram_parts"]
        assert said[index].shards == ()
        assert spec.num_heads == sizes(config)[1]
        assert spec.row_dim * spec.num_heads == config["ple_embed_dim"]
        assert spec.reset_id == config["eos_token_id"]
    # heads of a later layer go on with the primes where the former stopped
    rows = [stored[number - 1].rows for number in config["ple_layer_ids"]]
    assert rows == sorted(set(rows))


@pytest.mark.hf
def test_table_stays_on_the_host_and_needs_ids_only(tiny: Tiny) -> None:
    folder = tiny("qwen4_exp").folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder)
    assert got.main.inputs == ("ids", "history")
    assert got.main.values["history"].dims == ("R", config["ngram_size"] - 1)
    lookups = got.ops("ngram_embedding")
    assert len(lookups) == len(config["ple_layer_ids"])
    for lookup in lookups:
        assert dict(lookup.inputs) == {"ids": "ids", "history": "history"}
        assert lookup.caches == ()
        weights = {slot: got.model.weights[name] for slot, name in lookup.weights}
        assert {weight.home for weight in weights.values()} == {"host"}
        assert {weight.role for weight in weights.values()} == {"lookup"}
        table = weights["table"].source
        assert isinstance(table, Cat)
        assert all(isinstance(part, Leaf) for part in table.of)
        assert weights["multipliers"].spec.format == "int64"
        assert weights["multipliers"].spec.dims == (config["ngram_size"],)
        heads = sizes(config)[1]
        assert weights["head_sizes"].spec.dims == weights["head_offsets"].spec.dims == (heads,)


@pytest.mark.hf
def test_features_join_before_the_gate(tiny: Tiny) -> None:
    folder = tiny("qwen4_exp").folder
    config = readings.config_of(folder)
    got = readings.from_folder(folder)
    streams = config["hc_count"] * config["hidden_size"]
    for number in config["ple_layer_ids"]:
        prefix = f"layers.{number - 1}.mixer"
        gate = got.op(f"{prefix}.ngram.gate")
        assert dict(gate.inputs)["query"] == f"{prefix}.ngram.norm_query"
        assert dict(got.op(f"{prefix}.ngram.norm_key").attrs)["group"] == config["hidden_size"]
        conv = got.op(f"{prefix}.ngram.conv")
        assert dict(conv.attrs) == {"activation": "silu", "dilation": config["ngram_size"]}
        tail = got.model.caches[f"{prefix}.ngram.conv.tail"]
        assert tail.span == (config["ple_conv_kernel_size"] - 1) * config["ngram_size"]
        assert tail.elements == streams
        joined = got.op(f"{prefix}.ngram.add")
        assert dict(got.op(f"{prefix}.hyper").inputs)["x"] == joined.id
        assert dict(joined.inputs)["b"] == f"{prefix}.ngram.features"


@pytest.mark.hf
@pytest.mark.parametrize(
    ("stated", "expected"), [(7, 7), ([9, 4], 9), (None, -1)], ids=["one", "first", "none"]
)
def test_end_of_text_resets(tiny: Tiny, stated: object, expected: int) -> None:
    config = readings.config_of(tiny("qwen4_exp").folder) | {"eos_token_id": stated}
    got = readings.from_parts(config, None)
    assert {spec.reset_id for spec in specs(got).values()} == {expected}
    how = got.facts["ngram.reset_id"].how
    assert how == ("assumed" if stated is None else "config")


@pytest.mark.hf
def test_one_piece(tiny: Tiny) -> None:
    """A table that was never split, as the module itself calls it."""
    folder = tiny("qwen4_exp").folder
    got = readings.from_folder(folder)
    assert got.headers is not None
    tensors = {}
    for name, header in got.headers.tensors.items():
        if ".shard_" not in name:
            tensors[name] = header
            continue
        whole = name.split("shard_")[0] + "weight"
        before = tensors[whole].shape[0] if whole in tensors else 0
        tensors[whole] = header._replace(shape=(before + header.shape[0], header.shape[1]))
    headers = type(got.headers)(tensors=tensors, shards=got.headers.shards)
    other = readings.from_parts(readings.config_of(folder), headers)
    assert other.unexplained() == ([], [], [])
    assert other.params() == got.params()
