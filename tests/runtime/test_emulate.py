"""Rounding to narrow formats: error bounds, ties, scales, ragged tiles, and experts against the
definition with real codes."""

import pytest
import torch

from day0.passes.quantize import Activation
from day0.runtime import emulate
from day0.runtime.dequant import dequantise
from day0_kernels.experts.reference import experts as definition
from day0_kernels.quant.reference import quant_mx, quant_tile, rounded

FORMATS = ("fp8_t128", "fp8_t16", "mxfp8", "fp8_b128", "fp8_b32", "fp8_b64x32", "fp8_channel",
           "fp8_tensor")  # fmt: skip
# Half a step of three bits of mantissa; below 2^-6 of a scale, steps are 2^-9 of it.
HALF_STEP = 2.0**-4
SHAPES = ((3, 256, 384), (5, 200, 144), (1, 1, 7), (2, 130, 33))


def drawn(*shape: int, seed: int) -> torch.Tensor:
    """Heavy-tailed values, rows of very different sizes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator) ** 3
    return x * torch.exp2(torch.randint(-10, 10, (*shape[:-1], 1), generator=generator).float())


def rounding(name: str) -> emulate.Rounding:
    found = emulate.rounding(name)
    assert found is not None
    return found


def scale_of(x: torch.Tensor, name: str) -> torch.Tensor:
    """The largest |x| under each element's scale, by the plain loop."""
    sizes = {
        "fp8_t128": (1, 128), "fp8_t16": (1, 16), "mxfp8": (1, 32), "fp8_b128": (128, 128),
        "fp8_b32": (32, 32), "fp8_b64x32": (64, 32), "fp8_channel": (1, x.shape[-1]),
        "fp8_tensor": x.shape[-2:],
    }  # fmt: skip
    rows, columns = sizes[name]
    largest = torch.empty_like(x)
    for top in range(0, x.shape[-2], rows):
        for left in range(0, x.shape[-1], columns):
            place = (..., slice(top, top + rows), slice(left, left + columns))
            largest[place] = x[place].abs().amax((-2, -1), keepdim=True)
    return largest


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_error_of_every_element(name: str, shape: tuple[int, ...], seed: int) -> None:
    """At most 2^-4 (6.25 %) of an element, or half a step of the smallest numbers under its own
    scale (448 is 2^8.8: 2^-10 of amax / 448, doubled where the scale is a power of two)."""
    x = drawn(*shape, seed=seed)
    got = rounding(name)(x)
    assert got.shape == x.shape
    assert got.dtype == torch.float32
    smallest = scale_of(x, name) / 448 * 2.0**-10 * (2 if name == "mxfp8" else 1)
    error = (got - x).abs()
    assert bool((error <= torch.maximum(x.abs() * HALF_STEP, smallest) * (1 + 1e-6)).all())
    assert float(error.norm() / x.norm()) < 0.045
    assert bool((got != x).any())


@pytest.mark.parametrize("name", FORMATS)
def test_again_changes_next_to_nothing(name: str, seed: int) -> None:
    """What the format holds stays: bit for bit with powers of two, else but for its scale."""
    once = rounding(name)(drawn(2, 64, 256, seed=seed))
    again = rounding(name)(once)
    if name == "mxfp8":
        assert torch.equal(again, once)
    torch.testing.assert_close(again, once, rtol=3e-7, atol=0.0)


@pytest.mark.parametrize("name", FORMATS)
def test_zeros_stay(name: str) -> None:
    assert torch.equal(rounding(name)(torch.zeros(2, 40, 50)), torch.zeros(2, 40, 50))


@pytest.mark.parametrize("name", ["fp32", "bf16", "mxfp4", "nvfp4", "int8_channel"])
def test_nothing_else_is_emulated(name: str) -> None:
    assert emulate.rounding(name) is None


def test_a_scale_reaches_its_own_block_alone(seed: int) -> None:
    """A huge element changes what its block holds and nothing beside it."""
    x = drawn(256, 256, seed=seed)
    other = x.clone()
    other[200, 10] = 1e9
    for name, rows, columns in (
        ("fp8_b128", slice(128, 256), slice(0, 128)),
        ("fp8_t128", slice(200, 201), slice(0, 128)),
        ("mxfp8", slice(200, 201), slice(0, 32)),
    ):
        changed = rounding(name)(x) != rounding(name)(other)
        assert bool(changed[rows, columns].any())
        changed[rows, columns] = False
        assert not bool(changed.any())


def test_case_121_the_largest_of_a_group_is_kept() -> None:
    """amax 4.8046875: scale 2^-6; nearest (2^-7) would saturate 615 to 448 and lose 29 %."""
    x = torch.full((1, 32), 4.0039)
    x[0, 0] = 4.8046875
    got = rounding("mxfp8")(x)
    assert float(((got - x).abs() / x).max()) <= 0.0625
    assert got[0, 0] == 5.0  # 307.5 lies between 288 and 320 in steps of 32
    assert got[0, 1] == 4.0


