"""Collectives against sums and concatenations made by hand."""

from collections.abc import Mapping
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from day0.parallel.collectives import Ranks  # noqa: E402
from tests.parallel.ranks import run_ranks  # noqa: E402


def own(rank: int, *dims: int) -> Any:
    """Rows that every rank can make of any other."""
    return torch.randn(*dims, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)


def cases(ranks: Ranks) -> dict[str, Any]:
    """Every collective over the axes of cp2tp2."""
    rank = ranks.rank
    sizes = [1, 3]
    place = ranks.axis("tp").place
    codes = own(rank, 4, 3).to(torch.float8_e4m3fn)
    mine = own(rank, 5, 2)
    mine_before = mine.clone()
    total = ranks.all_reduce(mine, "tp")
    sent, counts = ranks.all_to_all(own(rank, rank + 3, 2), "all", [rank, 1, 0, 2])
    peer = ranks.send_receive(mine, "cp", to=1) if rank < 2 else (
        ranks.send_receive(None, "cp", source=0, like=mine)
    )  # fmt: skip
    return {
        "sum": total,
        "untouched": bool((mine == mine_before).all()),
        "rows": ranks.all_gather(own(rank, sizes[place], 2), "tp", sizes=sizes),
        "columns": ranks.all_gather(own(rank, 2, sizes[place]), "tp", dim=1, sizes=sizes),
        "codes": ranks.all_gather(codes, "cp").float(),
        "scattered": ranks.reduce_scatter(own(rank, 4, 2), "tp", sizes=sizes),
        "sent": sent,
        "counts": counts,
        "peer": peer,
        "told": ranks.broadcast(mine, "all", source=2),
        "alone": ranks.all_reduce(mine, "ep"),
    }


@pytest.fixture(scope="module")
def found() -> list[Mapping[str, Any]]:
    return run_ranks("cp2tp2", cases)


def test_sums(found: list[Mapping[str, Any]]) -> None:
    for rank, got in enumerate(found):
        a, b = (0, 1) if rank < 2 else (2, 3)
        assert torch.equal(got["sum"], own(a, 5, 2) + own(b, 5, 2))
        assert got["untouched"]
        whole = own(a, 4, 2) + own(b, 4, 2)
        assert torch.equal(got["scattered"], whole[:1] if rank % 2 == 0 else whole[1:])
        assert torch.equal(got["alone"], own(rank, 5, 2))


def test_gathers_keep_the_order_and_trim_what_is_uneven(found: list[Mapping[str, Any]]) -> None:
    for rank, got in enumerate(found):
        a, b = (0, 1) if rank < 2 else (2, 3)
        assert torch.equal(got["rows"], torch.cat([own(a, 1, 2), own(b, 3, 2)]))
        assert torch.equal(got["columns"], torch.cat([own(a, 2, 1), own(b, 2, 3)], dim=1))
        c, d = rank % 2, rank % 2 + 2
        codes = torch.cat([own(c, 4, 3), own(d, 4, 3)]).to(torch.float8_e4m3fn).float()
        assert torch.equal(got["codes"], codes)


def test_rows_go_where_they_are_sent(found: list[Mapping[str, Any]]) -> None:
    sends = [[rank, 1, 0, 2] for rank in range(4)]
    for rank, got in enumerate(found):
        parts = []
        for other in range(4):
            first = sum(sends[other][:rank])
            parts.append(own(other, other + 3, 2)[first : first + sends[other][rank]])
        assert torch.equal(got["sent"], torch.cat(parts))
        assert got["counts"] == [sends[other][rank] for other in range(4)]
        assert torch.equal(got["told"], own(2, 5, 2))
    assert found[0]["peer"] is None
    assert torch.equal(found[2]["peer"], own(0, 5, 2))
    assert torch.equal(found[3]["peer"], own(1, 5, 2))
