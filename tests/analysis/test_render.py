"""Tables as text: plain columns for a pipe, and fitted to a terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.artifacts.samples import RESULTS
from trace_bench.analysis.render import (
    EMPTY,
    Screen,
    cut,
    fitted,
    framed,
    leaderboard_text,
    shared_parameters,
    shortened,
    told_once,
    wide,
    without,
)
from trace_bench.artifacts.records import Results
from trace_bench.records.leaderboard import LeaderboardRow, rank

LONG = "num_steps=2,num_candidates={},num_proposals=2,a_name_that_is_long={}"


def results(job_id: str = "0123456789ab", **change: Any) -> Results:
    return Results.model_validate({**RESULTS, "job_id": job_id, **change})


def many() -> list[LeaderboardRow]:
    """Two tasks of opposite directions, two trainers, long variants, numbers of full length."""
    rows = []
    for task, direction in (("internal:numeric_param", "maximize"), ("llm4ad:a_task_of_a_long_name", "minimize")):
        for place, trainer in enumerate(("PrioritySearch", "PrioritySearch", "NoOp")):
            for seed in (1, 2):
                rows.append(results(
                    f"{len(rows):012x}", task_id=task, score_direction=direction, trainer_id=trainer, seed=seed,
                    variant=LONG.format(place, "x" * 30), score_initial=-12345.6, time_seconds=1234.5,
                    score_best=-0.000123456 * (place + seed), total_tokens=1234567,
                ))  # fmt: skip
    return rank(rows)


def test_a_pipe_gets_all_columns_and_the_direction_in_one() -> None:
    text = leaderboard_text(rank([results(score_best=-0.5, score_initial=-3.0, time_seconds=1.25, total_tokens=120,
                                          evaluations=30, llm_calls=7)]))  # fmt: skip
    header, row = text.splitlines()
    assert header.split() == [
        "task", "#", "trainer", "variant", "optimizer", "model", "seeds", "initial", "validation", "held-out",
        "evals", "calls", "s", "tokens", "usd", "direction",
    ]  # fmt: skip
    assert row.split() == [
        "internal:numeric_param", "1", "NoOp", "0", "OptoPrime", "stub", "1", "-3", "-0.5", "-", "30", "7", "1.2",
        "120", "-", "maximize",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_row_of_the_leaderboard_is_one_line_with_whole_numbers(width: int) -> None:
    rows = many()
    lines = leaderboard_text(rows, Screen(width, styled=False)).splitlines()
    table = [line for line in lines if not line.startswith(("all: ", "variants: "))]
    assert all(len(line) <= width for line in table)
    assert not any(sign in line for line in lines for sign in "↑↓")
    for row in rows:
        best = f"{row.score_mean:.6g} ± {row.score_std:.2g}"
        assert any(re.match(rf"{row.rank}  {row.trainer_id[:8]}", line) and best in line for line in table), best
    assert sum("PrioritySearch" in line for line in table) == 4, "what is cut is the variant"
    assert "…" not in "".join(lines), "initials of parameters make room"


def test_a_task_is_a_heading_with_its_direction_and_what_is_common_is_said_once() -> None:
    lines = leaderboard_text(many(), Screen(120, styled=False)).splitlines()
    long = f"a_name_that_is_long={'x' * 30}"
    assert lines[0] == "all: optimizer OptoPrime, model stub, no held-out score"
    assert lines[1] == f"variants: all with num_steps=2,num_proposals=2,{long}"
    assert lines[2].split() == ["#", "trainer", "variant", "seeds", "initial", "validation", "evals", "s", "tokens"]
    assert lines[3] == "internal:numeric_param  higher is better"
    assert lines[4].split()[:3] == ["1", "PrioritySearch", "num_candidates=0"]
    assert lines[7] == "llm4ad:a_task_of_a_long_name  lower is better" and len(lines) == 11


def test_of_a_variant_without_parameters_none_are_said() -> None:
    variants = ["default", "num_steps=2", "num_steps=2,k=3"]
    _, rows, (said,) = told_once(["trainer", "variant"], [["T", variant] for variant in variants], ("variant",))
    assert said == "variants: all that have parameters with num_steps=2"
    assert [row[1] for row in rows] == ["default", "", "k=3"]


def test_columns_that_differ_are_kept() -> None:
    rows = rank([
        results("aaaaaaaaaaaa", score_best=1.0, score_test=2.0, model="one"),
        results("bbbbbbbbbbbb", score_best=1.0, model="two"),
    ])  # fmt: skip
    first, header, *_ = leaderboard_text(rows, Screen(120, styled=False)).splitlines()
    assert first == "all: variant 0, optimizer OptoPrime" and {"model", "held-out"} <= set(header.split())


def test_unprotected_rows_are_marked_or_all_said_to_be() -> None:
    bad = {"score_best": 1.0, "integrity": "unprotected"}
    one = [results("aaaaaaaaaaaa", **bad), results("bbbbbbbbbbbb", trainer_id="Other", score_best=2.0)]
    text = leaderboard_text(rank(one, unprotected=True), Screen(100))
    assert "NoOp (unprotected)" in text and "all: unprotected" not in text
    text = leaderboard_text(rank(one[:1], unprotected=True), Screen(100))
    assert text.startswith("all: unprotected, ") and "(unprotected)" not in text
    assert "(unprotected)" in leaderboard_text(rank(one[:1], unprotected=True))


def test_a_screen_without_style_gets_letters_only() -> None:
    assert "\x1b[1m" in leaderboard_text(many(), Screen(100)) and "──" in leaderboard_text(many(), Screen(100))
    plain = leaderboard_text(many(), Screen(100, styled=False))
    assert "\x1b" not in plain and "─" not in plain


def test_names_in_the_leaderboard_are_neither_markup_nor_terminal_codes() -> None:
    rows = rank([results(score_best=1.0, variant="[red]x[/red]\x1b[31m")])
    for text in (leaderboard_text(rows), leaderboard_text(rows, Screen(200, styled=False))):
        assert "[red]x[/red]\\x1b[31m" in text


def test_an_empty_leaderboard_says_why() -> None:
    assert leaderboard_text([]) == leaderboard_text([], Screen(80)) == EMPTY + "\n"


# --------------------------------------------------------------------------------------------------------- fitting

HEADER = ("id", "name", "text", "n")
ROWS = [("0123456789ab", "n" * 20, "t" * 20, "123456"), ("ba9876543210", "short", "", "-")]


def test_texts_are_cut_in_their_order_and_then_columns_left_out() -> None:
    def first(width: int) -> tuple[list[str], list[str]]:
        table = fitted(HEADER, ROWS, {"n"}, width=width, elastic={"text": 8, "name": 8}, spare=("n",))
        assert all(len(line) <= width for line in (table.header, *table.rows))
        return table.rows[0].split(), list(table.left_out)

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
    table = fitted(("task", "variant", "score"), NAMES, {"score"}, width=width, elastic={"task": 8, "variant": 8})
    lines = [table.header, *table.rows]
    assert all(wide(line) <= width for line in lines) and all(
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


def test_a_hypervolume_is_shown_for_searches_with_several_objectives_only() -> None:
    rows = rank([results(score_best=1.0, metrics_best={"a": 1.0, "b": 2.0}, hypervolume=0.25)])
    for screen in (None, Screen(120, styled=False)):
        assert "hypervolume" not in leaderboard_text(rows, screen)
        assert "hypervolume" in leaderboard_text(rows, screen, several_objectives=True)


def test_an_empty_column_is_left_out_unless_it_is_to_be_kept() -> None:
    rows = [("a", "-", "", "1")]
    assert fitted(HEADER, rows, width=80).header.split() == ["id", "n"]
    assert fitted(HEADER, rows, width=80, keep=("name",)).header.split() == ["id", "name", "n"]


def test_a_column_without_room_is_named() -> None:
    text = framed(HEADER, ROWS, screen=Screen(39, styled=False), elastic={"text": 8, "name": 8}, spare=("n",))
    assert text.splitlines()[-1] == "no room for: n"


def test_letters_count_by_the_columns_they_take() -> None:
    assert (wide("ab"), wide("日本"), wide("e\u0301")) == (2, 4, 1)
    assert (cut("日本語", 5), cut("日本語", 4), cut("abcdef", 6)) == ("日本…", "日…", "abcdef")
    lines = fitted(("a", "b"), [("日本", "x"), ("abcd", "y")], width=80).rows
    assert [wide(line) for line in lines] == [7, 7]


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
