"""RMS norm: in place, fused as in two steps, and beyond 2^31 elements."""

import pytest
import torch

from day0_kernels.compare import similarity_error
from day0_kernels.quant.quantise import quant_mx, quant_tile
from day0_kernels.quant.reference import FP8
from day0_kernels.rmsnorm import add_rmsnorm, rmsnorm, rmsnorm_mx, rmsnorm_tile

GPU = torch.cuda.is_available()


def drawn(generator, device, *shape):
    return torch.randn(shape, generator=generator, device=device)


def test_in_place_is_as_beside(device, generator):
    x, weight = drawn(generator, device, 3, 96), drawn(generator, device, 32)
    beside = torch.empty_like(x)
    rmsnorm(x, beside, weight, eps=1e-6, group=32)
    rmsnorm(x, x, weight, eps=1e-6, group=32)
    assert torch.equal(x, beside)


def test_the_residual_may_be_overwritten(device, generator):
    x, residual = drawn(generator, device, 3, 40), drawn(generator, device, 3, 40)
    wanted, y = x + residual, torch.empty_like(x)
    add_rmsnorm(x, residual, y, residual, eps=1e-6)
    normed = torch.empty_like(x)
    rmsnorm(wanted, normed, eps=1e-6)
    assert torch.equal(residual, wanted)
    assert torch.equal(y, normed)


@pytest.mark.parametrize(
    ("fused", "apart", "group"), [(rmsnorm_tile, quant_tile, 128), (rmsnorm_mx, quant_mx, 32)]
)
def test_fused_output_is_that_of_two_steps(fused, apart, group, device, generator):
    x, weight = drawn(generator, device, 3, 256), drawn(generator, device, 256)
    kind = torch.uint8 if group == 32 else torch.float32
    q, wanted = (torch.empty(3, 256, device=device, dtype=FP8) for _ in range(2))
    scale, factors = (torch.empty(3, 256 // group, device=device, dtype=kind) for _ in range(2))
    y = torch.empty_like(x)
    rmsnorm(x, y, weight, eps=1e-6)
    apart(y, wanted, factors)
    fused(x, q, scale, weight, eps=1e-6)
    assert torch.allclose(scale.float(), factors.float(), rtol=1e-6)
    assert similarity_error(q.float(), wanted.float()) < 1e-4


def test_a_group_that_does_not_divide_the_row_is_refused(device):
    x = torch.ones(2, 40, device=device)
    with pytest.raises(ValueError, match="a multiple of 24 channels"):
        rmsnorm(x, x, eps=1e-6, group=24)


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="gigabytes")
def test_beyond_two_to_the_31_elements(device, generator):
    x = torch.empty((1 << 31) // 4096 + 40, 4096, device=device, dtype=torch.bfloat16)
    x.normal_(generator=generator)
    y, last = torch.empty_like(x), x[-50:].double()
    rmsnorm(x, y, eps=1e-6)
    wanted = last * torch.rsqrt(last.square().mean(-1, keepdim=True) + 1e-6)
    assert similarity_error(y[-50:], wanted) < 1e-5
