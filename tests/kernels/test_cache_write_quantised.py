"""Quantised entries: the launch writes the codes and scales of the definition, bit for bit."""

import pytest
import torch

from day0_kernels.cache_write import cache_write_quantised, reference
from day0_kernels.quant.reference import FP8

GPU = torch.cuda.is_available()


@pytest.mark.parametrize("mx", [False, True], ids=["tiles", "mx"])
@pytest.mark.parametrize("heads", [1, 3])
def test_codes_and_scales(heads, mx, device, generator):
    """In fp32, where the arithmetic of both is the same; entries that are not written stay."""
    width, size = 160, 8
    x = torch.randn(11, heads * width, generator=generator, device=device) ** 3
    seq = torch.tensor([0] * 7 + [1] * 4, device=device)
    positions = torch.tensor([*range(5, 12), *range(0, 4)], device=device)
    table = torch.tensor([[3, 0], [2, 1]], device=device)  # positions from 8 on are kept no more
    tiles = heads * -(-width // (32 if mx else 128))
    kind = torch.uint8 if mx else torch.float32
    found = []
    for write in (reference.cache_write_quantised, cache_write_quantised):
        pages = torch.full((4, size, heads * width), 1.0, device=device).to(FP8)
        scales = torch.full((4, size, tiles), 7, device=device, dtype=kind)
        write(x, pages, scales, table, positions, seq, width=width)
        found.append((pages.float(), scales))
    (wanted, factors), (codes, scales) = found
    assert torch.equal(codes, wanted)
    assert torch.equal(scales, factors)
    assert bool((scales[0] == 7).all())  # page 0 is nobody's
    assert bool((scales[3, 5:] != 7).all())
    assert bool((scales[3, :5] == 7).all())


def test_a_width_that_does_not_divide_the_row_is_refused(device):
    x = torch.ones(1, 40, device=device)
    pages, scales = torch.zeros(2, 4, 40, device=device).to(FP8), torch.zeros(2, 4, 1)
    zeros = torch.zeros(1, dtype=torch.int64, device=device)
    with pytest.raises(ValueError, match="a multiple of 24 channels"):
        cache_write_quantised(x, pages, scales, zeros[None], zeros, zeros, width=24)
