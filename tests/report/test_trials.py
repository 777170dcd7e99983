"""Trials of agents in the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.analysis.folders import make_run, row
from tests.artifacts.samples import SERVICE_CALL
from trace_bench.report import Report, page, read_source
from trace_bench.report.trials import MOST_TIMELINES, table, timelines, trials

STEP = {"step": 3, "source": "agent", "message": "I look.", "calls": ["ls\n"], "observation": "<b>a</b>"}


def line(phase: str, reward: float, **answer: Any) -> dict[str, Any]:
    found = {
        "rewards": {"reward": reward},
        "tests": "",
        "steps": [STEP],
        "notes": [],
        "seconds": {"agent": 2.71, "trial": 9},
    }
    usage = {"llm_calls": 3, "prompt_tokens": 100, "completion_tokens": 20}
    return {**SERVICE_CALL, "phase": phase, "answer": {**found, **answer}, "usage": usage}


def report_of(folder: Path, *lines: Any) -> Report:
    run = make_run(folder, rows=[row(0, score_best=1.0)])
    job = run.job(row(0).job_id).make()
    job.services.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines))
    return Report.of([read_source(run)])


def test_every_trial_is_a_row_and_those_of_scores_have_timelines(tmp_path: Path) -> None:
    report = report_of(tmp_path, line("train", 0.0), line("score", 1.0), {**line("train", 0.5), "status": 502})
    found = trials(report)
    rows = table(found).rows
    assert [row_[3:] for row_ in rows] == [
        ("train", "1", "0", "2.7", "9", "3", "120"),
        ("score", "2", "1", "2.7", "9", "3", "120"),
    ]
    ((title, steps),) = timelines(found)
    assert title.endswith("trial 2: reward 1") and steps.rows == (("3", "agent", "I look.", "ls", "<b>a</b>"),)
    html = page(report)
    assert "Trials of agents" in html and "&lt;b&gt;a&lt;/b&gt;" in html and "<b>a</b>" not in html


def test_the_number_of_timelines_is_bounded_and_other_answers_are_none(tmp_path: Path) -> None:
    found = trials(report_of(tmp_path, *[line("score", 1.0)] * 20, {**SERVICE_CALL, "answer": {"taste": 1}}))
    assert len(found) == 20 and len(timelines(found)) == MOST_TIMELINES


def test_a_damaged_record_and_a_run_without_trials_leave_the_section_out(tmp_path: Path) -> None:
    assert "Trials of agents" not in page(report_of(tmp_path / "a", "{", line("score", 1.0)))
    assert "Trials of agents" not in page(Report.of([read_source(make_run(tmp_path / "b", rows=[row(0)]))]))
