"""Routed experts: tiles, splits of the batch, and experts kept elsewhere change nothing."""

import pytest
import torch

from day0_kernels.case import op_module
from day0_kernels.compare import similarity_error
from day0_kernels.experts import experts, gate_up, reference
from day0_kernels.experts.launch import block_m
from day0_kernels.moe_route import moe_route_sort
from day0_kernels.moe_route.launch import max_tiles
from day0_kernels.quant.reference import blocks_of, rows_of

GPU = torch.cuda.is_available()
CASES = op_module("experts")


def case(name: str):
    return next(c for c in CASES.CASES if c.name == name)


def run(arguments, **changed):
    """`y` of the kernel for `arguments` with some of them changed."""
    given = {**arguments, **changed}
    given["y"] = torch.full_like(given["x"], float("nan"))
    experts(**given)
    return given["y"]


@pytest.fixture
def arguments(device, generator):
    return CASES.inputs(case("few"), device, generator)


def test_tokens_are_independent(arguments):
    whole = run(arguments)
    for part in (slice(0, 4), slice(4, 9)):
        cut = {n: arguments[n][part] for n in ("x", "experts", "weights")}
        assert torch.allclose(run(arguments, **cut), whole[part], rtol=1e-5, atol=1e-6)


def test_two_halves_of_the_experts_add_up(arguments):
    # expert parallelism: each rank keeps some experts and sees the others as -1
    whole, chosen = run(arguments), arguments["experts"]
    low = run(arguments, experts=torch.where(chosen < 2, chosen, -1))
    high = run(arguments, experts=torch.where(chosen >= 2, chosen, -1))
    assert torch.allclose(low + high, whole, rtol=1e-5, atol=1e-6)


def test_twice_is_bit_identical(arguments):
    assert torch.equal(run(arguments), run(arguments))


def test_no_expert_here_gives_zero(arguments):
    nowhere = torch.full_like(arguments["experts"], -1)
    assert torch.equal(run(arguments, experts=nowhere), torch.zeros_like(arguments["x"]))


def test_order_of_the_router_is_taken(arguments, device, generator):
    num_experts, top_k = arguments["num_experts"], arguments["top_k"]
    tokens = arguments["x"].shape[0]
    rows = tokens * top_k
    tile = block_m(num_rows=rows, num_experts=num_experts)
    logits = torch.randn(tokens, num_experts, generator=generator, device=device)
    whole = {"dtype": torch.int32, "device": device}
    order, offsets = torch.empty(rows, **whole), torch.empty(num_experts + 1, **whole)
    tiles = torch.empty(max_tiles(num_rows=rows, num_experts=num_experts, block_m=tile), 4, **whole)
    chosen, weights = torch.empty(tokens, top_k, **whole), torch.empty(tokens, top_k, device=device)
    moe_route_sort(
        logits, chosen, weights, order, offsets, tiles,
        block_m=tile, score="softmax", top_k=top_k, renormalise=True,
    )  # fmt: skip
    routed = {"experts": chosen, "weights": weights}
    assert torch.equal(run(arguments, **routed, order=order, tiles=tiles), run(arguments, **routed))


def test_fp8_is_near_the_unquantised_product(device, generator):
    given = CASES.inputs(case("fp8-few"), device, generator)
    x = rows_of(given["x"], given["x_scale"], torch.float64)
    plain = {
        "gate": blocks_of(given["gate"], given["gate_scale"], torch.float64),
        "up": blocks_of(given["up"], given["up_scale"], torch.float64),
    }
    rest = {n: given[n] for n in ("order", "tiles", "top_k", "block_m", "function")}
    h = torch.zeros(given["h"].shape, device=device, dtype=torch.float64)
    reference.gate_up(x=x, h=h, **plain, **rest)
    gate_up(**given)
    actual = rows_of(given["h"], given["h_scale"], torch.float32)
    assert similarity_error(actual, h) < 5e-4


@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="gigabytes, and bf16")
def test_beyond_two_to_the_31_elements(device, generator):
    # 1,060,000 rows of 2,048 channels: h and the partial sums pass 2^31 elements
    tokens, channels, num_experts, top_k = 265_000, 2048, 4, 4
    draw = {"generator": generator, "device": device, "dtype": torch.bfloat16}
    weights = torch.rand(tokens, top_k, generator=generator, device=device)
    chosen = torch.randint(num_experts, (tokens, top_k), generator=generator, device=device).int()
    given = {
        "x": torch.randn(tokens, channels, **draw),
        "experts": chosen,
        "weights": weights,
        "gate": torch.randn(num_experts, 2048, channels, **draw) * channels**-0.5,
        "up": torch.randn(num_experts, 2048, channels, **draw) * channels**-0.5,
        "down": torch.randn(num_experts, channels, 2048, **draw) * 2048**-0.5,
        "num_experts": num_experts,
        "top_k": top_k,
        "function": "silu",
    }
    y = run(given)
    last = {n: given[n][-20:] for n in ("x", "experts", "weights")}
    wanted = torch.empty_like(last["x"])
    reference.experts(**{**given, **last, "y": wanted})
    assert similarity_error(y[-20:], wanted) < 1e-4
