"""``leaderboard.md``: who leads over tasks, and who cannot be ranked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.folders import make_run, row
from tests.hostile_texts import FORGED, TEXTS
from trace_bench.analysis.frames import jobs_frame
from trace_bench.analysis.group_tables import caveats, main_table
from trace_bench.analysis.groups import jobs_of, summarise_groups
from trace_bench.analysis.leaderboard_table import leaderboard_lines
from trace_bench.analysis.standings import Standings, page, standings_of
from trace_bench.analysis.statistics import estimate
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.records.leaderboard import rank
from trace_bench.records.reading import read_rows
from trace_bench.records.tables import write_standings
from trace_bench.report.content import Report, read_source


def scored(number: int, trainer: str, task: str, test: float | None, **change: Any) -> Results:
    metrics = {} if test is None else {"normalised": test}
    return row(number, trainer_id=trainer, task_id=task, score_best=1.0, metrics_best={"normalised": 0.9},
               metrics_test=metrics, **change)  # fmt: skip


def ranks(found: Standings) -> list[tuple[int | None, str]]:
    return [(standing.rank, standing.trainer_id) for standing in found.standings]


ROWS = (
    scored(0, "Low", "s:a", 0.1), scored(1, "Low", "s:b", 0.3),
    scored(2, "High", "s:a", 0.2), scored(3, "High", "s:a", 0.4), scored(4, "High", "s:b", 0.7),
    scored(5, "ComparisonGroup", "s:b", 0.99),
    scored(6, "ComparisonGroup", "s:a", 0.99, status="failed", failure_boundary="trainer", failure_kind="train_error"),
    scored(7, "Same", "s:a", 0.0), scored(8, "Same", "s:b", 0.4),
    row(9, trainer_id="Low", task_id="s:raw", score_best=5.0, score_direction="minimize"),
    row(10, trainer_id="High", task_id="s:raw", score_best=6.0, score_direction="minimize"),
)  # fmt: skip


def test_ways_are_ranked_by_the_mean_of_the_tasks_means_on_held_out_data() -> None:
    found = standings_of(ROWS)
    assert ranks(found) == [(1, "High"), (2, "Low"), (2, "Same"), (None, "ComparisonGroup")], "equal means share a rank"
    high = found.standings[0]
    assert high.test.interval == pytest.approx(estimate([0.3, 0.7]).interval) and high.test.unit == "tasks"
    assert high.test.mean == pytest.approx(0.5) and high.validation.mean == pytest.approx(0.9)
    assert (high.tasks, high.seeds, high.failed) == (2, 3, 0)


def test_a_task_with_a_gap_counts_by_it_and_another_by_its_normalised_score() -> None:
    metrics = {"s:a": {"normalised": 0.9, "gap": 0.2}, "s:b": {"normalised": 0.6}}
    rows = [row(n, trainer_id="T", task_id=task, score_best=1.0, metrics_best=of, metrics_test=of, metrics_initial=of)
            for n, (task, of) in enumerate(metrics.items())]  # fmt: skip
    (standing,) = standings_of(rows).standings
    assert (standing.test.mean, standing.validation.mean) == (pytest.approx(0.4), pytest.approx(0.4))
    frame = jobs_frame(rows)
    for column in ("normalised", "normalised_test", "normalised_initial"):
        assert list(frame[column]) == [0.2, 0.6]
    assert list(frame["metric_test:normalised"]) == [0.9, 0.6], "the share of the bound stays beside it"


def test_ways_that_differ_in_their_guide_alone_are_two_and_say_so() -> None:
    guides = ("default", "LLMJudge")
    rows = [scored(2 * n + seed, "T", "s:a", 0.2 + 0.6 * n, resolved_guide=guide, variant="k=1")
            for n, guide in enumerate(guides) for seed in range(2)]  # fmt: skip
    found = [(s.rank, s.variant, s.test.mean, s.seeds) for s in standings_of(rows).standings]
    assert found == [(1, "k=1,guide=LLMJudge", pytest.approx(0.8), 2), (2, "k=1,guide=default", pytest.approx(0.2), 2)]
    assert {(line.variant, line.jobs) for line in rank(rows)} == {("k=1,guide=default", 2), ("k=1,guide=LLMJudge", 2)}
    assert {line.variant for line in rank(rows[:2])} == {"k=1"}, "where there is one guide it is not told"
    first = rows[0].model_copy(update={"resolved_guide": "", "job_id": "9" * 12})
    assert len(rank([*rows[:2], first])) == 1, "the first versions did not say it"


def test_scores_of_different_hardware_are_ranked_apart_and_the_page_says_so() -> None:
    rows = [row(n, task_id="s:timed", score_best=1.0 + n, hardware="AB"[n // 2]) for n in range(4)]
    lost = row(4, task_id="s:timed", status="failed", failure_boundary="trainer", failure_kind="train_error")
    assert [(one.hardware, one.rank, one.score_mean) for one in rank(rows)] == [("A", 1, 1.5), ("B", 1, 3.5)]
    text = page("run", standings_of(rows))
    assert "different hardware (A; B)" in text and "s:timed on A" in text and "s:timed on B" in text
    (alone,) = rank([*rows[:2], lost])
    assert (alone.jobs, alone.seeds, alone.failed_jobs) == (2, 3, 1), "a failed job need not have told its hardware"
    assert "hardware" not in page("run", standings_of([*rows[:2], lost]))
    shown = "\n".join(leaderboard_lines(rank(rows)))
    assert (
        "s:timed on A" in shown
        and "s:timed on B" in shown
        and " on " not in "\n".join(leaderboard_lines(rank(rows[:2])))
    )


def test_who_does_not_cover_every_task_is_not_ranked_however_good_its_mean() -> None:
    part = standings_of(ROWS).standings[-1]
    assert part.rank is None and (part.tasks, part.failed) == (1, 1) and part.test.mean == 0.99
    text = page("run", standings_of(ROWS))
    assert "1 of 2 tasks" in text and text.index("ComparisonGroup") > text.index("## Not on every task")


def test_tasks_without_a_normalised_score_are_listed_apart_with_their_best() -> None:
    found = standings_of(ROWS)
    assert list(found.tasks) == ["s:a", "s:b"] and [(row.task_id, row.trainer_id) for row in found.others] == [
        ("s:raw", "Low")
    ]
    assert "lower is better" in page("run", found)


def test_unprotected_and_unfinished_jobs_are_left_out_and_counted() -> None:
    lost = scored(11, "High", "s:b", 0.0, status="failed", failure_boundary="provider", failure_kind="provider_error")
    found = standings_of([*ROWS, lost, scored(12, "Low", "s:a", 1.0, integrity="unprotected")])
    assert found.left_out == 1 and "1 job is left out as unprotected" in page("run", found)
    assert found.standings[0].unfinished == 1 and found.standings[0].test.mean == pytest.approx(0.5)
    asked = standings_of([scored(0, "T", "s:a", 1.0, integrity="unprotected")], unprotected=True)
    assert ranks(asked) == [(1, "T")] and "T (unprotected)" in page("run", asked)


def test_a_page_without_anything_says_why() -> None:
    assert "No job qualifies" in page("run", standings_of([]))


def test_the_page_of_a_run_can_be_derived_again(recorded: RunLayout, tmp_path: Path) -> None:
    written = recorded.leaderboard_md.read_bytes()
    copy = RunLayout(tmp_path / recorded.run_id)
    copy.make()
    copy.yardsticks.write_bytes(recorded.yardsticks.read_bytes())
    write_standings(copy, read_rows(recorded))
    assert copy.leaderboard_md.read_bytes() == written and b"18 jobs are left out" in written


def test_tables_that_are_rebuilt_have_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", planned=1, rows=[row(0, score_best=1.0)])
    assert run.leaderboard_md.read_text().startswith(f"# Leaderboard of {run.run_id}\n")
    (board,) = standings_of(read_rows(run)).others
    assert board.rank == 1


@pytest.mark.parametrize("name", list(TEXTS))
def test_hostile_names_act_on_nothing(name: str) -> None:
    text = page("run", standings_of([scored(n, TEXTS[name] or "T", "s:a", 0.5, variant=str(n)) for n in range(2)]))
    assert FORGED not in [line[: len(FORGED)] for line in text.splitlines()] and "\x1b" not in text
    table = [line.replace(r"\|", "").count("|") for line in text.splitlines() if line.startswith("|")]
    assert len(set(table)) == 1


def test_importing_what_it_needs_leaves_the_environment_alone_and_half_of_scipy_too() -> None:
    """A thread that asks for a variable while another sets one may end the process."""
    code = (
        "import sys\n"
        "from trace_bench.records import parquet, tables\n"
        "assert 'numpy' not in sys.modules\n"
        "changed = []\n"
        "sys.addaudithook(lambda name, args: changed.append(args) if name in ('os.putenv', 'os.unsetenv') else None)\n"
        "tables.preload_standings()\n"
        "assert 'scipy.special' in sys.modules and changed == [], changed\n"
        "assert 'scipy.stats' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_scores_on_a_fixture_are_marked_and_ranked_apart(tmp_path: Path) -> None:
    fixture = {"eval_kwargs": {"fixture": True}}
    at = (("hf:a", fixture), ("hf:a", {}), ("hf:b", fixture))
    rows = [row(n, trainer_id="T", task_id=task, score_best=0.5, **kwargs) for n, (task, kwargs) in enumerate(at)]
    assert [(line.task_id, line.fixture, line.rank) for line in rank(rows)] == [
        ("hf:a", True, 1), ("hf:a", False, 1), ("hf:b", True, 1)
    ]  # fmt: skip
    run = make_run(tmp_path, rows=rows)
    assert (run.root / "leaderboard.csv").read_text().splitlines()[0].endswith(",fixture")
    text = (run.root / "leaderboard.md").read_text()
    assert all(name in text for name in ("| hf:a |", "| hf:a (fixture) |", "| hf:b (fixture) |"))
    assert "hf:b (fixture)" in "\n".join(leaderboard_lines(rank(rows)))
    summary = summarise_groups(jobs_of(run), ["task_id", "trainer_id"])
    assert summary.fixtures == 2 and "fixture: 2 jobs took the few rows" in caveats(summary)
    shown = main_table(summary).column("task")
    assert sorted(map(str, shown)) == ["hf:a", "hf:a (fixture)", "hf:b (fixture)"]
    assert {group.keys["task"] for group in summary.groups} == {"hf:a", "hf:b"}, "programs get the id"
    labels = {str(task).partition(" {")[0] for task in Report.of([read_source(run)]).jobs["task"]}
    assert labels == {"hf:a", "hf:a (fixture)", "hf:b (fixture)"}
