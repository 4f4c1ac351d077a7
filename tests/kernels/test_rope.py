"""Rotary embedding: in place, turned back, and what the kernel refuses."""

import pytest
import torch

from day0_kernels.rope import reference, rope

ATTRS = {"theta": 1e4, "num_heads": 2, "dims": 8, "place": "last", "pairing": "interleaved"}


@pytest.fixture
def given(device, generator):
    x = torch.randn(5, 2 * 20, generator=generator, device=device)
    return x, torch.tensor([0, 3, 1000, 7, 65], device=device)


def test_in_place_is_as_beside(given):
    x, positions = given
    y = torch.empty_like(x)
    rope(x, y, positions, **ATTRS)
    rope(x, x, positions, **ATTRS)
    assert torch.equal(x, y)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_turning_back_gives_the_input(given, pairing):
    x, positions = given
    attrs = {**ATTRS, "pairing": pairing}
    y, back = torch.empty_like(x), torch.empty_like(x)
    rope(x, y, positions, **attrs)
    rope(y, back, positions, **attrs, inverse=True)
    assert torch.allclose(back, x, atol=1e-6)
    assert not torch.allclose(y, x, atol=1e-2)


def test_each_table_is_kept_apart(given):
    # tables are cached by their attributes: the second must not get the first's speeds
    x, positions = given
    for theta in (1e4, 1e6):
        y, wanted = torch.empty_like(x), torch.empty_like(x)
        rope(x, y, positions, **{**ATTRS, "theta": theta})
        reference.rope(x, wanted, positions, **{**ATTRS, "theta": theta})
        assert torch.allclose(y, wanted, atol=1e-4)


def test_dynamic_is_refused(given):
    x, positions = given
    with pytest.raises(ValueError, match="must not be dynamic"):
        rope(x, x, positions, **ATTRS, scaling="dynamic")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="gigabytes")
def test_beyond_two_to_the_31_elements(device, generator):
    x = torch.empty((1 << 31) // 4096 + 40, 4096, device=device, dtype=torch.bfloat16)
    x.normal_(generator=generator)
    positions = torch.arange(len(x), device=device) % 1000
    attrs = {"theta": 1e4, "num_heads": 32, "dims": 128, "pairing": "half"}
    wanted = torch.empty_like(x[-50:])
    reference.rope(x[-50:], wanted, positions[-50:], **attrs)
    rope(x, x, positions, **attrs)
    assert torch.allclose(x[-50:].float(), wanted.float(), atol=0.05)
