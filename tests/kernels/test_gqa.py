"""Properties of grouped-query attention that parity with a definition does not show."""

from dataclasses import replace

import pytest
import torch

from day0_kernels.case import converted
from day0_kernels.common.paged import also_in_pages, history_of, in_pages
from day0_kernels.gqa.gathered import gqa_gathered
from day0_kernels.gqa.inputs import case, inputs
from day0_kernels.gqa.paged import gqa_paged as defined
from day0_kernels.gqa.reference import gqa
from tests.kernels.ragged import Step, close, drawn

SIZES = {"num_heads": 6, "num_kv_heads": 2, "head_dim": 12, "value_dim": 12, "scale": 0.4}
PARTS = ("key_pages", "value_pages")


@pytest.fixture
def attention():
    from day0_kernels.gqa.attention import gqa_paged

    return gqa_paged


@pytest.fixture
def selected_attention():
    from day0_kernels.sparse_gqa.attention import sparse_gqa_paged

    return sparse_gqa_paged


def given(device, generator, lengths=(37, 9), **more):
    return inputs(
        case("x", lengths, (4, 2), **{"dtype": "fp32", "dim": 16} | more), device, generator
    )


def blank(y):
    return torch.full_like(y, float("nan"))


def found(attention, arguments, **changed):
    arguments = {**arguments, **changed}
    arguments["y"] = blank(arguments["y"])
    attention(**arguments)
    return arguments["y"]


@pytest.mark.parametrize("starts", [(0, 0, 0), (5, 0, 3)])
def test_torchs_attention_is_the_definition(seed, starts):
    draw, lengths = drawn(seed), (4, 1, 7)
    full = [draw(s + n, 2, 12) for s, n in zip(starts, lengths, strict=True)]
    step = Step(ids=(0, 1, 2), starts=starts, lengths=lengths)
    key, cu, first = step.history(full)
    value, q = draw(*key.shape), draw(12, 6 * 12)
    theirs, wanted = step.empty(72), step.empty(72)
    for function, y in ((gqa_gathered, theirs), (gqa, wanted)):
        function(q, key, value, y, step.cu_seqlens, step.positions, cu, first, **SIZES)
    close(theirs, wanted, 2e-6)


@pytest.mark.parametrize("size", [24, 64])
@pytest.mark.parametrize("window", [0, 20])
def test_page_size_and_order_change_nothing(attention, device, generator, size, window):
    lengths = [37, 9]
    first = given(device, generator, rows=2, window=0)
    first["window"] = window
    moved = converted(first)
    entries, _ = history_of(first["key_pages"], first["table"], lengths)
    moved["key_pages"], moved["table"] = in_pages(entries, lengths, size, generator)
    entries, _ = history_of(first["value_pages"], first["table"], lengths)
    moved["value_pages"] = also_in_pages(entries, moved["table"], lengths, size)
    close(found(attention, moved), found(attention, first), 1e-6)


@pytest.mark.parametrize("window", [0, 7])
def test_a_row_of_a_prompt_is_a_decode_step(attention, device, generator, window):
    whole = given(device, generator, (21, 9), rows=0, window=window, sink=True)
    y = found(attention, whole)
    # every row a sequence of its own, with the pages of the one it came from
    count = len(y)
    alone = {
        **whole, "table": whole["table"][whole["seq"]],
        "seq": torch.arange(count, device=device),
        "cu_seqlens": torch.arange(count + 1, device=device),
    }  # fmt: skip
    close(found(attention, alone), y, 1e-6)


