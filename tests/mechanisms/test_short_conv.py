"""Short convolutions inside other mixers: their kernels, their carried tails."""

import pytest

from day0.ir.tensor import TensorSpec
from day0.ir.weight import Leaf
from day0.mechanisms.builder import Builder
from day0.mechanisms.short_conv import short_conv


@pytest.mark.parametrize(("size", "dilation"), [(4, 1), (3, 2), (2, 5)])
def test_tail_holds_what_the_next_token_needs(size: int, dilation: int) -> None:
    b = Builder(plain="bf16")
    x = b.input("x", TensorSpec(dims=("T", 24)))
    kernel = Leaf(name="conv1d.weight", dims=(24, 1, size))
    y = short_conv(b, "conv", x, kernel, activation="none", dilation=dilation)
    (op,) = b.ops
    assert b.values[y].dims == ("T", 24)
    assert (op.attr("activation"), op.attr("dilation")) == ("none", dilation)
    (tail,) = b.caches.values()
    assert (tail.growth, tail.span, tail.elements) == ("window", (size - 1) * dilation, 24)
    assert [(use.slot, use.mode) for use in op.caches] == [("tail", "rw")]


def test_bias_is_a_weight_of_its_own() -> None:
    b = Builder(plain="bf16")
    x = b.input("x", TensorSpec(dims=("T", 24)))
    bias = Leaf(name="conv1d.bias", dims=(24,))
    short_conv(b, "conv", x, Leaf(name="conv1d.weight", dims=(24, 1, 4)), bias=bias)
    (op,) = b.ops
    assert dict(op.weights) == {"weight": "conv", "bias": "conv.bias"}
    assert op.attr("activation") == "silu"