def test_case_123_ties_and_saturation() -> None:
    values = [256, 264, 272, 288, 304, 320, 416, 432, 447, 448, 464, 1000, float("nan")]
    wanted = [256, 256, 256, 288, 320, 320, 416, 448, 448, 448, 448, 448, float("nan")]
    for sign in (1, -1):
        got = rounded(sign * torch.tensor(values))
        assert torch.equal(got[:-1], sign * torch.tensor(wanted[:-1], dtype=torch.float32))
        assert bool(got[-1].isnan())


@pytest.mark.parametrize("power", [-120, -20, -1, 0, 1, 20, 100])
def test_scales_at_powers_of_two(power: int) -> None:
    """448 * 2^p takes the scale 2^p and is exact; one ulp more takes 2^(p + 1)."""
    edge = torch.full((1, 32), 448.0 * 2.0**power)
    assert torch.equal(rounding("mxfp8")(edge), edge)
    beyond = torch.nextafter(edge, torch.full_like(edge, float("inf")))
    assert torch.equal(rounding("mxfp8")(beyond), edge)
    fine = edge.clone()
    fine[0, 1] = 2.0**power * 2.0**-9  # the smallest number under 2^p, a tie under 2^(p + 1)
    assert torch.equal(rounding("mxfp8")(fine), fine)
    fine[0, 0] = beyond[0, 0]
    assert rounding("mxfp8")(fine)[0, 1] == 0.0


def test_equal_to_the_kernels_definitions(seed: int) -> None:
    """Codes and scales of day0_kernels.quant, read as the loader reads stored ones."""
    x = drawn(9, 300, seed=seed)
    q = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    scale = torch.empty(9, 10, dtype=torch.uint8)
    quant_mx(x, q, scale)
    stored = dequantise("mxfp8", {"data": q, "scale": scale}, (9, 300))
    assert torch.equal(rounding("mxfp8")(x), stored)
    tiles = torch.empty(9, 3)
    quant_tile(x, q, tiles)
    spread = tiles.repeat_interleave(128, -1)[:, :300]
    assert torch.equal(rounding("fp8_t128")(x), q.float() * spread)


def test_tiles_begin_anew_at_each_head(seed: int) -> None:
    """Heads of 28 channels: a group of 32 never spans two heads."""
    x = drawn(4, 3 * 28, seed=seed)
    x[:, 28:56] *= 1000  # a group over both heads would take its scale from here
    got = emulate._in_width(Activation(slot="q", format="mxfp8", width=28))(x)
    for head in range(3):
        place = slice(28 * head, 28 * (head + 1))
        assert torch.equal(got[:, place], rounding("mxfp8")(x[:, place]))
    assert not torch.equal(got, rounding("mxfp8")(x))


def test_experts_equal_the_definition_with_codes(seed: int) -> None:
    """Blocks of 128 and rows of 1 x 128: rounded values here, codes and scales there."""
    generator = torch.Generator().manual_seed(seed)
    tokens, count, top_k, hidden, inner = 7, 5, 2, 256, 128
    x = torch.randn(tokens, hidden, generator=generator)
    scores = torch.rand(tokens, count, generator=generator)
    weights, chosen = scores.topk(top_k)
    shapes = {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    matrices = {
        name: torch.randn(count, *shape, generator=generator) / shape[1] ** 0.5
        for name, shape in shapes.items()
    }
    values, codes = {}, {}
    for name, matrix in matrices.items():
        values[name] = rounding("fp8_b128")(matrix)
        split = matrix.unflatten(-1, (-1, 128)).unflatten(-3, (-1, 128))
        scale = split.abs().amax((-3, -1)) / 448
        spread = scale.repeat_interleave(128, -1).repeat_interleave(128, -2)
        codes[name] = (matrix / spread).clamp(-448, 448).to(torch.float8_e4m3fn)
        codes[f"{name}_scale"] = scale
    same = {"experts": chosen, "weights": weights, "num_experts": count, "top_k": top_k,
            "function": "silu"}  # fmt: skip
    theirs, ours, plain = (torch.empty(tokens, hidden) for _ in range(3))
    definition(x=x, y=theirs, **codes, **same)
    emulate.experts(
        x=rounding("fp8_t128")(x), y=ours, inner=lambda h: rounding("fp8_t128")(h),
        **values, **same,
    )  # fmt: skip
    definition(x=x, y=plain, **matrices, **same)
    size = float(plain.norm())
    assert float((ours - theirs).norm()) / size < 2e-3  # few codes lie on a border of rounding
    assert 0.01 < float((ours - plain).norm()) / size < 0.1
