"""Properties of KDA beyond parity: state carried over, any cut, any chunk, repeated keys."""

import dataclasses

import pytest
import torch

from day0_kernels.case import converted
from day0_kernels.common.windows import Sizes
from day0_kernels.kda import chunked, reference, segment
from day0_kernels.kda.cases import BOUNDED, SOFTPLUS, Case, inputs
from day0_kernels.kda.decode import kda_decode, kda_verify
from day0_kernels.kda.launch import diagonal_block, prefill_launch
from day0_kernels.kda.prefill import kda_prefill, run
from tests.kernels.recurrences import near, part, without

FORMS = pytest.mark.parametrize("form", [BOUNDED, SOFTPLUS], ids=["bounded", "softplus"])


def arguments(lengths, generator, device, form, pair="prefill", dtype="fp32", **dims):
    attrs = {"num_heads": 2, "head_dim": 16, "value_dim": 32, **form}
    case = Case(name="x", pair=pair, dtype=dtype, attrs=attrs, dims={"lengths": lengths, **dims})
    return inputs(case, device, generator)


@FORMS
@pytest.mark.parametrize("cut", [1, 31, 32, 50])
def test_split_prefill_is_whole_prefill(form, cut, generator, device):
    whole = arguments((70,), generator, device, form)
    pieces = converted(whole)
    kda_prefill(**whole)
    kda_prefill(**part(pieces, 0, cut, 0))
    kda_prefill(**part(pieces, cut, 70, cut))
    near(pieces["o"], whole["o"])
    near(pieces["state"], whole["state"])


@FORMS
def test_prefill_is_decode_token_by_token(form, generator, device):
    whole = arguments((9,), generator, device, form, carried=(0,))
    steps = converted(whole)
    kda_prefill(**whole)
    for t in range(9):
        kda_decode(**without(part(steps, t, t + 1, 5 + t), "cu_seqlens"))
    near(steps["o"], whole["o"])
    near(steps["state"], whole["state"])


def test_ragged_is_one_by_one(generator, device):
    batch = arguments((40, 0, 3), generator, device, BOUNDED, carried=(2,))
    alone = converted(batch)
    kda_prefill(**batch)
    for index, (first, last) in enumerate(((0, 40), (40, 43))):
        which = 2 * index
        one = part(alone, first, last, int(alone["start"][which]))
        one |= {name: alone[name][which : which + 1] for name in ("slot", "start")}
        kda_prefill(**one)
    assert torch.equal(alone["o"], batch["o"])
    assert torch.equal(alone["state"].nan_to_num(), batch["state"].nan_to_num())


@FORMS
@pytest.mark.parametrize(
    "change",
    [{"chunk": 16}, {"chunk": 64}, {"segments": 3}, {"window": 2}, {"segments": 2, "window": 3}],
    ids=lambda change: "-".join(f"{k}{v}" for k, v in change.items()),
)
def test_launch_does_not_change_the_result(form, change, generator, device):
    first = arguments((100, 33), generator, device, form, carried=(1,))
    second = converted(first)
    reference.kda_prefill(**first)
    sizes = Sizes(
        num_tokens=133, num_sequences=2, num_heads=2, num_key_heads=2, head_dim=16, value_dim=32,
        scalar=False, exact=True,
    )  # fmt: skip
    bound = form["lower_bound"]
    launch = prefill_launch(sizes, bound)
    change = {"diagonal": diagonal_block(change.get("chunk", launch.chunk), bound), **change}
    names = ("q k v gate beta a_log dt_bias state o cu_seqlens slot start").split()
    run(
        *(second[name] for name in names), sizes=sizes, lower_bound=bound, workspace=None,
        launch=dataclasses.replace(launch, **change),
    )  # fmt: skip
    near(second["o"], first["o"])
    near(second["state"], first["state"])


def test_verify_keeps_every_state(generator, device):
    a = arguments((3,), generator, device, BOUNDED, pair="verify", versions=4, carried=(0,))
    kda_verify(**a)
    at = int(a["slot"][0])
    resumed = converted(a)
    # accept two of three tokens, then decode the third from version 1: the same as verified
    step = without(part(resumed, 2, 3, 7), "cu_seqlens", "version")
    kda_decode(**{**step, "state": resumed["state"][:, 1]})
    near(resumed["o"], a["o"])
    near(resumed["state"][at, 1], a["state"][at, 2])


