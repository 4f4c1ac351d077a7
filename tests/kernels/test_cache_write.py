"""The write of new entries: nothing is written for a row that has no place, at any address; codes
and scales are those of the definition, bit for bit."""

import pytest
import torch

from day0_kernels.cache_write import reference
from day0_kernels.cache_write.cases import CASES, inputs
from day0_kernels.cache_write.reference import cache_write as defined
from day0_kernels.quant.reference import FP8


@pytest.fixture
def cache_write():
    from day0_kernels.cache_write import cache_write

    return cache_write


@pytest.fixture
def cache_write_quantised():
    from day0_kernels.cache_write import cache_write_quantised

    return cache_write_quantised


def given(device, generator, name="keys-values"):
    case = next(case for case in CASES if case.name == name)
    return inputs(case, device, generator)


@pytest.mark.parametrize("field", ["positions", "seq", "table"])
@pytest.mark.parametrize("wrong", [-1, -(2**40), 2**40, "end"])
def test_a_row_outside_the_table_writes_nothing(cache_write, device, generator, field, wrong):
    arguments = given(device, generator)
    width, size = arguments["table"].shape[1], arguments["pages"].shape[1]
    ends = {"positions": width * size, "seq": len(arguments["table"]),
            "table": len(arguments["pages"])}  # fmt: skip
    arguments[field].fill_(ends[field] if wrong == "end" else wrong)
    before = {name: arguments[name].clone() for name in ("pages", "pages_1")}
    cache_write(**arguments)
    defined(**arguments)
    for name, pages in before.items():
        assert torch.equal(arguments[name], pages)


def test_the_last_place_of_a_table_is_written(cache_write, device, generator):
    arguments = given(device, generator)
    last = arguments["table"].shape[1] * arguments["pages"].shape[1] - 1
    page = int(arguments["table"][1, -1])
    arguments["positions"].fill_(last)
    arguments["seq"].fill_(1)
    for name in ("x", "x_1"):
        arguments[name][1:] = arguments[name][0]
    cache_write(**arguments)
    assert page > 0
    assert torch.equal(arguments["pages"][page, -1], arguments["x"][0])
    assert torch.equal(arguments["pages_1"][page, -1], arguments["x_1"][0])


def test_padding_rows_are_not_kept(cache_write, device, generator):
    """Rows of a fixed buffer beyond the batch: position 0 of a sequence without pages."""
    arguments = given(device, generator)
    arguments["table"][0] = 0
    arguments["seq"].zero_()
    arguments["positions"].zero_()
    before = arguments["pages"].clone()
    cache_write(**arguments)
    assert torch.equal(arguments["pages"], before)


@pytest.mark.gpu
def test_addresses_beyond_32_bits(cache_write, generator):
    pages = torch.zeros(300_000, 16, 512, dtype=torch.bfloat16, device="cuda")
    x = torch.randn(1, 512, generator=generator, device="cuda").bfloat16()
    table = torch.tensor([[299_999]], device="cuda")
    cache_write(x, pages, table, *torch.tensor([[15], [0]], device="cuda"))
    assert torch.equal(pages[-1, -1], x[0])
    assert not pages[:-1].any()


def test_halves_of_a_part_are_refused(cache_write, device, generator):
    arguments = given(device, generator)
    del arguments["pages_1"]
    with pytest.raises(ValueError, match="given together"):
        cache_write(**arguments)


@pytest.mark.parametrize("mx", [False, True], ids=["tiles", "mx"])
@pytest.mark.parametrize("heads", [1, 3])
def test_codes_and_scales(cache_write_quantised, heads, mx, device, generator):
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


def test_a_width_that_does_not_divide_the_row_is_refused(cache_write_quantised, device):
    x = torch.ones(1, 40, device=device)
    pages, scales = torch.zeros(2, 4, 40, device=device).to(FP8), torch.zeros(2, 4, 1)
    zeros = torch.zeros(1, dtype=torch.int64, device=device)
    with pytest.raises(ValueError, match="a multiple of 24 channels"):
        cache_write_quantised(x, pages, scales, zeros[None], zeros, zeros, width=24)


@pytest.mark.parametrize("field", ["positions", "seq", "table"])
@pytest.mark.parametrize("wrong", [-1, 2**40])
def test_a_quantised_row_outside_the_table_writes_nothing(
    cache_write_quantised, device, generator, field, wrong
):
    arguments = given(device, generator, "fp8-heads")
    arguments[field].fill_(wrong)
    before = {name: arguments[name].clone() for name in ("pages", "scale_pages")}
    cache_write_quantised(**arguments)
    for name, pages in before.items():
        assert torch.equal(arguments[name].view(torch.uint8), pages.view(torch.uint8))
