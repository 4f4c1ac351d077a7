"""The mesh as arithmetic: what --mesh spells, who shares an axis."""

import pytest

from day0.errors import Day0Error
from day0.parallel.mesh import GROUPS, Mesh, parse, shares


@pytest.mark.parametrize("name", ["tp1", "tp2", "cp3", "cp2tp2", "cp2tp4ep4", "tp8ep8"])
def test_a_mesh_is_what_its_name_says(name: str) -> None:
    assert parse(name).name == name


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("two", 2, "axes pp, cp, tp, ep"),
        ("tp0", 2, "axes pp, cp, tp, ep"),
        ("tp2tp4", 2, "names tp 2 times"),
        ("ep2", 3, "there is one"),
        ("tp4ep3", 3, "may be 2, 4"),
        ("cp2tp3ep4", 3, "may be 2, 6"),
    ],
)
def test_what_is_no_mesh_is_told(text: str, code: int, told: str) -> None:
    with pytest.raises(Day0Error) as caught:
        parse(text)
    assert caught.value.exit_code == code
    assert told in caught.value.message


def test_the_ranks_of_a_mesh_by_hand() -> None:
    mesh = Mesh(cp=2, tp=4, ep=4)
    assert mesh.expert_tp == 2
    assert mesh.groups("tp") == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert mesh.groups("cp") == ((0, 4), (1, 5), (2, 6), (3, 7))
    # the cp ranks hold different experts, the four ranks of a tp group two halves of each
    assert mesh.groups("expert_tp") == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert mesh.groups("ep") == ((0, 2, 4, 6), (1, 3, 5, 7))
    assert mesh.axis("ep", 5).place == 2


def test_without_ep_every_rank_of_a_tp_group_cuts_every_expert() -> None:
    mesh = Mesh(cp=2, tp=2)
    assert mesh.groups("expert_tp") == mesh.groups("tp")
    assert {mesh.axis("ep", rank).size for rank in range(4)} == {1}


@pytest.mark.parametrize("name", ["tp4", "cp4", "cp2tp2", "cp2tp4ep2", "cp2tp4ep8", "tp6ep3"])
def test_an_axis_deals_out_every_rank_once(name: str) -> None:
    mesh = parse(name)
    sizes = {"tp": mesh.tp, "cp": mesh.cp, "ep": mesh.ep, "expert_tp": mesh.expert_tp}
    for axis in GROUPS:
        groups = mesh.groups(axis)
        assert sorted(rank for ranks in groups for rank in ranks) == list(range(mesh.size))
        assert {len(ranks) for ranks in groups} == {sizes.get(axis, mesh.size)}


def test_shares_are_even_and_complete() -> None:
    assert shares(10, 4) == ((0, 2), (2, 5), (5, 7), (7, 10))
    assert shares(8, 2) == ((0, 4), (4, 8))
