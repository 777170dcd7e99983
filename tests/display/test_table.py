"""Tables as lines: fitted to a terminal, and short forms of names."""

from __future__ import annotations

import pytest

from trace_bench.display.names import cut, shared_parameters, shortened, width_of, without
from trace_bench.display.table import Column, Table, number
from trace_bench.display.terminal import Screen, fit, plain_lines, state_shared, terminal_lines

HEADER = ("id", "name", "text", "n")
ROWS = [("0123456789ab", "n" * 20, "t" * 20, "123456"), ("ba9876543210", "short", "", "-")]


def test_texts_are_cut_in_their_order_and_then_columns_left_out() -> None:
    def first(width: int) -> tuple[list[str], list[str]]:
        table = fit(Table.of(HEADER, ROWS, {"n"}, shrink={"text": 8, "name": 8}, drop=("n",)), width)
        assert all(len(line) <= width for line in (table.header, *table.rows))
        return table.rows[0].split(), list(table.dropped)

    whole = [ROWS[0][0], "n" * 20, "t" * 20, "123456"]
    assert first(64) == (whole, [])
    assert first(63) == ([*whole[:2], "t" * 18 + "…", "123456"], [])
    assert first(51) == ([whole[0], "n" * 18 + "…", "t" * 7 + "…", "123456"], [])
    assert first(40) == ([whole[0], "n" * 7 + "…", "t" * 7 + "…", "123456"], [])
    assert first(39) == ([whole[0], "n" * 14 + "…", "t" * 7 + "…"], ["n"])
    assert first(20) == ([whole[0], "nn…", "…"], ["n"])


NAMES = [
    ("llm4ad:optimization/knapsack_construct", "num_steps=6,num_proposals=2", "0.9530974"),
    ("llm4ad:optimization/tsp_construct", "num_steps=3,num_candidates=2,num_proposals=2", "0.8664011"),
    ("llm4ad:optimization/tsp_construct", "num_steps=6,num_candidates=1,num_proposals=1", "0.8712345"),
    ("llm4ad:optimization/set_cover_construct", "default", "0.9556041"),
]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_what_tells_rows_apart_is_in_each_row(width: int) -> None:
    table = fit(Table.of(("task", "variant", "score"), NAMES, {"score"}, shrink={"task": 8, "variant": 8}), width)
    lines = [table.header, *table.rows]
    assert all(width_of(line) <= width for line in lines) and all(
        row[2] in line for row, line in zip(NAMES, table.rows, strict=True)
    )
    assert len({line.rpartition(" ")[0] for line in table.rows}) == 4
    assert width == 40 or all(
        end in line for end, line in zip(("ack_construct", "p_construct"), table.rows[:2], strict=True)
    )
    if width in (60, 80):
        assert "ns=3,nc=2,np=2" in table.rows[1]
        assert table.legend == "ns: num_steps, np: num_proposals, nc: num_candidates"


def test_names_lose_what_all_have_then_their_beginning_then_their_middle() -> None:
    assert shortened(["a:b/one", "a:b/other"], 6) == ["…one", "…other"]
    assert shortened(["first_same_end", "other_same_end"], 8) == ["fir…_end", "oth…_end"]
    assert shortened(["begin_1", "begin_2"], 4) == ["…n_1", "…n_2"]
    assert shortened(["日本語1", "日本語2"], 4) == ["…語1", "…語2"]
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
    assert fit(Table.of(HEADER, rows), 80).header.split() == ["id", "n"]
    assert fit(Table.of(HEADER, rows), 80, keep=("name",)).header.split() == ["id", "name", "n"]


def test_a_column_without_room_is_named() -> None:
    table = Table.of(HEADER, ROWS, shrink={"text": 8, "name": 8}, drop=("n",))
    assert terminal_lines(table, Screen(39, styled=False))[-1] == "no room for: n"


def test_letters_count_by_the_columns_they_take() -> None:
    assert (width_of("ab"), width_of("日本"), width_of("e\u0301")) == (2, 4, 1)
    assert (cut("日本語", 5), cut("日本語", 4), cut("abcdef", 6)) == ("日本…", "日…", "abcdef")
    lines = fit(Table.of(("a", "b"), [("日本", "x"), ("abcd", "y")]), 80).rows
    assert [width_of(line) for line in lines] == [7, 7]


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
