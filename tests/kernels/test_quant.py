"""FP8 quantisation: every element within half a step, exponents from bits, saturation, NaN."""

import math

import pytest
import torch

from day0_kernels.compare import similarity_error
from day0_kernels.quant import reference
from day0_kernels.quant.quantise import quant_mx, quant_tile
from day0_kernels.quant.reference import FP8, FP8_MAX

GPU = torch.cuda.is_available()


def mx(x: torch.Tensor, rule: str) -> tuple[torch.Tensor, torch.Tensor]:
    """(elements, exponents) of the kernel."""
    q = torch.empty(x.shape, device=x.device, dtype=FP8)
    scale = torch.empty(x.shape[0], x.shape[1] // 32, device=x.device, dtype=torch.uint8)
    quant_mx(x, q, scale, rule=rule)
    return q.double(), scale.double() - 127


def borders() -> list[float]:
    """Largest magnitudes on both sides of where an exponent changes."""
    values = []
    for power in (-100, -20, -1, 0, 7, 8, 9, 60):
        for mantissa in (1.0, 1.75, 1.9999998807907104):
            middle = torch.tensor(mantissa * 2.0**power)
            up = torch.nextafter(middle, torch.tensor(math.inf))
            down = torch.nextafter(middle, torch.tensor(0.0))
            values += [float(down), float(middle), float(up)]
    return values


@pytest.mark.parametrize("rule", reference.RULES)
def test_exponent_is_exact_at_its_borders(rule, device):
    amax = torch.tensor(borders(), device=device)
    x = torch.zeros(len(amax), 32, device=device)
    x[:, 3] = -amax
    expected = [
        math.frexp(a)[1] - 9 if rule == "floor" else _ceil_log2(a / FP8_MAX) for a in amax.tolist()
    ]
    assert mx(x, rule)[1].flatten().tolist() == expected


def _ceil_log2(ratio: float) -> int:
    mantissa, power = math.frexp(ratio)  # ratio = mantissa * 2^power, exact enough in fp64
    return power - 1 if mantissa == 0.5 else power


def test_rounding_up_saturates_nothing(device, generator):
    x = torch.randn(64, 128, generator=generator, device=device)
    q, exponent = mx(x, "rceil")
    back = q * torch.exp2(exponent).repeat_interleave(32, 1)
    # half a step of 3 bits, or half the least step 2^-9 of the scale
    allowed = (x.abs().double() * 2**-4).maximum(torch.exp2(exponent - 10).repeat_interleave(32, 1))
    assert bool(((back - x.double()).abs() <= allowed).all())


def test_block_maximum_survives(device):
    # mlx pull request 4353: a scale rounded to nearest loses 29 % of such a block's maximum
    x = torch.full((1, 32), 4.0039, device=device)
    x[0, 0] = 4.8046875
    q, exponent = mx(x, "rceil")
    assert exponent.item() == -6
    back = q * 2.0**-6
    assert bool(((back - x.double()).abs() <= x.double() * 0.0625).all())


def test_reference_rounds_ties_to_even_and_saturates():
    # sglang pull request 40581
    given = [256, 264, 272, 288, 304, 320, 416, 432, 447, 448, 464, 1000, -1000]
    wanted = [256, 256, 256, 288, 320, 320, 416, 448, 448, 448, 448, 448, -448]
    assert reference.rounded(torch.tensor(given).double()).tolist() == wanted
    assert reference.rounded(torch.tensor([math.nan])).isnan().all()


def test_kernel_rounds_ties_to_even_and_saturates(device):
    given = [256.0, 264, 272, 288, 304, 320, 416, 432, 447, 448, -464, 500]
    wanted = [256, 256, 256, 288, 320, 320, 416, 448, 448, 448, -448, 448]
    # "floor" of a largest magnitude in [256, 512) is the scale 1: elements are kept as they are
    x = torch.zeros(1, 32, device=device)
    x[0, : len(given)] = torch.tensor(given)
    q, exponent = mx(x, "floor")
    assert exponent.item() == 0
    assert q[0, : len(given)].tolist() == wanted


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(math.nan, marks=pytest.mark.skipif(not GPU, reason="interpreter loses NaN")),
        math.inf,
    ],
)
def test_one_bad_element_spoils_no_other(bad, device, generator):
    x = torch.randn(2, 256, generator=generator, device=device)
    clean = torch.empty(x.shape, device=device, dtype=FP8)
    scale = torch.empty(2, 2, device=device)
    quant_tile(x, clean, scale)
    x[0, 5] = bad
    q, scales = torch.empty_like(clean), torch.empty_like(scale)
    quant_tile(x, q, scales)
    assert torch.equal(q[0, 128:].float(), clean[0, 128:].float())
    assert torch.equal(q[1].float(), clean[1].float())
    assert bool(scales.isfinite().all())
    assert math.isnan(float(q[0, 5])) if math.isnan(bad) else float(q[0, 5]) == FP8_MAX
    assert int(q.isnan().sum()) == int(math.isnan(bad))


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e30])
def test_tile_is_near_whatever_the_size(size, device, generator):
    x = torch.randn(16, 384, generator=generator, device=device) * size
    q = torch.empty(x.shape, device=device, dtype=FP8)
    scale = torch.empty(16, 3, device=device)
    quant_tile(x, q, scale)
    if size < reference.MIN_AMAX:
        assert bool((q.float() == 0).all())
        return
    back = q.double() * scale.double().repeat_interleave(128, 1)
    assert similarity_error(back, x) < 5e-4


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="gigabytes")
def test_beyond_two_to_the_31_elements(device, generator):
    x = torch.empty((1 << 31) // 4096 + 40, 4096, device=device, dtype=torch.bfloat16)
    x.normal_(generator=generator)
    q = torch.empty(x.shape, device=device, dtype=FP8)
    scale = torch.empty(x.shape[0], 32, device=device)
    quant_tile(x, q, scale)
    last = x[-50:].clone()
    wanted, factors = reference.tile_quantised(last)
    assert float((scale[-50:] - factors).abs().max()) < 1e-6
    assert similarity_error(q[-50:].float(), wanted) < 1e-6
