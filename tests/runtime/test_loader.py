"""Weight expressions from files and at random: every kind of expression, and every refusal."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from day0.checkpoint.load import load as read
from day0.errors import Day0Error
from day0.ir.tensor import TensorSpec
from day0.ir.weight import (
    Cat,
    Expr,
    Leaf,
    Mul,
    Permute,
    Pick,
    Reshape,
    Stack,
    Tied,
    Weight,
    dims_of,
)
from day0.runtime.loader import Dummy, Files, load

CPU = torch.device("cpu")


@pytest.fixture
def tensors(seed: int) -> dict[str, torch.Tensor]:
    print("seed", seed)
    generator = torch.Generator().manual_seed(seed)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    return {
        "a.weight": drawn(6, 4),
        "b.weight": drawn(2, 4),
        "gain": drawn(4),
        "e.0.w": drawn(3, 4),
        "e.1.w": drawn(3, 4),
        "half": drawn(3).bfloat16(),
        "ids": torch.arange(5),
        "f8.weight": drawn(4, 6).to(torch.float8_e4m3fn),
        "f8.weight_scale_inv": drawn(2, 2).abs(),
    }


@pytest.fixture
def folder(tensors: dict[str, torch.Tensor], tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "any"}')
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


def files(folder: Path) -> Files:
    headers = read(str(folder)).headers
    assert headers is not None
    return Files(folder, headers)


def weight(source: Expr, **fields) -> Weight:
    usual = {"spec": TensorSpec(dims=dims_of(source)), "role": "dense"}
    return Weight(name="w", source=source, **(usual | fields))


def loaded(source: Expr, files: Files | None, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    found = load([weight(source)], files=files, dtype_of=lambda _: dtype, device=CPU)
    return found["w"]


A = Leaf(name="a.weight", dims=(6, 4), format="fp32")
B = Leaf(name="b.weight", dims=(2, 4), format="fp32")
GAIN = Leaf(name="gain", dims=(4,), format="fp32")
EXPERT = Leaf(name="e.{e}.w", dims=(3, 4), format="fp32")
EXPRESSIONS = {
    "leaf": (A, lambda t: t["a.weight"]),
    "stack": (Stack(of=EXPERT, count=2), lambda t: torch.stack([t["e.0.w"], t["e.1.w"]])),
    "rows": (Pick(of=A, dim=0, period=6, start=1, stop=3), lambda t: t["a.weight"][1:3]),
    "rows of heads": (
        Pick(of=A, dim=0, period=3, start=1, stop=3),
        lambda t: t["a.weight"][[1, 2, 4, 5]],
    ),
    "columns": (Pick(of=A, dim=1, period=2, start=0, stop=1), lambda t: t["a.weight"][:, ::2]),
    "rows of a stack": (
        Stack(of=Pick(of=EXPERT, dim=0, period=3, start=2, stop=3), count=2),
        lambda t: torch.stack([t["e.0.w"][2:], t["e.1.w"][2:]]),
    ),
    "cat": (Cat(of=(A, B)), lambda t: torch.cat([t["a.weight"], t["b.weight"]])),
    "permute": (Permute(of=A, order=(1, 0)), lambda t: t["a.weight"].T),
    "reshape": (Reshape(of=A, dims=(3, 8)), lambda t: t["a.weight"].reshape(3, 8)),
    "mul": (Mul(left=A, right=GAIN), lambda t: t["a.weight"] * t["gain"]),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions(name: str, folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    source, expected = EXPRESSIONS[name]
    found = loaded(source, files(folder))
    assert torch.equal(found, expected(tensors))
    assert found.is_contiguous()


def test_dtypes_are_cast_and_whole_numbers_are_not(folder: Path) -> None:
    half = Leaf(name="half", dims=(3,))
    assert loaded(half, files(folder)).dtype == torch.float32
    assert loaded(A, files(folder), torch.bfloat16).dtype == torch.bfloat16
    ids = Leaf(name="ids", dims=(5,), format="int64")
    assert torch.equal(loaded(ids, files(folder), torch.bfloat16), torch.arange(5))


def test_a_quantised_leaf_is_read_with_its_parts(
    folder: Path, tensors: dict[str, torch.Tensor]
) -> None:
    parts = (("data", "f8.weight"), ("scale", "f8.weight_scale_inv"))
    source = Leaf(name="f8.weight", dims=(4, 6), format="fp8_b2x3", parts=parts)
    opened = files(folder)
    scale = tensors["f8.weight_scale_inv"].repeat_interleave(2, 0).repeat_interleave(3, 1)
    assert torch.equal(loaded(source, opened), tensors["f8.weight"].float() * scale)
    assert opened.used == {"f8.weight", "f8.weight_scale_inv"}


def test_a_missing_tensor_is_named(folder: Path) -> None:
    gone = Leaf(name="c.weight", dims=(6, 4), format="fp32")
    with pytest.raises(Day0Error, match="has no tensor c.weight, which the Graph needs"):
        loaded(gone, files(folder))
    with pytest.raises(Day0Error, match="has no tensor e.2.w"):
        loaded(Stack(of=EXPERT, count=3), files(folder))


def test_a_tensor_of_another_shape_is_named(folder: Path) -> None:
    turned = Leaf(name="a.weight", dims=(4, 6), format="fp32")
    expected = r"a.weight is \[6, 4\], the Graph needs \[4, 6\]"
    with pytest.raises(Day0Error, match=expected) as caught:
        loaded(turned, files(folder))
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_an_expression_of_other_dims_than_its_op_has(folder: Path) -> None:
    wrong = weight(Permute(of=A, order=(1, 0)), spec=TensorSpec(dims=(6, 4)))
    expected = r"weight w comes out as \[4, 6\], the Graph needs \[6, 4\]"
    with pytest.raises(Day0Error, match=expected):
        load([wrong], files=files(folder), dtype_of=lambda _: torch.float32, device=CPU)


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_file_that_changed_since_its_header_was_read(folder: Path, damage: str) -> None:
    opened, path = files(folder), folder / "model.safetensors"
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(Day0Error, match="model.safetensors cannot be read at a.weight") as caught:
        loaded(A, opened)
    assert caught.value.hint


def test_a_tied_weight_is_loaded_by_its_owner() -> None:
    with pytest.raises(AssertionError, match="embed"):
        loaded(Tied(weight="embed", dims=(6, 4)), None)


def made(source: Expr, seed: int, role: str = "dense") -> torch.Tensor:
    found = load(
        [weight(source, role=role)], files=None, dummy=Dummy(seed),
        dtype_of=lambda _: torch.float32, device=CPU,
    )  # fmt: skip
    return found["w"]


def test_made_up_weights_follow_seed_and_name(seed: int) -> None:
    assert torch.equal(made(A, seed), made(A, seed))
    assert not torch.equal(made(A, seed), made(A, seed + 1))
    other = Leaf(name="other.weight", dims=(6, 4))
    assert not torch.equal(made(A, seed), made(other, seed))
    one, two = made(Stack(of=EXPERT, count=2), seed)
    assert not torch.equal(one, two)


def test_made_up_weights_have_the_scale_of_trained_ones(seed: int) -> None:
    """Rows of a matrix keep the size of their input, a router spreads, norms are near 1."""
    matrix = made(Leaf(name="m.weight", dims=(300, 400)), seed)
    assert float(matrix.std()) == pytest.approx(400**-0.5, rel=0.05)
    router = made(Leaf(name="m.weight", dims=(300, 400)), seed, "router")
    bias = made(Leaf(name="m.bias", dims=(4000,)), seed, "router")
    # logits of normed rows have a spread of one, and no bias outweighs their scores
    assert float(router.std()) == pytest.approx(1 / 20, rel=0.05)
    assert float(bias.std()) == pytest.approx(0.01, rel=0.1)
    norm = made(Leaf(name="n.weight", dims=(4000,)), seed, "norm")
    assert float(norm.mean()) == pytest.approx(1.0, abs=0.02)
    assert float(norm.std()) == pytest.approx(0.1, rel=0.1)
    assert bool((made(Leaf(name="x.A_log", dims=(40,)), seed, "state") >= 0).all())


@pytest.mark.parametrize("name", ["int32", "int64"])
def test_made_up_places_exist(name: str, seed: int) -> None:
    """A table of chosen experts [V, k] names k of them; sizes and offsets [n] are one."""
    table = made(Leaf(name="tid2eid", dims=(9, 3), format=name), seed)
    assert table.tolist() == [[0, 1, 2]] * 9
    assert not table.is_floating_point()
    assert made(Leaf(name="sizes", dims=(4,), format=name), seed).tolist() == [1] * 4