@FORMS
@pytest.mark.parametrize("window", [None, 1])
def test_ranks_in_a_row_are_one_sequence(form, window, generator, device):
    """Context parallelism: (A, B) of every rank, the states between, then each rank's tokens."""
    whole = arguments((100,), generator, device, form, carried=(0,))
    at = int(whole["slot"][0])
    state = whole["state"][at : at + 1].clone()
    ranks = [part(converted(whole), *cut) for cut in ((0, 37, 5), (37, 70, 42), (70, 100, 75))]
    kda_prefill(**whole)
    names = "k v gate beta a_log dt_bias".split()
    a, b = torch.full((3, 1, 2, 16, 16), torch.nan), torch.full((3, 1, 2, 16, 32), torch.nan)
    a, b = a.to(device), b.to(device)
    for index, rank in enumerate(ranks):
        sizes = Sizes(
            num_tokens=rank["k"].shape[0], num_sequences=1, num_heads=2, num_key_heads=2,
            head_dim=16, value_dim=32, scalar=False, exact=True,
        )  # fmt: skip
        launch = prefill_launch(sizes, form["lower_bound"])
        segment.run(
            *(rank[name] for name in names), a[index], b[index], rank["cu_seqlens"], sizes=sizes,
            lower_bound=form["lower_bound"], workspace=None,
            launch=dataclasses.replace(launch, window=window or launch.window),
        )  # fmt: skip
    for index, rank in enumerate(ranks):
        rank["state"][at] = segment.entering_state(a, b, state, index)[0]
        kda_prefill(**rank)
    near(torch.cat([rank["o"] for rank in ranks]), whole["o"])
    near(ranks[-1]["state"], whole["state"])


def test_segments_compose_in_double_precision(generator, device):
    whole = converted(arguments((50,), generator, device, SOFTPLUS, carried=(0,)), torch.float64)
    at = int(whole["slot"][0])
    state = whole["state"][at : at + 1].clone()
    a, b = state.new_empty(2, 1, 2, 16, 16), state.new_empty(2, 1, 2, 16, 32)
    for index, cut in enumerate(((0, 20, 0), (20, 50, 0))):
        rank = without(part(whole, *cut), "q", "o", "state", "slot", "start")
        reference.kda_segment(**rank, transition_a=a[index], transition_b=b[index])
    reference.kda_prefill(**whole)
    near(segment.entering_state(a, b, state, 2)[0], whole["state"][at], 1e-12)


@FORMS
def test_chunked_reference_is_the_recurrence(form, generator, device):
    a = converted(arguments((50,), generator, device, form, carried=(0,)), torch.float64)
    sizes = {name: a[name] for name in ("num_heads", "head_dim", "value_dim")}
    parts = reference.prepared(
        *(a[n] for n in "q k v gate beta a_log dt_bias".split()), **sizes, **form
    )
    q, k, v, g, beta = (x[:, 1] for x in parts)
    s = a["state"][int(a["slot"][0]), 1].clone()
    reference.kda_prefill(**a)
    out, final = chunked.chunked(s, q, k, v, g, beta, 16)
    near(out, a["o"][:, 32:], 1e-12)
    near(final, a["state"][int(a["slot"][0]), 1], 1e-12)
    first, second = (
        chunked.segment_transition(k[i], v[i], g[i], beta[i], 16)
        for i in (slice(0, 20), slice(20, 50))
    )
    near(second[0] @ (first[0] @ s + first[1]) + second[1], final, 1e-12)


def test_repeated_keys_without_decay_stay_bounded(generator, device):
    a = arguments((256,), generator, device, BOUNDED, same_keys=True, gate_shift=-12.0)
    truth = converted(a, torch.float64)
    kda_prefill(**a)
    reference.kda_prefill(**truth)
    near(a["o"], truth["o"], 1e-4)


def test_wrong_shape_is_named(generator, device):
    a = arguments((4,), generator, device, BOUNDED)
    with pytest.raises(ValueError, match=r"gate must be \[T, n\*dk\] = \[4, 32\], got \[4, 31\]"):
        kda_prefill(**{**a, "gate": a["gate"][:, :31]})
    with pytest.raises(ValueError, match="decay must be one of bounded, softplus"):
        kda_prefill(**{**a, "decay": "other"})
