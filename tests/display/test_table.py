"""Tables as lines: fitted to a terminal, and short forms of names."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from trace_bench.display.names import shared_parameters, shortened, without
from trace_bench.display.table import Column, Table, number
from trace_bench.display.terminal import Screen, fit, plain_lines, run_table_lines, state_shared, terminal_lines

HEADER = ("id", "name", "text", "n")
ROWS = [("0123456789ab", "n" * 20, "t" * 20, "123456"), ("ba9876543210", "short", "", "-")]


def laid_out(table: Table, width: int) -> list[str]:
    """The lines of the table on a terminal without style."""
    lines = terminal_lines(table, Screen(width, styled=False))
    assert all(cell_len(line) <= width for line in lines)
    return lines


def test_texts_are_cut_in_their_order_and_then_columns_left_out() -> None:
    table = Table.of(HEADER, ROWS, {"n"}, shrink={"text": 8, "name": 8}, drop=("n",))
    whole = [ROWS[0][0], "n" * 20, "t" * 20, "123456"]
    for width, cells in {
        64: whole,
        63: [*whole[:2], "t" * 18 + "…", "123456"],
        51: [whole[0], "n" * 18 + "…", "t" * 7 + "…", "123456"],
        40: [whole[0], "n" * 7 + "…", "t" * 7 + "…", "123456"],
        39: [whole[0], "n" * 14 + "…", "t" * 7 + "…"],
    }.items():
        lines = laid_out(table, width)
        assert lines[1].split() == cells and lines[3:] == (["no room for: n"] if width < 40 else [])
    assert laid_out(table, 20)[1].split() == [whole[0], "nn…", "…"], "texts go before ids"


NAMES = [
    ("llm4ad:optimization/knapsack_construct", "num_steps=6,num_proposals=2", "0.9530974"),
    ("llm4ad:optimization/tsp_construct", "num_steps=3,num_candidates=2,num_proposals=2", "0.8664011"),
    ("llm4ad:optimization/tsp_construct", "num_steps=6,num_candidates=1,num_proposals=1", "0.8712345"),
    ("llm4ad:optimization/set_cover_construct", "default", "0.9556041"),
]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_tells_rows_apart_is_in_each_row(width: int) -> None:
    table = Table.of(("task", "variant", "score"), NAMES, {"score"}, shrink={"task": 8, "variant": 8})
    _, *rows = laid_out(table, width)
    assert all(row[2] in line for row, line in zip(NAMES, rows, strict=False))
    assert len({line.rpartition(" ")[0] for line in rows[:4]}) == 4
    assert all(end in line for end, line in zip(("ack_construct", "p_construct"), rows, strict=False))
    if width < 120:
        assert "ns=3,nc=2,np=2" in rows[1] and rows[4] == "ns: num_steps, np: num_proposals, nc: num_candidates"


def test_the_mark_of_an_unprotected_job_is_not_cut() -> None:
    table = Table.of(
        ("trainer", "n"), [("T" * 30 + " (unprotected)", "1"), ("U", "2")], shrink={"trainer": 8}, drop=("n",)
    )
    assert laid_out(table, 45)[1] == "T" * 30 + " (unprotected)"


def test_names_lose_what_all_have_then_their_beginning_then_their_middle() -> None:
    assert shortened(["a:b/one", "a:b/other"], 6) == ["…one", "…other"]
    assert shortened(["first_same_end", "other_same_end"], 8) == ["fir…_end", "oth…_end"]
    assert shortened(["begin_1", "begin_2"], 4) == ["…n_1", "…n_2"]
    assert shortened(["short"], 8) == ["short"]


def test_cells_are_raw_values_on_one_line() -> None:
    table = Table.of(("name", Column("n", True, number), Column("text", limit=3)), [("a\nb", 0.5, "long"), ("c", None)])
    assert table.texts == [("a\\nb", "0.5", "lo…"), ("c", "-", "")]
    assert plain_lines(table) == ["name    n  text", "a\\nb  0.5  lo…", "c       -"]


def test_rows_that_are_left_out_are_counted() -> None:
    short = Table.of(("a",), [(str(n),) for n in range(5)]).first(2)
    assert len(short.rows) == 2 and short.notes == ("3 more rows were left out.",)
    assert short.first(2) is short


def test_sections_are_headings_above_their_rows() -> None:
    table = Table.of(("a",), [("x",), ("y",), ("z",)])
    lines = terminal_lines(table, Screen(80), [("one", "x"), ("one", "x"), ("two", "")])
    assert lines == ["\x1b[1ma\x1b[0m", "─", "\x1b[1mone\x1b[0m  x", "x", "y", "\x1b[1mtwo\x1b[0m", "z"]


def test_an_empty_column_is_left_out_unless_it_is_to_be_kept() -> None:
    rows = [("a", "-", "", "1")]
    assert laid_out(Table.of(HEADER, rows), 80)[0].split() == ["id", "n"]
    kept, _ = fit(Table.of(HEADER, rows), 80, keep=("name",))
    assert [str(column.header) for column in kept.columns] == ["id", "name", "n"]


def test_letters_count_by_the_columns_they_take() -> None:
    rows = [("日本", "x"), ("abcd", "y"), ("e\u0301", "z")]
    for lines in (plain_lines(Table.of(("a", "b"), rows)), laid_out(Table.of(("a", "b"), rows), 80)):
        assert [cell_len(line) for line in lines] == [7] * 4
    assert laid_out(Table.of(("a",), [("日本語",)], shrink={"a": 5}), 5)[1] == "日本…"


@pytest.mark.parametrize("screen", [None, Screen(80, styled=False)])
def test_a_table_of_a_run_has_sections_for_tasks_in_order(screen: Screen | None) -> None:
    rows = [(1, "a:x", "T", "0 → 1 ↑"), (2, "a:x", "T", "0 → 2 ↑"), (3, "a:y", "T", "1 → 0 ↓ !")]
    header, directions = ("#", "task", "trainer", "validation"), ["maximize", "maximize", "minimize"]
    lines = run_table_lines(Table.of(header, rows), screen, directions, ("trainer",))
    if screen is None:
        assert lines == plain_lines(Table.of(header, rows))
        return
    assert lines == [
        "all: trainer T", "#  validation", "a:x  higher is better", "1  0 → 1", "2  0 → 2", "a:y  lower is better",
        "3  1 → 0 !",
    ]  # fmt: skip
    mixed = run_table_lines(Table.of(header, [rows[0], rows[2], rows[1]]), screen, directions, ("trainer",))
    assert mixed[1].split() == ["#", "task", "validation"] and "0 → 1 ↑" in mixed[2]


def test_of_a_variant_without_parameters_none_are_said() -> None:
    variants = ["default", "num_steps=2", "num_steps=2,k=3"]
    table, (said,) = state_shared(Table.of(["trainer", "variant"], [["T", name] for name in variants]), ("variant",))
    assert said == "variants: all that have parameters with num_steps=2"
    assert table.column("variant") == ["default", "", "k=3"]


@pytest.mark.parametrize(
    ("variants", "shared"),
    [
        (["a=1,b=2", "a=1,b=3"], ["a=1"]),
        (["a=1,b=2", "default", "a=1,b=3"], ["a=1"]),
        (["a=[1,2],b=2", "a=[1,2],b=3"], ["a=[1,2]"]),
        (["a=1,b=2"], []),
        (["a=1", "a=1"], []),
        (["a=1", "b=1"], []),
        ([], []),
    ],
)
def test_parameters_that_all_variants_have(variants: list[str], shared: list[str]) -> None:
    assert shared_parameters(variants) == shared
    assert without("a=1,b=2", ["a=1"]) == "b=2"
