"""Tables as text: plain columns for a pipe, and fitted to a terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.artifacts.samples import RESULTS
from trace_bench.analysis.leaderboard_table import EMPTY, leaderboard_lines
from trace_bench.artifacts.records import Results
from trace_bench.display.terminal import Screen
from trace_bench.records.leaderboard import LeaderboardRow, rank

LONG = "num_steps=2,num_candidates={},num_proposals=2,a_name_that_is_long={}"


def results(job_id: str = "0123456789ab", **change: Any) -> Results:
    return Results.model_validate({**RESULTS, "job_id": job_id, **change})


def leaderboard_text(rows: list[LeaderboardRow], screen: Screen | None = None, **more: Any) -> str:
    return "\n".join(leaderboard_lines(rows, screen, **more))


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
    assert leaderboard_text([]) == leaderboard_text([], Screen(80)) == EMPTY


def test_a_hypervolume_is_shown_for_searches_with_several_objectives_only() -> None:
    rows = rank([results(score_best=1.0, metrics_best={"a": 1.0, "b": 2.0}, hypervolume=0.25)])
    for screen in (None, Screen(120, styled=False)):
        assert "hypervolume" not in leaderboard_text(rows, screen)
        assert "hypervolume" in leaderboard_text(rows, screen, several_objectives=True)
