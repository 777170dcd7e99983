"""How far scores are to be believed, as ``show RUN JOB`` and a run that goes on say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.analysis.folders import RUN, job_id, make_job, make_run, row
from tests.artifacts.samples import HASH, TIME
from tests.cli.sample_run import RUN_ID, Terminal, failed, job, start
from tests.cli.sample_run import row as sample
from trace_bench.artifacts.records import Attempt
from trace_bench.cli.commands.show import show
from trace_bench.cli.displays import JsonLines, Lines
from trace_bench.cli.live import picture
from trace_bench.cli.show_integrity import print_evidence
from trace_bench.cli.tally import Tally
from trace_bench.execution.events import JobFinished

SIGN = {"kind": "files", "line": 3, "text": "open('/proc/self/mem')"}
REPORT: dict[str, Any] = {
    "claims": {
        "initial": {"score": -3.0, "split": "validate", "examples": ["v0", "v1"]},
        "best": {"score": 0.1 + 0.2, "split": "validate", "examples": ["v0"]},
        "final": {"score": 9.0, "split": "train", "examples": ["t0", "t1", "t2"]},
    },
    "found": {"initial": -3.0, "best": 0.3},
    "signs": {"best": [SIGN] * 30},
    "candidates": {"score": {"opened": 4, "needs": ["files"], "unswept": 2, "over_cpu": 3, "cpu_seconds": 1.25}},
    "scorer_files": {"files": 12, "sha256": HASH, "unchanged": True},
    "flags": ["suspicious_source", "left_processes", "of_later"],
}


def shown(runs: Path, capsys: pytest.CaptureFixture[str], *, every: bool = False, as_json: bool = False) -> str:
    show(RUN, job_id(0), runs, every=every, status=None, as_json=as_json)
    return capsys.readouterr().out


def test_a_job_shows_its_whole_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(
        tmp_path, rows=[row(0, score_best=-0.5, integrity_flags="suspicious_source left_processes of_later")]
    )
    make_job(run, 0, integrity_report=REPORT)
    text = shown(tmp_path, capsys)
    for line in (
        "validation   - → -0.5 ↑ !",
        "flags        suspicious_source left_processes of_later",
        "  suspicious_source  the source of a scored state has unusual code (only in runs of earlier versions)",
        "  of_later           a flag that this version does not know",
        "  read more          docs/design/integrity.md",
        f"  scorer files       12, unchanged while it scored, sha256 {HASH}",
        "initial  -3                   -3     2 of validate",
        "best     0.30000000000000004  0.3    1 of validate",
        "final    9                    -      3 of train, which were not scored",
        "best   files  3     open('/proc/self/mem')",
        "best   …      -     10 more; --all shows them",
        "score  4       files  2        3         1.2",
    ):
        assert line in text.splitlines(), (line, text)
    assert shown(tmp_path, capsys, every=True).count("/proc/self/mem") == 30
    meta = json.loads(shown(tmp_path, capsys, as_json=True))["job_meta"]
    assert meta["integrity_report"]["found"] == REPORT["found"] and len(meta["integrity_report"]["signs"]["best"]) == 30


def test_a_job_without_anything_to_say_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_job(make_run(tmp_path, rows=[row(0, score_best=-0.5)]), 0)
    text = shown(tmp_path, capsys)
    assert not any(word in text for word in ("integrity", "signs", "evidence", " !", "flags"))
    make_job(make_run(tmp_path, rows=[row(0)]), 0, integrity="unprotected")
    assert "  unprotected  nothing kept a candidate from writing its own score" in shown(tmp_path, capsys)


@pytest.mark.parametrize(
    "change",
    [
        {"failure": {"boundary": "harness", "kind": "scorer_changed", "message": "x"}},
        {"failure": {"boundary": "harness", "kind": "not_recorded", "message": "x"}},
        {"integrity_report": {"scorer_files": {"files": 1, "sha256": HASH, "unchanged": False},
                              "flags": ["scorer_changed"]}},
    ],
)  # fmt: skip
def test_scores_that_are_withheld_are_shown_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any]
) -> None:
    """Although ``result.json`` has them."""
    bad = row(0, status="failed", failure_boundary="harness", failure_kind="scorer_changed", feedback="x")
    make_job(make_run(tmp_path, rows=[bad]), 0, status="failed", **change)
    text = shown(tmp_path, capsys)
    assert "-0.75" not in text and "\nscores\n" not in text
    assert "withheld     the scores, which do not count" in text
    assert json.loads(shown(tmp_path, capsys, as_json=True))["scores"] is None


def test_each_attempt_that_failed_shows_its_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failure = {"boundary": "sandbox", "kind": "out_of_memory", "message": "it ended with exit code 137\nand more"}
    attempts = [
        {"number": 1, "started_at": TIME, "status": "failed", "failure": failure},
        {"number": 2, "started_at": TIME, "status": "ok"},
    ]
    make_job(make_run(tmp_path, rows=[row(0)]), 0, attempts=attempts)
    text = shown(tmp_path, capsys)
    assert "\nevidence\n  attempt 1  it ended with exit code 137\\nand more\n" in text and "  attempt 2" not in text


def test_whatever_an_attempt_holds_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields are not named one by one, so that a new one is not forgotten."""

    class Later(Attempt):
        evidence: dict[str, Any]

    found = {"exit_code": 137, "oom_killed": False, "last_words": "a\x1b[2J", "empty": "", "worker": {"died": ["x"]}}
    meta = make_meta(Later(number=1, started_at=TIME, status="failed", evidence=found))
    print_evidence(meta)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  attempt 1  exit_code: 137",
        "             oom_killed: false",
        "             last_words: a\\x1b[2J",
        '             worker.died: ["x"]',
    ]


def make_meta(attempt: Attempt) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(attempts=(attempt,))


# -------------------------------------------------------------------------------------------- while a run goes on


def test_the_live_table_marks_the_best_score_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [job(n) for n in range(3)]
    tally = Tally(jobs, workers=1)
    flagged = sample(jobs[0], integrity_flags="unswept").model_copy(update={"integrity": "unprotected"})
    tally.apply(JobFinished(jobs[0], flagged))
    tally.apply(JobFinished(jobs[1], failed(jobs[1], failure_boundary="provider")))
    console = Console(file=Terminal(), width=120, color_system=None)
    with console.capture() as captured:
        console.print(picture(tally, RUN_ID, 120, 20))
    text = captured.get()
    assert "1 failed (1 by infrastructure)" in text and "1 flagged (!)" in text
    assert "-0.5 ↑ !  PrioritySearch (unprotected)" in text


def test_lines_and_json_say_it_of_each_job(capsys: pytest.CaptureFixture[str]) -> None:
    flagged, broke = job(1), job(2)
    for display in (Lines(), JsonLines()):
        display.notify(start([flagged, broke]))
        display.notify(JobFinished(flagged, sample(flagged, integrity_flags="claim_differs unswept")))
        display.notify(JobFinished(broke, failed(broke, failure_boundary="sandbox", integrity_flags="left_processes")))
        display.close(1)
    said = capsys.readouterr()
    _, one, two = said.err.splitlines()
    assert one.endswith("2.0 s  $0.2500  ! claim_differs unswept  [1/2, $0.2500]")
    assert two.endswith("  ! left_processes  [2/2, $0.5000]")
    *_, end = map(json.loads, said.out.splitlines())
    assert (end["flagged_jobs"], end["infrastructure_failures"], end["counts"]["failed"]) == (2, 1, 1)
