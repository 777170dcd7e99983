"""What makes a replay differ from its recording, and what does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.folders import job_id, row
from tests.artifacts.samples import META
from trace_bench.artifacts.derived import ReplayReport
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.writers import write_json, write_text
from trace_bench.artifacts.yamlio import write_state
from trace_bench.records.replay_check import compare, sentences
from trace_bench.records.rows import LATER

LINE: dict[str, Any] = {
    "step": 0, "candidate": "c", "split": "train", "score": 0.5, "best_score": 0.5, "seconds": 1.0, "llm_calls": 1,
    "prompt_tokens": 7, "completion_tokens": 3, "cost_usd": 0.1, "evaluations": 1, "parameters": {"x": 0.1},
}  # fmt: skip
FIGURES: dict[str, Any] = {"score_best": 0.1 + 0.2, "image_key": "i", "llm_calls": 2, "cost_usd": 0.3,
                           "score_claimed": 0.5, "integrity_flags": "", "score_evaluations": 0}  # fmt: skip


def make(root: Path, *, cpu: str = "cpu", lines: tuple[dict[str, Any], ...] = (LINE,), x: Any = 0.5) -> RunLayout:
    """A run with the files of one job that are compared."""
    layout = RunLayout(root).make()
    job = layout.job(job_id(1)).make()
    write_json(job.meta, JobMeta.model_validate({**META, "job_id": job_id(1), "cpu_model": cpu}))
    write_text(job.state_history, "".join(json.dumps(line) + "\n" for line in lines))
    write_state(job.best_state, {"x": x})
    return layout


def report_of(
    folder: Path, change: dict[str, Any] | None = None, *, tolerance: float = 1e-9, **now: Any
) -> ReplayReport:
    recorded, replayed = make(folder / "was"), make(folder / "is", **now)
    before = row(1, **FIGURES)
    after = Results.model_validate({**before.model_dump(), **(change or {})})
    return compare(recorded, replayed, [after], {before.job_id: before}, {before.task_id: tolerance})


def test_what_only_time_changes_is_no_difference(tmp_path: Path) -> None:
    report = report_of(tmp_path, {"time_seconds": 99.0, "run_id": "r2"}, lines=({**LINE, "seconds": 9.0},))
    assert (report.jobs, report.equal, report.exact, report.differences) == (1, 1, 1, ())
    assert sentences(report) == ["replay of was: 1 of 1 jobs came out equal (to the bit)"]


@pytest.mark.parametrize(
    "change",
    [
        {"status": "failed"},
        {"stop_reason": "budget"},
        {"score_best": 0.3},
        {"score_test": 1.0},
        {"evaluations": 1},
        {"score_evaluations": 2},
        {"llm_calls": 3},
        {"cost_usd": 0.31},
        {"stub_inert": True},
        {"score_claimed": 0.4},
        {"integrity_flags": "claim_differs"},
    ],
)
def test_each_figure_of_a_row_counts(tmp_path: Path, change: dict[str, Any]) -> None:
    report = report_of(tmp_path, change)
    assert [difference.what for difference in report.differences] == list(change)
    assert report.differing == 1 and report.equal == 0


def test_what_a_recording_of_an_earlier_version_does_not_say_is_no_difference(tmp_path: Path) -> None:
    recorded, replayed = make(tmp_path / "was"), make(tmp_path / "is")
    later = row(1, **FIGURES)
    written = later.model_dump(mode="json", exclude=set(LATER))
    earlier = Results.model_validate_json(json.dumps(written))
    assert (earlier.search_answers, later.search_answers) == (None, 3)
    assert compare(recorded, replayed, [later], {later.job_id: earlier}, {}).differences == ()


def test_a_flag_that_only_earlier_versions_give_is_no_difference(tmp_path: Path) -> None:
    recorded, replayed = make(tmp_path / "was"), make(tmp_path / "is")
    later = row(1, **{**FIGURES, "integrity_flags": "needs_files"})
    earlier = row(1, **{**FIGURES, "integrity_flags": "suspicious_source needs_files left_processes"})
    assert compare(recorded, replayed, [later], {later.job_id: earlier}, {}).differences == ()
    assert compare(recorded, replayed, [earlier], {later.job_id: later}, {}).equal == 0


def test_the_order_in_which_costs_were_added_does_not_count(tmp_path: Path) -> None:
    assert report_of(tmp_path, {"cost_usd": 0.1 + 0.2}).equal == 1


@pytest.mark.parametrize(("elsewhere", "equal"), [({}, 0), ({"cpu": "other"}, 1)])
def test_on_the_same_machine_to_the_bit_elsewhere_within_the_tolerance(
    tmp_path: Path, elsewhere: dict[str, Any], equal: int
) -> None:
    nearly = {**LINE, "score": 0.5 + 1e-12, "parameters": {"x": 0.1 + 1e-13}}
    report = report_of(tmp_path, {"score_best": 0.3}, lines=(nearly,), x=0.5 + 1e-12, **elsewhere)
    assert report.equal == equal and report.exact == 1 - len(elsewhere)


def test_another_image_is_another_machine(tmp_path: Path) -> None:
    assert report_of(tmp_path, {"image_key": "j", "score_best": 0.3}).equal == 1


def test_the_tolerance_is_the_tasks(tmp_path: Path) -> None:
    assert report_of(tmp_path / "a", {"score_best": 0.31}, cpu="other").differing == 1
    assert report_of(tmp_path / "b", {"score_best": 0.31}, cpu="other", tolerance=0.1).equal == 1


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ((), "state_history line 1"),
        ((LINE, LINE), "state_history line 2"),
        (({**LINE, "candidate": "d"},), "state_history line 1, candidate"),
        (({**LINE, "parameters": {"x": 0.2}},), "state_history line 1, parameters"),
        (({**LINE, "prompt_tokens": 8},), "state_history line 1, prompt_tokens"),
        (({**LINE, "llm_calls": 2},), "state_history line 1, llm_calls"),
    ],
)
def test_a_history_is_compared_line_by_line(tmp_path: Path, lines: tuple[dict[str, Any], ...], what: str) -> None:
    report = report_of(tmp_path, lines=lines)
    assert [difference.what for difference in report.differences] == [what]


@pytest.mark.parametrize("spent", ["llm_calls", "prompt_tokens", "completion_tokens", "cost_usd"])
def test_what_was_spent_by_then_does_not_count_where_calls_overlap(tmp_path: Path, spent: str) -> None:
    threads = {"resolved_trainer_kwargs": {"num_threads": 4}}
    assert report_of(tmp_path, threads, lines=({**LINE, spent: LINE[spent] + 1},)).equal == 1


def test_a_state_counts_with_the_type_of_its_value(tmp_path: Path) -> None:
    report = report_of(tmp_path, x=1)
    assert [(d.what, d.recorded, d.replayed) for d in report.differences] == [("best_state", {"x": 0.5}, {"x": 1})]


def test_a_damaged_file_is_a_difference_and_no_crash(tmp_path: Path) -> None:
    recorded, replayed = make(tmp_path / "was"), make(tmp_path / "is")
    replayed.job(job_id(1)).state_history.write_text("garbage\n{}\n")
    report = compare(recorded, replayed, [row(1)], {job_id(1): row(1)}, {})
    assert [d.what for d in report.differences] == ["files"] and "not JSON" in str(report.differences[0].replayed)


def test_the_first_differences_are_told_clipped_and_safe_to_print(tmp_path: Path) -> None:
    text = "\x1b[2J" + "a" * 5000
    report = report_of(tmp_path, {"status": "failed", "llm_calls": 9}, x=text)
    told = sentences(report, shown=2)
    assert told[0] == "replay of was: 0 of 1 jobs came out equal (to the bit)"
    assert told[1].endswith("status: was ok, is failed") and told[-1] == "and more, in 1 jobs"
    assert all(len(line) < 800 and line.isprintable() for line in sentences(report))
    assert len(report.model_dump_json()) < 3000
