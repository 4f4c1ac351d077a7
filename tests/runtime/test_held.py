"""Weights as FP8 codes and scales: bit for bit what the definitions emulate, with equal logits."""

from pathlib import Path

import pytest
import torch

from day0.checkpoint.load import DEMO, load
from day0.ir.graph import Model
from day0.ir.recipe import Recipe
from day0.ir.weight import Cat, Leaf, Pick, Stack
from day0.models.read import read_model
from day0.models.recipes import recipe_of
from day0.runtime.codes import Coding, coding
from day0.runtime.loader import SCALE
from day0.runtime.session import Session, open_session
from day0.runtime.weight_codes import kept, quantised
from tests import fake_gpu

FP8 = torch.float8_e4m3fn
IDS = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4)
FORMATS = ("fp8_t128", "fp8_t16", "mxfp8", "fp8_b128", "fp8_b64x32", "fp8_channel", "fp8_tensor")


def coding_of(name: str) -> Coding:
    found = coding(name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    """FP8 where the built-in recipe has it, the rest in fp32: nothing else rounds."""
    return recipe_of({"base": "fp8", "plain": "fp32"}, name="only", where="a test")


@pytest.fixture(scope="module")
def demo() -> Model:
    return read_model(load(str(DEMO))).model


@pytest.fixture(scope="module")
def emulated(demo: Model, recipe: Recipe) -> Session:
    return open_session(
        demo, recipe, headers=load(str(DEMO)).headers, folder=Path(DEMO), sizes=fake_gpu.SIZES
    )


@pytest.fixture(scope="module")
def held(demo: Model, recipe: Recipe) -> Session:
    return fake_gpu.opened(demo, recipe, headers=load(str(DEMO)).headers, folder=Path(DEMO))


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_stored_is_what_is_emulated(name: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 130, 200, generator=generator) ** 3
    form = coding_of(name)
    data, scale = form.stored(x)
    assert data.dtype == FP8
    assert scale.dtype == form.scale_dtype
    if name != "fp8_tensor":
        assert tuple(scale.shape) == form.scale_dims(tuple(x.shape))
    assert torch.equal(form.decode(data, scale), form.values(x))


def test_held_weights_are_the_emulated_ones(held: Session, emulated: Session) -> None:
    names = held.lowered["prefill"].held.weights
    roles = {held.precision.weights[name].role for name in names}
    assert roles == {"experts", "shared_expert", "dense"}
    for name, value in emulated._weights.items():
        ours = held._weights[name]
        if name in names:
            assert ours.dtype == FP8
            values = coding_of("fp8_b128").decode(ours, held._weights[name + SCALE])
            assert torch.equal(values, value)
        else:
            assert torch.equal(ours, value)
            assert name + SCALE not in held._weights


def test_logits_are_those_of_the_emulation(held: Session, emulated: Session) -> None:
    """But for codes that rounding decides: see test_held_caches."""
    ours, theirs = (session.logits(IDS) for session in (held, emulated))
    apart = (ours - theirs).norm(dim=-1) / theirs.norm(dim=-1)
    assert float(apart[0]) < 1e-4
    assert float(apart.max()) < 0.1


def test_made_up_weights_are_held_too(demo: Model, recipe: Recipe, emulated: Session) -> None:
    one = fake_gpu.opened(demo, recipe, dummy_seed=5)
    other = open_session(
        demo, recipe, headers=None, folder=None, dummy_seed=5, sizes=fake_gpu.SIZES
    )
    for name in one.lowered["prefill"].held.weights:
        values = coding_of("fp8_b128").decode(one._weights[name], one._weights[name + SCALE])
        assert torch.equal(values, other._weights[name])


def test_a_definition_in_one_phase_makes_its_weights_emulated(demo: Model, recipe: Recipe) -> None:
    """w_uk and w_uv in FP8: no kernel of latent attention reads them."""
    formats = {**recipe.formats, "attention_proj": "fp8_b128"}
    low = fake_gpu.lowered(demo, Recipe(name="t", plain="fp32", formats=formats))
    for phase in low.values():
        for op in phase.graph.ops:
            narrow = [
                name for _, name in op.weights if phase.precision.weights[name].runs == "fp8_b128"
            ]
            taken = phase.choices[op.id].backend != "reference"
            assert all((name in phase.held.weights) == taken for name in narrow)
    kinds = {
        op.family for op in low["decode"].graph.ops
        if any(name in low["decode"].held.weights for _, name in op.weights)
    }  # fmt: skip
    assert kinds == {"linear", "merged_linear", "experts"}


def leaf(name: str, *dims: int) -> Leaf:
    parts = (("data", name), ("scale", f"{name}.scale"))
    return Leaf(name=name, dims=dims, format="fp8_b128", parts=parts)


DIMS = {"a": (256, 300), "b": (200, 300), "e0": (384, 144), "e1": (384, 144)}


def checkpoint(generator: torch.Generator) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, dims in DIMS.items():
        data, scale = coding_of("fp8_b128").stored(torch.randn(dims, generator=generator))
        # half the codes: not the scale that quantising anew would choose
        tensors |= {name: (data.float() / 2).to(FP8), f"{name}.scale": scale}
    return tensors


EXPRESSIONS = {
    "leaf": leaf("b", 200, 300),
    "rows": Pick(of=leaf("a", 256, 300), dim=0, period=256, start=128, stop=256),
    "columns": Pick(of=leaf("a", 256, 300), dim=1, period=300, start=128, stop=300),
    "period": Pick(of=leaf("e0", 384, 144), dim=0, period=384, start=128, stop=256),
    "merged": Cat(of=(leaf("a", 256, 300), leaf("b", 200, 300))),
    "stack": Stack(of=leaf("e{e}", 384, 144), count=2),
    "halves": Stack(
        of=Pick(of=leaf("e{e}", 384, 144), dim=0, period=384, start=0, stop=128), count=2
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_stored_codes_are_kept(name: str, seed: int) -> None:
    """Decoded after the cut, they are the cut of the decoded ones."""
    tensors = checkpoint(torch.Generator().manual_seed(seed))
    form = coding_of("fp8_b128")

    def stored(one: Leaf, number: int | None) -> dict[str, torch.Tensor]:
        return {
            part: tensors[tensor if number is None else tensor.replace("{e}", str(number))]
            for part, tensor in one.parts
        }

    found = kept(EXPRESSIONS[name], form, (128, 128), stored)
    assert found is not None
    wide = {key: form.decode(tensors[key], tensors[f"{key}.scale"]) for key in DIMS}
    expected = {
        "leaf": wide["b"],
        "rows": wide["a"][128:],
        "columns": wide["a"][:, 128:],
        "period": wide["e0"][128:256],
        "merged": torch.cat((wide["a"], wide["b"])),
        "stack": torch.stack((wide["e0"], wide["e1"])),
        "halves": torch.stack((wide["e0"][:128], wide["e1"][:128])),
    }[name]
    assert torch.equal(form.decode(*found), expected)
    again = form.stored(expected)
    assert not torch.equal(again[1], found[1])


def test_other_codes_than_e4m3_are_quantised_anew() -> None:
    parts = {"data": torch.zeros(200, 300, dtype=torch.float8_e5m2), "scale": torch.ones(2, 3)}
    form = coding_of("fp8_b128")
    assert kept(EXPRESSIONS["leaf"], form, (128, 128), lambda leaf, number: parts) is None


def test_experts_are_quantised_one_by_one(seed: int) -> None:
    """The same as all of them at once, whichever way they are stacked."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 130, 260, generator=generator)
    form, cpu = coding_of("fp8_b128"), torch.device("cpu")
    many = Stack(of=Leaf(name="{e}", dims=(130, 260)), count=3)
    one = Leaf(name="all", dims=(3, 130, 260))
    stacked = quantised(many, form, lambda expr, number: x[number or 0], cpu)
    whole = quantised(one, form, lambda expr, number: x, cpu)
    for ours, theirs, direct in zip(stacked, whole, form.stored(x), strict=True):
        assert torch.equal(ours.float(), direct.float())
        assert torch.equal(theirs.float(), direct.float())
