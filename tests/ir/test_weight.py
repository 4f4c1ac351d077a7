"""Weight expressions: dims, leaves, picks."""

import pytest

from day0.ir.weight import (
    Cat,
    Leaf,
    Mul,
    Permute,
    Pick,
    Reshape,
    Stack,
    Tied,
    dims_of,
    leaves,
    picks,
)

A = Leaf(name="a", dims=(12, 5))
EACH = Leaf(name="e.{e}.w", dims=(3, 4))


@pytest.mark.parametrize(
    ("expr", "dims"),
    [
        (A, (12, 5)),
        (Stack(of=EACH, count=7), (7, 3, 4)),
        (Pick(of=A, dim=0, period=6, start=1, stop=4), (6, 5)),
        (Pick(of=Pick(of=A, dim=0, period=6, start=1, stop=4), dim=0, period=3, start=0, stop=1),
         (2, 5)),
        (Cat(of=(A, A), dim=1), (12, 10)),
        (Permute(of=A, order=(1, 0)), (5, 12)),
        (Reshape(of=A, dims=(60,)), (60,)),
        (Mul(left=Leaf(name="n", dims=(5,)), right=A), (12, 5)),
        (Tied(weight="embed", dims=(8, 2)), (8, 2)),
    ],
    ids=["leaf", "stack", "pick", "pick-of-pick", "cat", "permute", "reshape", "mul", "tied"],
)  # fmt: skip
def test_dims(expr, dims):
    assert dims_of(expr) == dims


def test_a_pick_needs_a_whole_number_of_periods():
    with pytest.raises(ValueError, match="no multiple of period 5"):
        dims_of(Pick(of=A, dim=0, period=5, start=0, stop=1))


def test_leaves_come_with_the_length_of_the_stack_over_them():
    expr = Cat(of=(Stack(of=EACH, count=7), Permute(of=A, order=(1, 0))))
    assert [(leaf.name, count) for leaf, count in leaves(expr)] == [("e.{e}.w", 7), ("a", 0)]


def test_picks_are_listed_innermost_first():
    inner = Pick(of=A, dim=0, period=6, start=1, stop=4)
    outer = Pick(of=inner, dim=0, period=3, start=0, stop=1)
    assert list(picks(Reshape(of=outer, dims=(10,)))) == [(A, 0, (inner, outer))]
    assert (
        list(picks(Stack(of=Pick(of=EACH, dim=0, period=3, start=0, stop=1), count=2)))[0][1] == 2
    )
