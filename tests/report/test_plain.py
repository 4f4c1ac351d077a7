"""Plain data as parts: nothing is lost, and figures have the unit that their key says."""

from day0.report.parts import Notes, Pairs, Table
from day0.report.sections.plain import FOLD, cell, parts_of

PLAN = {
    "gpu": "h200",
    "fits": False,
    "free_bytes": 3 * 2**30,
    "splits": [
        {"tp": 1, "status": "illegal", "reasons": ["33792 / 16 = 2112", "3072 / 16 = 192"]},
        {"tp": 2, "status": "legal", "weights_bytes": 2**20, "tpot_ms": 12.5},
    ],
    "floor": {"efficiency": 0.6, "flops": 4.2e9, "context_length": 131_072, "missing": None},
    "empty": [],
}


def test_a_record_is_pairs_and_what_is_nested_follows() -> None:
    pairs, table, floor = parts_of("parallel", PLAN)
    assert isinstance(pairs, Pairs)
    assert [(name, shown.text) for name, shown in pairs.rows] == [
        ("gpu", "h200"), ("fits", "no"), ("free bytes", "3.00 GiB"), ("empty", "none"),
    ]  # fmt: skip
    assert isinstance(table, Table)
    assert table.columns == ("tp", "status", "reasons", "weights bytes", "tpot ms")
    assert [[shown.text for shown in row] for row in table.rows] == [
        ["1", "illegal", "33792 / 16 = 2112, 3072 / 16 = 192", "-", "-"],
        ["2", "legal", "-", "1.00 MiB", "12.5 ms"],
    ]
    assert [row[1].tone for row in table.rows] == ["bad", "good"]
    assert isinstance(floor, Pairs)
    assert [shown.text for _, shown in floor.rows] == ["60.0 %", "4.20 B", "128K", "-"]


def test_lists_of_words_and_long_tables() -> None:
    (notes,) = parts_of("warm_up", ["kda prefill", "mla decode"])
    assert isinstance(notes, Notes)
    assert [note.message for note in notes.items] == ["kda prefill", "mla decode"]
    (long,) = parts_of("grid", [{"batch": at} for at in range(FOLD + 1)])
    assert isinstance(long, Table)
    assert long.folded


def test_exact_numbers_stay_behind_the_words() -> None:
    assert cell("weights_bytes", 1_560_860_324_864).value == 1_560_860_324_864
    assert cell("anything", 7).value == 7
    assert cell("verdict", "unknown").tone == "warn"
