"""Properties of the gated delta net beyond parity: carried state, any cut, any launch."""

import dataclasses

import pytest
import torch

from day0_kernels.case import converted
from day0_kernels.common.windows import Sizes, scan_launch
from day0_kernels.gdn import reference
from day0_kernels.gdn.cases import Case, inputs
from day0_kernels.gdn.decode import gdn_decode, gdn_verify
from day0_kernels.gdn.prefill import gdn_prefill, run
from tests.kernels.recurrences import near, part, without

SIZES = {"num_key_heads": 1, "num_heads": 2, "head_dim": 16, "value_dim": 32}


def arguments(lengths, generator, device, pair="prefill", beta_scale=1.0, **dims):
    attrs = {**SIZES, "beta_scale": beta_scale}
    dims = {"lengths": lengths, **dims}
    return inputs(
        Case(name="x", pair=pair, dtype="fp32", attrs=attrs, dims=dims), device, generator
    )


@pytest.mark.parametrize("cut", [1, 32, 50])
def test_split_prefill_is_whole_prefill(cut, generator, device):
    whole = arguments((70,), generator, device)
    pieces = converted(whole)
    gdn_prefill(**whole)
    gdn_prefill(**part(pieces, 0, cut, 0))
    gdn_prefill(**part(pieces, cut, 70, cut))
    near(pieces["y"], whole["y"])
    near(pieces["state"], whole["state"])


def test_prefill_is_decode_token_by_token(generator, device):
    whole = arguments((9,), generator, device, beta_scale=2.0, carried=(0,))
    steps = converted(whole)
    gdn_prefill(**whole)
    for t in range(9):
        gdn_decode(**without(part(steps, t, t + 1, 5 + t), "cu_seqlens"))
    near(steps["y"], whole["y"])
    near(steps["state"], whole["state"])


@pytest.mark.parametrize(
    "change",
    [{"chunk": 16}, {"chunk": 64}, {"segments": 3}, {"segments": 2, "window": 3}],
    ids=lambda change: "-".join(f"{k}{v}" for k, v in change.items()),
)
def test_launch_does_not_change_the_result(change, generator, device):
    first = arguments((100, 0, 33), generator, device, carried=(2,))
    second = converted(first)
    reference.gdn(**first)
    sizes = Sizes(num_tokens=133, num_sequences=3, scalar=True, exact=True, **SIZES)
    names = "q k v decay beta a_log dt_bias state y cu_seqlens slot start".split()
    run(
        *(second[name] for name in names), sizes=sizes, beta_scale=1.0, workspace=None,
        launch=dataclasses.replace(scan_launch(sizes), **change),
    )  # fmt: skip
    near(second["y"], first["y"])
    near(second["state"], first["state"])


def test_verify_keeps_every_state(generator, device):
    a = arguments((3,), generator, device, pair="verify", versions=4, carried=(0,))
    gdn_verify(**a)
    at = int(a["slot"][0])
    resumed = converted(a)
    # accept two of three tokens, then decode the third from version 1: the same as verified
    step = without(part(resumed, 2, 3, 7), "cu_seqlens", "version")
    gdn_decode(**{**step, "state": resumed["state"][:, 1]})
    near(resumed["y"], a["y"])
    near(resumed["state"][at, 1], a["state"][at, 2])


def test_repeated_keys_without_decay_stay_bounded(generator, device):
    a = arguments((256,), generator, device, beta_scale=2.0, same_keys=True, gate_shift=-12.0)
    truth = converted(a, torch.float64)
    gdn_prefill(**a)
    reference.gdn(**truth)
    near(a["y"], truth["y"], 1e-4)


def test_wrong_shape_is_named(generator, device):
    a = arguments((4,), generator, device)
    with pytest.raises(ValueError, match=r"decay must be \[T, n\] = \[4, 2\], got \[4, 1\]"):
        gdn_prefill(**{**a, "decay": a["decay"][:, :1]})
    with pytest.raises(ValueError, match="num_heads 2 must be a multiple of num_key_heads"):
        gdn_prefill(**{**a, "num_key_heads": 3})
