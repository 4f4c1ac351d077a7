"""Properties of the indexers over pages that parity with a definition does not show."""

from dataclasses import replace

import pytest
import torch

from day0_kernels.case import converted
from day0_kernels.common.paged import history_of, in_pages
from day0_kernels.indexer.cases import case, inputs
from day0_kernels.indexer.paged import indexer_paged as definition

SIZES = {"dtype": "fp32", "heads": 4, "dim": 16, "page": 16, "top_k": 20}
LARGE = {"block_entries": 128, "chunk": 512}  # the interpreter's time is that of its steps
POOLED = {"pool": "softmax", "block": 4, "tail": True, "page": 4}


@pytest.fixture
def best():
    from day0_kernels.indexer import best

    return best


def given(device, generator, lengths=(70, 9), rows=1, **more):
    return inputs(case("x", lengths, rows=rows, **SIZES | more), device, generator)


def normal(arguments, generator):
    """The same with queries and keys whose scores are no whole numbers."""
    for name in ("q", "entry_pages"):
        noise = torch.randn(arguments[name].shape, generator=generator, device=generator.device)
        arguments[name] = torch.where(arguments[name].isnan(), arguments[name], noise)
    return arguments


def poisoned(arguments):
    return {**arguments, "selected": torch.full_like(arguments["selected"], 1 << 30)}


def chosen(best, arguments, **changes):
    """`selected` by the kernels; `changes` to the usual launch."""
    names = ("num_heads", "top_k", "pool", "block", "unit", "tail", "num_lists")
    attrs = {"pool": "none", "block": 1, "unit": "token", "tail": False, "num_lists": 1,
             "relu": True, "local_blocks": 0}  # fmt: skip
    whole = attrs | poisoned(arguments)
    launch = best.launch_of(
        whole["q"],
        whole["entry_pages"],
        whole["table"],
        whole["entry_scale_pages"],
        **{name: whole[name] for name in names},
    )
    best.run(**whole, workspace=None, launch=replace(launch, **LARGE | changes))
    return whole["selected"]


def expected(arguments):
    whole = poisoned(arguments)
    definition(**whole)
    return whole["selected"]


K = SIZES["top_k"]
BORDERS = sorted({max(at + d, 1) for at in (1, 64, 128, K, 1024) for d in (-1, 0, 1)})


@pytest.mark.parametrize("top_k", [1, K])
def test_numbers_around_every_border(best, device, generator, top_k):
    """As many as there are, in range, causal, ascending, none twice."""
    arguments = given(device, generator, tuple(BORDERS), rows=2, top_k=top_k, largest=2)
    selected = chosen(best, arguments)
    assert torch.equal(selected, expected(arguments))
    for numbers, position in zip(selected.tolist(), arguments["positions"].tolist(), strict=True):
        count = min(position + 1, top_k)
        assert numbers[count:] == [-1] * (top_k - count)
        named = numbers[:count]
        assert named == sorted(set(named))
        assert named[0] >= 0
        assert named[-1] <= position
        if position < top_k:
            assert named == list(range(position + 1))


