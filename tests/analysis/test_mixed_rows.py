"""A run in which everything happened: what is in no mean, what is counted apart, and what every table says of it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.folders import RUN, entry, job_id, make_run
from tests.analysis.folders import row as made
from tests.cli.sample_run import SampleJob
from trace_bench.artifacts import schema
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.cli.commands.ls import ls
from trace_bench.cli.commands.show import show
from trace_bench.cli.outcome import counts_text, print_outcome
from trace_bench.cli.tally import Tally
from trace_bench.display.terminal import Screen
from trace_bench.execution.events import JobFinished
from trace_bench.records.leaderboard import LeaderboardRow, displayed_leaderboard, rank
from trace_bench.records.reading import read_rows
from trace_bench.records.rows import is_final

MEAN = 2.0
FAR = 1e6
"""The score of every job that must be in no mean."""


def failed(number: int, boundary: str, kind: str, **change: Any) -> Results:
    return made(number, **{"status": "failed", "failure_boundary": boundary, "failure_kind": kind,
                           "feedback": f"{kind}.", "score_best": FAR, **change})  # fmt: skip


ROWS = (
    made(0, score_initial=0.0, score_best=1.0),
    made(1, score_initial=0.0, score_best=3.0, integrity_flags="suspicious_source left_processes"),
    failed(2, "candidate", "candidate_error", score_best=None),
    failed(3, "trainer", "job_timeout", stop_reason="timeout", score_best=5.0, integrity_flags="unswept"),
    failed(4, "provider", "provider_error"),
    failed(5, "sandbox", "out_of_memory"),
    failed(6, "harness", "scorer_changed", score_best=None, integrity_flags="scorer_changed"),
    made(7, score_best=FAR, stop_reason="interrupted"),
    failed(8, "harness", "interrupted", stop_reason="completed"),
    made(9, score_best=FAR, stop_reason="budget", cut_by_run_budget=True),
    made(10, status="skipped", failure_kind="not_executed", feedback="fail_fast"),
    made(11, score_best=FAR, integrity="unprotected"),
)
WORDS = ("infrastructure", "flagged", "unprotected")


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    entries = [entry(n, status="not_executed" if row.status == "skipped" else row.status, integrity=row.integrity)
               for n, row in enumerate(ROWS)]  # fmt: skip
    made_run = make_run(tmp_path / "runs", rows=[row for row in ROWS if row.status != "skipped"], entries=entries)
    assert [row.job_id for row in read_rows(made_run)] == [row.job_id for row in ROWS]
    return made_run


def only(rows: list[LeaderboardRow]) -> LeaderboardRow:
    (row,) = rows
    return row


def test_a_mean_is_of_the_jobs_that_say_something_and_the_others_are_counted_beside_it() -> None:
    row = only(rank(ROWS))
    assert (row.score_mean, row.score_best, row.jobs, row.seeds) == (MEAN, 3.0, 2, len(ROWS))
    assert (row.failed_jobs, row.unfinished_jobs) == (2, 7)
    assert (row.flagged_jobs, row.integrity_flags, row.integrity) == (
        1,
        "suspicious_source left_processes",
        "protected",
    )


def test_asking_for_failed_jobs_brings_back_the_timeout_and_nothing_of_infrastructure() -> None:
    row = only(rank(ROWS, failed=True))
    assert (row.score_mean, row.jobs, row.failed_jobs, row.unfinished_jobs) == (3.0, 3, 1, 7)
    row = only(rank(ROWS, unprotected=True))
    assert (row.jobs, row.score_best, row.integrity) == (3, FAR, "unprotected")


@pytest.mark.parametrize("row", ROWS[2:], ids=lambda row: f"{row.failure_kind or row.stop_reason or row.integrity}")
def test_none_of_the_others_alone_makes_a_leaderboard(row: Results) -> None:
    assert rank([row]) == []


def test_people_see_unprotected_jobs_ranked_only_where_there_are_no_others() -> None:
    assert only(displayed_leaderboard(ROWS)).score_best == 3.0
    assert only(displayed_leaderboard(ROWS[10:])).score_best == FAR
    assert displayed_leaderboard(ROWS[10:11]) == []


def test_the_leaderboard_file_has_the_mean_and_what_was_left_out(run: RunLayout) -> None:
    with run.leaderboard.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["score_mean"], row["jobs"], row["seeds"]) == (repr(MEAN), "2", "12")
    assert (row["failed_jobs"], row["unfinished_jobs"], row["flagged_jobs"]) == ("2", "7", "1")
    assert row["integrity_flags"] == "suspicious_source left_processes"


def test_the_summary_counts_by_boundary_and_by_flag(run: RunLayout) -> None:
    summary = json.loads(run.summary.read_text())
    schema.validate("summary", summary)
    assert summary["counts"] == {"ok": 4, "failed": 5, "interrupted": 2, "skipped": 1}
    assert summary["boundaries"] == {"trainer": 1, "candidate": 1, "provider": 1, "sandbox": 1, "harness": 1}
    assert sum(summary["failures"].values()) == sum(summary["boundaries"].values()) == summary["counts"]["failed"]
    assert (summary["infrastructure_failures"], summary["unprotected_jobs"], summary["flagged_jobs"]) == (3, 1, 3)
    assert summary["flags"] == {"suspicious_source": 1, "left_processes": 1, "unswept": 1, "scorer_changed": 1}


def test_show_tells_them_apart_and_marks_what_is_flagged(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    show(RUN, None, run.root.parent, every=False, status=None, as_json=False)
    head, jobs, leaderboard = capsys.readouterr().out.split("\n\n")
    assert "failures        1 candidate:candidate_error, 1 trainer:job_timeout\n" in head
    assert (
        "infrastructure  1 harness:scorer_changed, 1 provider:provider_error, 1 sandbox:out_of_memory; "
        "not results of a trainer, and not in a mean\n" in head
    )
    assert "unprotected     1 of 12 jobs\n" in head
    assert "flagged         3 of 12 jobs: 1 suspicious_source, 1 left_processes, 1 unswept, 1 scorer_changed" in head
    _, *lines, sentence = jobs.splitlines()
    marked = [n for n, line in enumerate(lines) if " ! " in line]
    assert marked == [1, 3, 6], "at a glance, behind the score"
    assert "0 → 3 ↑ !" in lines[1] and lines[1].endswith("suspicious_source left_processes")
    assert lines[3].endswith("unswept; trainer: job_timeout: job_timeout.")
    assert " ok " not in lines[6] and "- !" in lines[6], "a job whose scores are withheld shows none"
    assert "NoOp (unprotected)" in lines[11]
    assert sentence.startswith("!: 3 jobs are flagged (") and "docs/design/integrity.md" in sentence
    _, header, row, left_out, unprotected = leaderboard.splitlines()
    assert "2 ± 1.4 !" in row and row.split()[header.split().index("seeds")] == "2/12"
    assert left_out == (
        "seeds: counted/total; excluded from means: 2 failed, 7 failed by infrastructure, were cut off or never ran, "
        "1 unprotected"
    )
    assert unprotected == "Left out: 1 of 11 jobs, which are unprotected: a candidate could have written its own score."
    assert str(int(FAR)) not in leaderboard


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_marks_are_seen_on_a_narrow_terminal(
    columns: int, run: RunLayout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trace_bench.display.console.screen", lambda: Screen(columns, styled=False))
    show(RUN, None, run.root.parent, every=False, status=None, as_json=False)
    _, jobs, leaderboard = capsys.readouterr().out.split("\n\n")
    lines = [line for line in jobs.splitlines() if line[:12] in {row.job_id for row in ROWS}]
    assert all(len(line) <= columns for line in lines)
    assert [n for n, line in enumerate(lines) if " !" in line] == [1, 3, 6]
    assert [n for n, line in enumerate(lines) if "(unprotected)" in line] == [11], lines[11]
    assert "  2/12  " in leaderboard and "2 ± 1.4 !" in leaderboard
    ls(run.root.parent, as_json=False)
    header, line, *_ = capsys.readouterr().out.splitlines()
    assert len(header) <= columns >= len(line) and "flagged" in header.split() and "failed" in header.split()


def test_show_as_json_has_the_same(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    show(RUN, None, run.root.parent, every=False, status=None, as_json=True)
    got = json.loads(capsys.readouterr().out)
    assert (got["infrastructure_failures"], got["unprotected_jobs"], got["flagged_jobs"]) == (3, 1, 3)
    assert got["boundaries"]["harness"] == 1 and got["flags"]["unswept"] == 1
    assert [job["flags"] for job in got["jobs"]][1] == ["suspicious_source", "left_processes"]
    assert [row["score_mean"] for row in got["leaderboard"]] == [MEAN]


def test_ls_has_a_column_for_each(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    ls(run.root.parent, as_json=False)
    header, line, sentence = capsys.readouterr().out.splitlines()
    cells = dict(zip(re.split(" {2,}", header), re.split(" {2,}", line), strict=True))
    assert {name: cells[name] for name in ("ok", "failed", "infra", "interrupted", "skipped")} == {
        "ok": "4", "failed": "5", "infra": "3", "interrupted": "2", "skipped": "1",
    }  # fmt: skip
    assert (cells["flagged"], cells["unprotected"]) == ("3", "1") and sentence.startswith("flagged: jobs to look at")
    ls(run.root.parent, as_json=True)
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["infrastructure_failures"], said["flagged"], said["unprotected"]) == (3, 3, 1)


def test_the_end_of_a_run_says_it_too(run: RunLayout, capsys: pytest.CaptureFixture[str]) -> None:
    print_outcome(run, ROWS, len(ROWS))
    text = capsys.readouterr().out
    assert (
        "2 ± 1.4 !" in text and "!: 3 jobs are flagged" in text and "excluded from means: 2 failed, 7 failed by" in text
    )
    assert "Left out: 1 of 11 jobs, which are unprotected" in text and str(int(FAR)) not in text.split("\n\n")[0]
    assert (
        "\n4 of 12 jobs ok (1 cut off by the run's budget), 5 failed (3 by infrastructure), 2 interrupted, 1 skipped\n"
        in text
    )
    words = [line.split()[0] for line in text.splitlines() if line.startswith(("failed ", "broke "))]
    assert words == ["failed"] * 2 + ["broke"] * 3, "what says nothing of a trainer comes last, under another word"
    assert f"broke       {job_id(4)}" in text


def test_counts_are_the_same_wherever_they_are_told(run: RunLayout) -> None:
    """Of a run that goes on, one that has ended, and its files."""
    planned = [SampleJob(row.job_id, row.task_id) for row in ROWS]
    tally = Tally(planned, workers=1)
    for job, row in zip(planned, ROWS, strict=True):
        tally.apply(JobFinished(job, row))
    assert tally.counts == json.loads(run.summary.read_text())["counts"]
    assert (tally.infrastructure, tally.flagged) == (3, 3)
    assert counts_text(ROWS[:4], 4) == "2 of 4 jobs ok, 2 failed"
    assert [is_final(row) for row in ROWS] == [True] * 4 + [False] * 7 + [True]
