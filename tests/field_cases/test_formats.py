"""Field cases of the section on number formats, on the definitions (torch alone)."""

import math

import pytest

torch = pytest.importorskip("torch")


def test_case_121_mx_scales_round_up() -> None:
    """A largest value of 4.8046875: 2^-7 would need 615 > 448, 2^-6 loses nothing of size."""
    from day0_kernels.quant.reference import FP8, quant_mx

    x = torch.full((1, 32), 4.0039)
    x[0, 5] = 4.8046875
    q, scale = torch.zeros(1, 32, dtype=FP8), torch.zeros(1, 1, dtype=torch.uint8)
    quant_mx(x, q, scale)
    assert scale.item() - 127 == -6 == math.ceil(math.log2(4.8046875 / 448))
    back = q.float() * 2.0**-6
    assert ((back - x).abs() / x).max().item() <= 0.0625


def test_case_121_no_scale_of_any_size_saturates(seed: int) -> None:
    from day0_kernels.quant.reference import FP8, quant_mx

    print(f"seed {seed}")
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 96, generator=drawn) * torch.exp2(
        torch.randint(-20, 20, (64, 1), generator=drawn).float()
    )
    q, scale = torch.zeros(64, 96, dtype=FP8), torch.zeros(64, 3, dtype=torch.uint8)
    quant_mx(x, q, scale)
    amax = x.abs().unflatten(-1, (3, 32)).amax(-1)
    assert (amax <= 448 * torch.exp2(scale.float() - 127)).all()
    assert (amax > 224 * torch.exp2(scale.float() - 127)).all()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(256, 256), (264, 256), (272, 256), (288, 288), (304, 320), (320, 320), (416, 416),
     (432, 448), (447, 448), (448, 448), (464, 448), (1000, 448), (math.inf, 448),
     (-1000, -448)],
)  # fmt: skip
def test_case_123_e4m3_above_256(given: float, wanted: float) -> None:
    """Steps of 32, ties to even, saturation."""
    from day0_kernels.quant.reference import rounded

    assert rounded(torch.tensor([float(given)])).item() == wanted


def test_case_123_nan_stays_nan() -> None:
    from day0_kernels.quant.reference import rounded

    assert math.isnan(rounded(torch.tensor([math.nan])).item())