@pytest.mark.parametrize("rows", [1, 0])
@pytest.mark.parametrize("length", [6, 7, 8, 33])
def test_a_window_of_7_sees_7(attention, device, generator, rows, length):
    """At lengths beside the window: as the definition; what is older may be anything, and what is
    oldest inside counts."""
    whole = given(device, generator, (length,), rows=rows, window=7)
    wanted = blank(whole["y"])
    defined(**{**whole, "y": wanted})
    y = found(attention, whole)
    close(y, wanted, 1e-5)
    row = len(y) - 1  # the last row, at position length - 1
    oldest = max(length - 7, 0)
    for at, changes in ((oldest - 1, False), (oldest, True)):
        if at < 0:
            continue
        other = converted(whole)
        page = other["table"][0, at // 16]
        if not page:  # fell out of the window, so its page was given back
            continue
        for part in PARTS:
            other[part][page, at % 16] = 50.0
        assert torch.equal(found(attention, other)[row], y[row]) is not changes


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("window", [0, 7])
def test_pages_of_others_may_hold_anything(attention, device, generator, rows, window):
    whole = given(device, generator, rows=rows, window=window)
    other = converted(whole)
    for part in PARTS:
        size = other[part].shape[1]
        own = torch.zeros(other[part].shape[:2], dtype=torch.bool, device=device)
        for row, position in zip(other["seq"].tolist(), other["positions"].tolist(), strict=True):
            for at in range(max(position + 1 - window, 0) if window else 0, position + 1):
                own[other["table"][row, at // size], at % size] = True
        other[part][~own] = float("nan")
        more = torch.full_like(other[part][:3], float("nan"))
        other[part] = torch.cat((other[part], more))
    assert torch.equal(found(attention, other), found(attention, whole))


@pytest.mark.parametrize("rows", [1, 5])
def test_splits_change_nothing(attention, device, generator, rows):
    from day0_kernels.gqa.attention import launch_of, run

    whole = given(device, generator, (100, 3), rows=rows, window=0, sink=True)
    names = ("q", "key_pages", "value_pages", "table", "cu_seqlens")
    launch = launch_of(*(whole[name] for name in names), None, num_heads=4, num_kv_heads=2)
    outputs = []
    for splits in (1, 2, 7):
        y = blank(whole["y"])
        run(**{**whole, "y": y}, key_scale_pages=None, value_scale_pages=None, selected=None,
            workspace=None, launch=replace(launch, splits=splits))  # fmt: skip
        outputs.append(y)
    close(outputs[1], outputs[0], 1e-6)
    close(outputs[2], outputs[0], 1e-6)


@pytest.mark.parametrize("dim", [16, 256])
def test_fp8_pages_are_their_dequantised_values(attention, device, generator, dim):
    lengths = (21, 3)
    packed = given(device, generator, lengths, fp8=True, dim=dim)
    plain = converted(packed)
    for part in ("key", "value"):
        codes, _ = history_of(packed[f"{part}_pages"], packed["table"], list(lengths))
        scales, _ = history_of(packed[f"{part}_scale_pages"], packed["table"], list(lengths))
        wide = codes.float() * scales.repeat_interleave(min(dim, 128), dim=1)
        plain[f"{part}_pages"] = also_in_pages(wide, packed["table"], list(lengths), 16)
        plain[f"{part}_scale_pages"] = None
    close(found(attention, packed), found(attention, plain), 1e-5)


def test_a_selection_of_everything_is_dense(
    attention, selected_attention, device, generator
):  # fmt: skip
    dense = given(device, generator, rows=2)
    sparse = {name: value for name, value in dense.items() if name not in ("window", "softcap")}
    order = torch.randperm(13, generator=generator, device=device).to(torch.int32)
    sparse |= {"selected": order.repeat(4, 2), "num_selected": 13, "block": 3, "num_lists": 2}
    close(found(selected_attention, sparse), found(attention, dense), 1e-6)


def test_a_row_without_a_selection_is_zero(selected_attention, device, generator):
    sparse = given(device, generator, selected=5)
    sparse["selected"].fill_(-1)
    assert torch.equal(found(selected_attention, sparse), torch.zeros_like(sparse["y"]))


def test_a_selected_row_of_a_prompt_is_a_decode_step(selected_attention, device, generator):
    whole = given(device, generator, (19,), rows=5, selected=3, block=4, lists=2)
    y = found(selected_attention, whole)
    for row in range(len(y)):
        own = {name: whole[name][row : row + 1] for name in ("q", "positions", "seq", "selected")}
        own |= {"y": y[row : row + 1], "cu_seqlens": torch.tensor([0, 1], device=device)}
        close(found(selected_attention, {**whole, **own}), y[row : row + 1], 1e-6)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"num_kv_heads": 3}, "n must be a multiple of nkv = 3"),
        ({"key_scale_pages": torch.zeros(1)}, "FP8 pages alone"),
        ({"scale": -1.0}, "scale must be above 0"),
        ({"head_dim": 512}, "at most 256 channels"),
        ({"positions": torch.zeros(7)}, "positions must be"),
    ],
)
def test_what_does_not_fit_is_refused(attention, device, generator, change, complaint):
    with pytest.raises(ValueError, match=complaint):
        attention(**{**given(device, generator), **change})


def test_lists_that_cut_key_heads_are_refused(selected_attention, device, generator):
    sparse = given(device, generator, selected=5, lists=4)
    with pytest.raises(ValueError, match="multiple of the lists, got 4"):
        selected_attention(**sparse)


@pytest.mark.gpu
def test_pages_beyond_2_to_the_31(attention, device, generator):
    near = given(device, generator, (37,), dim=512 // 2, dtype="fp16")
    far = dict(near)
    pages = 2**31 // (16 * 512) + 8  # of 16 entries of 2 heads of 256
    for part in PARTS:
        far[part] = torch.zeros(pages, 16, 512, dtype=torch.float16, device=device)
        far[part][-4:] = near[part][:4]
    far["table"] = near["table"] + pages - 4
    assert torch.equal(found(attention, far), found(attention, near))
