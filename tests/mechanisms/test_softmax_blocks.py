"""Parts of softmax decoders that the mission's own families do not have: their tensors, their flow
(mlp, positions, differential, altup, per_layer_input, fused rows, parallel branches)."""

from pathlib import Path

import pytest

from day0.ir.weight import dims_of
from day0.mechanisms import altup, differential, per_layer_input
from tests.breadth import checkpoints
from tests.mechanisms import readings
from tests.mechanisms.readings import Read

pytestmark = pytest.mark.hf


def read(type_name: str, folder: Path) -> Read:
    checkpoints.build(type_name, folder, seed=3)
    return readings.from_folder(folder)


@pytest.mark.parametrize(
    ("type_name", "order", "borders"),
    [
        # [all q | all k | all v]: 6 heads of 8 and 3 key heads
        ("phi3", "rows", {"q": (0, 48), "k": (48, 72), "v": (72, 96)}),
        # [q | k | v] of each of 6 heads of 8
        ("gpt_neox", "groups", {"q": (0, 8), "k": (8, 16), "v": (16, 24)}),
        # [q | v | k] of each of four shards of 12 channels
        ("codegen", "shards", {"q": (0, 12), "v": (12, 24), "k": (24, 36)}),
    ],
)
def test_rows_of_a_fused_projection(
    type_name: str, order: str, borders: dict[str, tuple[int, int]], tmp_path: Path
) -> None:
    got = read(type_name, tmp_path)
    assert got.mixer(1).fused == order
    for name, (start, stop) in borders.items():
        source = got.model.weights[f"layers.1.mixer.{name}_proj"].source
        assert (source.start, source.stop) == (start, stop)  # pyright: ignore[reportAttributeAccessIssue]


def test_parallel_branches_read_one_norm_or_one_each(tmp_path: Path) -> None:
    """Cohere: x + attention(n) + feed-forward(n); GPT-NeoX norms for each branch."""
    cohere = read("cohere", tmp_path / "one")
    total = cohere.op("layers.1.mixer.sum1")
    assert dict(total.inputs) == {"a": "layers.1.mixer.o_proj", "b": "layers.1.mixer.ffn.down_proj"}
    for branch in ("mixer.q_proj", "mixer.ffn.gate_proj"):
        assert dict(cohere.op(f"layers.1.{branch}").inputs)["x"] == "layers.1.mixer.norm"
    neox = read("gpt_neox", tmp_path / "each")
    assert dict(neox.op("layers.1.mixer.q_proj").inputs)["x"] == "layers.1.mixer.norm"
    assert dict(neox.op("layers.1.mixer.ffn.up_proj").inputs)["x"] == "layers.1.mixer.ffn.norm"
    assert len(neox.reading.spec.layers[1].sublayers) == 1


def test_positions_begin_behind_rows_that_stand_for_none(tmp_path: Path) -> None:
    got = read("opt", tmp_path)
    op = got.op("position")
    table = got.model.weights[dict(op.weights)["table"]]
    assert (op.attr("offset"), table.spec.dims) == (2, (130, 48))


def test_differential_factor_grows_with_depth(tmp_path: Path) -> None:
    got = read("diffllama", tmp_path)
    inits = [got.mixer(index).lambda_init for index in range(4)]
    assert isinstance(got.mixer(0), differential.Differential)
    assert inits == pytest.approx([0.2, 0.3555, 0.4707, 0.5561], abs=1e-4)


def test_altup_predicts_before_a_layer_and_corrects_after_it(tmp_path: Path) -> None:
    got = read("gemma3n_text", tmp_path)
    stream = got.reading.spec.residual.spec
    assert isinstance(stream, altup.Altup)
    assert (stream.num_streams, stream.active, stream.rank) == (4, 0, 7)
    predict, correct = got.ops("altup_predict", 2)[0], got.ops("altup_correct", 2)[0]
    slots = dict(predict.weights), dict(correct.weights)
    assert slots[0]["router"] == slots[1]["router"]
    assert slots[0]["coefficients"] != slots[1]["coefficients"]
    assert got.model.weights[slots[0]["coefficients"]].spec.dims == (16, 4)
    assert dict(correct.inputs)["x"] == dict(predict.outputs)["streams"]
    assert len(got.ops("altup_expand")) == len(got.ops("altup_merge")) == 1


def test_each_layer_has_its_columns_of_the_per_layer_table(tmp_path: Path) -> None:
    """10 channels of each of 6 layers; the norm of all of them is one weight."""
    got = read("gemma4_text", tmp_path)
    specs = [layer.sublayers[2].branches[0].spec for layer in got.reading.spec.layers]
    assert all(isinstance(spec, per_layer_input.PerLayerInput) for spec in specs)
    sources = [got.model.weights[f"layers.{i}.per_layer.table"].source for i in range(6)]
    starts = [source.start for source in sources]  # pyright: ignore[reportAttributeAccessIssue]
    assert starts == [0, 10, 20, 30, 40, 50]
    assert {dims_of(source) for source in sources} == {(97, 10)}
    assert got.model.weights["per_layer.norm"].spec.dims == (10,)


def test_last_layers_read_the_caches_of_their_kind(tmp_path: Path) -> None:
    """Layers 4 (sliding) and 5 (full) of 6 keep nothing and read those of 2 and 3."""
    got = read("gemma4_text", tmp_path)
    assert [got.mixer(i).kv_of for i in range(6)] == [-1, -1, -1, -1, 2, 3]
    assert got.caches(4) == got.caches(5) == {}
    uses = {use.cache for use in got.op("layers.5.mixer.attend").caches}
    assert uses == {"layers.3.mixer.kv"}
    assert got.mixer(4).window == 9