@pytest.mark.parametrize("total", [3, 4, 5, 19, 20, 21, 24, 63, 64, 65, 4200])
def test_pools_and_tail_around_every_border(best, device, generator, total):
    arguments = given(device, generator, (total,), rows=3, **POOLED | {"top_k": 23})
    selected = chosen(best, arguments)
    assert torch.equal(selected, expected(arguments))
    for numbers, position in zip(selected.tolist(), arguments["positions"].tolist(), strict=True):
        named = [number for number in numbers if number >= 0]
        open_pool = list(range((position + 1) // 4 * 4, position + 1))
        assert len(named) == min((position + 1) // 4, 5) * 4 + len(open_pool)
        assert named == sorted(set(named))
        assert named[len(named) - len(open_pool) :] == open_pool


def test_a_row_of_a_prompt_is_a_decode_step(best, device, generator):
    whole = given(device, generator, (1300, 40), rows=3)
    selected = chosen(best, whole)
    for row in range(len(whole["q"])):
        names = ("q", "head_weights", "positions", "seq", "selected")
        alone = {**whole, **{name: whole[name][row : row + 1] for name in names}}
        assert torch.equal(chosen(best, alone)[0], selected[row])


@pytest.mark.parametrize("size", [8, 64, 128])
def test_page_size_and_order_change_nothing(best, device, generator, size):
    lengths = [1300, 70]
    first = normal(given(device, generator, tuple(lengths), rows=2), generator)
    moved = converted(first)
    entries, _ = history_of(first["entry_pages"], first["table"], lengths)
    moved["entry_pages"], moved["table"] = in_pages(entries, lengths, size, generator)
    assert torch.equal(chosen(best, moved), chosen(best, first))


@pytest.mark.parametrize("rows", [1, 3])
def test_tiles_segments_and_chunks_change_nothing(best, device, generator, rows):
    arguments = normal(given(device, generator, (1400, 300), rows=rows), generator)
    plain = chosen(best, arguments)
    assert torch.equal(plain, expected(arguments))
    assert torch.equal(chosen(best, arguments, pairs=4, block_pairs=4), plain)
    assert torch.equal(chosen(best, arguments, pairs=1, chunk=64, block_entries=32), plain)
    split = {"segments": 5, "segment_candidates": 512, "block_scores": 512}
    assert torch.equal(chosen(best, arguments, **split), plain)


def test_mxfp8_by_groups_and_folded_choose_alike(best, device, generator):
    """Codes as large as quantising makes them: scales that differ within a key lose nothing."""
    arguments = given(device, generator, (300, 40), rows=3, dim=128, scales="mx", largest=2)
    codes, scale = arguments["entry_pages"], arguments["entry_scale_pages"]
    arguments["entry_pages"] = (codes.float() * 64).to(codes.dtype)
    scale[..., 1] = torch.where(scale[..., 1] == 255, 255, 124)
    wanted = expected(arguments)
    assert torch.equal(chosen(best, arguments), wanted)
    assert torch.equal(chosen(best, arguments, mode=2, fold=True), wanted)


def test_mxfp8_names_nearly_what_wide_keys_do(best, device, generator):
    """Heavy-tailed keys, 256 of 2048: MXFP8 may move what lies at the border alone."""
    from day0_kernels.quant.reference import quant_mx

    sizes = {"rows": 4, "dim": 128, "heads": 16, "top_k": 256}
    plain = normal(given(device, generator, (2048,), **sizes), generator)
    pages = plain["entry_pages"]
    tails = torch.rand(pages.shape, generator=generator, device=device) ** -0.25
    pages = torch.where(pages.isnan(), pages, pages * tails)
    plain["entry_pages"] = pages
    code = torch.empty(pages.shape, dtype=torch.float8_e4m3fn, device=device)
    scale = torch.empty(*pages.shape[:2], 4, dtype=torch.uint8, device=device)
    quant_mx(pages.flatten(0, 1).nan_to_num(), code.flatten(0, 1), scale.flatten(0, 1))
    packed = {**plain, "entry_pages": code, "entry_scale_pages": scale}
    ours, wide = chosen(best, packed), chosen(best, plain)
    shares = [len(set(a) & set(b)) / 256 for a, b in zip(ours.tolist(), wide.tolist(), strict=True)]
    assert min(shares) > 0.9, shares


@pytest.mark.parametrize(
    "wrong",
    [{"margin": -4.0}, {"margin": 60.0, "row_candidates": 256}, {"segment_candidates": 8}],
    ids=["too-few-pass", "too-many-pass", "a-segment-overflows"],
)
@pytest.mark.parametrize("largest", [1, 7])
def test_a_wrong_guess_of_the_bound_costs_time_alone(best, device, generator, wrong, largest):
    arguments = given(device, generator, (2500, 300), largest=largest)
    assert torch.equal(chosen(best, arguments, **wrong), expected(arguments))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_scores_take_the_lower_numbers(best, device, generator, value):
    arguments = given(device, generator, (2500, 30), rows=2)
    arguments["entry_pages"] = torch.full_like(arguments["entry_pages"], value)
    lowest = torch.arange(K, dtype=torch.int32, device=device).expand(4, -1)
    assert torch.equal(chosen(best, arguments), lowest)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_numbers_are_right_whatever_the_keys_hold(best, device, generator, poison):
    arguments = given(device, generator, (2500, 30), rows=2)
    arguments["entry_pages"] = torch.full_like(arguments["entry_pages"], poison)
    for numbers, position in zip(
        chosen(best, arguments).tolist(), arguments["positions"].tolist(), strict=True
    ):
        named = [number for number in numbers if number >= 0]
        assert len(set(named)) == K
        assert named == sorted(named)
        assert named[-1] <= position


@pytest.mark.parametrize("mx", [False, True])
def test_scratch_stays_small(best, mx):
    """Under 64 MiB, however long the table and however many the rows."""
    kind = torch.float8_e4m3fn if mx else torch.bfloat16
    pool = torch.empty(1, 64, 128, dtype=kind, device="meta")
    scale = torch.empty(1, 64, 4, dtype=torch.uint8, device="meta") if mx else None
    for rows, sequences in ((1, 1), (8, 1), (128, 128), (1024, 256), (8192, 1), (8192, 64)):
        q = torch.empty(rows, 64 * 128, dtype=torch.bfloat16, device="meta")
        for pages in (1, 8, 129, 160, 512, 2048, 16384):
            table = torch.empty(sequences, pages, device="meta")
            for top_k in (512, 1024, 2048):
                size = best.workspace_bytes(
                    q, pool, table, scale, num_heads=64, head_dim=128, top_k=top_k
                )
                assert size < 64 << 20, (rows, sequences, pages, top_k, size / 2**20)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"pool": "median"}, "pool must be one of"),
        ({"top_k": 2, "pool": "mean", "block": 4, "tail": True}, "must hold a pool of 4"),
        ({"pool": "max", "block": 12, "unit": "block"}, "block of pooled scores"),
        ({"num_lists": 3}, "multiple of num_lists 3"),
        ({"entry_pages": torch.zeros(3, 16, 16, dtype=torch.bfloat16)}, "as q is"),
        ({"head_weights": torch.zeros(2, 5)}, "head_weights must be"),
    ],
)
def test_what_does_not_fit_is_refused(best, device, generator, change, complaint):
    arguments = given(device, generator) | change
    if "top_k" in change or "num_lists" in change:
        width = arguments["top_k"] * arguments.get("num_lists", 1)
        arguments["selected"] = torch.zeros(2, width, dtype=torch.int32, device=device)
    with pytest.raises(ValueError, match=complaint):
        best.indexer_paged(**arguments)
