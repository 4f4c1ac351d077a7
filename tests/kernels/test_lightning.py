"""Properties of lightning attention's kernels beyond parity: carried state, any cut, any launch."""

import dataclasses

import pytest

from day0_kernels.case import converted
from day0_kernels.lightning import reference
from day0_kernels.lightning.cases import Case, inputs
from day0_kernels.lightning.decode import lightning_decode
from day0_kernels.lightning.launch import prefill_launch
from day0_kernels.lightning.prefill import lightning_prefill, run
from tests.kernels.recurrences import near, part, without

SIZES = {"num_heads": 2, "head_dim": 16}


def arguments(lengths, generator, device, pair="prefill", **dims):
    attrs = {**SIZES, "slope_scale": 0.3}
    dims = {"lengths": lengths, **dims}
    return inputs(
        Case(name="x", pair=pair, dtype="fp32", attrs=attrs, dims=dims), device, generator
    )


@pytest.mark.parametrize("cut", [1, 32, 50])
def test_split_prefill_is_whole_prefill(cut, generator, device):
    whole = arguments((70,), generator, device)
    pieces = converted(whole)
    lightning_prefill(**whole)
    lightning_prefill(**part(pieces, 0, cut, 0))
    lightning_prefill(**part(pieces, cut, 70, cut))
    near(pieces["y"], whole["y"])
    near(pieces["state"], whole["state"])


def test_prefill_is_decode_token_by_token(generator, device):
    whole = arguments((9,), generator, device, carried=(0,))
    steps = converted(whole)
    lightning_prefill(**whole)
    for t in range(9):
        lightning_decode(**without(part(steps, t, t + 1, 5 + t), "cu_seqlens"))
    near(steps["y"], whole["y"])
    near(steps["state"], whole["state"])


@pytest.mark.parametrize(
    "change",
    [{"chunk": 16}, {"chunk": 64}, {"segments": 2}, {"segments": 3, "chunk": 16}, {"segments": 8}],
    ids=lambda change: "-".join(f"{k}{v}" for k, v in change.items()),
)
def test_launch_does_not_change_the_result(change, generator, device):
    first = arguments((100, 0, 33), generator, device, carried=(0, 2))
    second = converted(first)
    reference.lightning(**first)
    launch = prefill_launch(num_tokens=133, num_sequences=3, exact=True, **SIZES)
    run(**second, workspace=None, launch=dataclasses.replace(launch, **change))
    near(second["y"], first["y"])
    near(second["state"], first["state"])


def test_few_heads_are_cut_and_many_are_not():
    sizes = {"num_tokens": 8192, "num_sequences": 1, "head_dim": 128, "exact": False}
    assert prefill_launch(num_heads=64, **sizes).segments == 1
    assert prefill_launch(num_heads=8, **sizes).segments == 8
    assert prefill_launch(num_heads=8, **{**sizes, "num_tokens": 512}).segments == 1


def test_wrong_arguments_are_named(generator, device):
    a = arguments((4,), generator, device)
    with pytest.raises(ValueError, match=r"k must be \[T, n\*d\] = \[4, 32\], got \[4, 31\]"):
        lightning_prefill(**{**a, "k": a["k"][:, :31]})
    with pytest.raises(ValueError, match="must be bfloat16 or float32, got torch.float16"):
        lightning_prefill(**{**a, "q": a["q"].half()})
