"""Properties of latent attention over pages that parity with a definition does not show."""

import pytest
import torch

from day0_kernels.case import converted
from day0_kernels.common.paged import history_of, in_pages
from day0_kernels.mla.inputs import case, inputs
from day0_kernels.mla.paged import entries_of

TINY = {"dtype": "fp32", "rope": 16, "latent": 32, "page": 16}


@pytest.fixture
def attention():
    from day0_kernels.mla.core import latent_attention

    return latent_attention


def given(device, generator, *, rows=1, selected=0, fp8=False, lengths=(70, 9), **more):
    sizes = TINY | ({"latent": 128} if fp8 else {}) | more
    one = case("x", "core", lengths, 3, rows=rows, selected=selected, fp8=fp8, **sizes)
    return inputs(one, device, generator)


def close(left, right):
    torch.testing.assert_close(left, right, rtol=2e-5, atol=2e-6)


def test_a_selection_of_everything_is_dense(attention, device, generator):
    dense = given(device, generator, rows=2)
    attention(**dense)
    every = torch.arange(79, -1, -1, dtype=torch.int32, device=device).repeat(4, 1)
    sparse = {**dense, "mixed": torch.full_like(dense["mixed"], float("nan")), "selected": every}
    attention(**sparse)
    close(sparse["mixed"], dense["mixed"])


def test_a_row_of_a_prompt_is_a_decode_step(attention, device, generator):
    whole = given(device, generator, rows=9, selected=24)
    attention(**whole)
    for row in range(len(whole["q_latent"])):
        alone = {**whole, "mixed": torch.full_like(whole["mixed"][:1], float("nan"))}
        for name in ("q_latent", "q_rope", "positions", "seq", "selected"):
            alone[name] = whole[name][row : row + 1]
        attention(**alone)
        close(alone["mixed"][0], whole["mixed"][row])


@pytest.mark.parametrize("size", [16, 64])
@pytest.mark.parametrize("selected", [0, 24])
def test_page_size_and_order_change_nothing(attention, device, generator, size, selected):
    first = given(device, generator, selected=selected)
    attention(**first)
    moved = converted(first)
    both = torch.cat((first["latent_pages"], first["k_rope_pages"]), dim=-1)
    entries, _ = history_of(both, first["table"], [70, 9])
    pages, moved["table"] = in_pages(entries, [70, 9], size, generator)
    moved["latent_pages"], moved["k_rope_pages"] = pages[..., :32], pages[..., 32:]
    moved["mixed"].fill_(float("nan"))
    attention(**moved)
    close(moved["mixed"], first["mixed"])


def test_fp8_pages_are_their_dequantised_values(attention, device, generator):
    packed = given(device, generator, fp8=True)
    attention(**packed)
    wide, _ = entries_of(
        packed["latent_pages"], packed["latent_scale_pages"], packed["table"], [70, 9],
        torch.float32,
    )  # fmt: skip
    rope, _ = history_of(packed["k_rope_pages"], packed["table"], [70, 9])
    pages, table = in_pages(torch.cat((wide, rope), dim=-1), [70, 9], 16, generator)
    plain = {**packed, "latent_pages": pages[..., :128], "k_rope_pages": pages[..., 128:],
             "latent_scale_pages": None, "table": table}  # fmt: skip
    plain["mixed"] = torch.full_like(packed["mixed"], float("nan"))
    attention(**plain)
    close(plain["mixed"], packed["mixed"])


def test_a_row_without_a_selection_is_zero(attention, device, generator):
    empty = given(device, generator, selected=24)
    empty["selected"].fill_(-1)
    attention(**empty)
    assert torch.equal(empty["mixed"], torch.zeros_like(empty["mixed"]))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"latent_scale_pages": torch.zeros(1)}, "FP8 pages alone"),
        ({"q_rope": None}, "given together"),
        ({"selected": torch.zeros(3, 8, dtype=torch.int32)}, "selected must be"),
    ],
)
def test_what_does_not_fit_is_refused(attention, device, generator, change, complaint):
    with pytest.raises(ValueError, match=complaint):
        attention(**{**given(device, generator), **change})
