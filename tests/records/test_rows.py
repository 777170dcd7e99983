"""One row per job."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.artifacts.samples import META, RESULT
from trace_bench.artifacts import schema
from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.derived import ParetoFront
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.outputs import Hardware, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.errors import HarnessError
from trace_bench.records.rows import results_row

USAGE = Usage(calls=4, prompt_tokens=100, completion_tokens=20, cost_usd=0.5)


def meta(**change: Any) -> JobMeta:
    return JobMeta.model_validate({**META, **change})


def result(**change: Any) -> WorkerResult:
    return WorkerResult.model_validate({**copy.deepcopy(RESULT), **change})


def row(tmp_path: Path, m: JobMeta, r: WorkerResult | None, seconds: float | None = 2.5) -> Results:
    return results_row(m, r, USAGE, seconds, RunLayout(tmp_path))


def test_a_row_holds_official_scores_and_metered_usage(tmp_path: Path) -> None:
    got = row(tmp_path, meta(), result())
    assert (got.score_initial, got.score_final, got.score_best, got.score_test) == (-3.0, -1.0, -0.5, -0.75)
    assert (got.llm_calls, got.prompt_tokens, got.completion_tokens, got.total_tokens) == (4, 100, 20, 120)
    assert (got.cost_usd, got.time_seconds, got.evaluations) == (0.5, 2.5, 12)
    assert (got.status, got.failure_kind, got.stop_reason) == ("ok", None, "completed")
    assert got.resolved_trainer_kwargs == {"num_steps": 3}
    schema.validate("results", json.loads(got.model_dump_json()))


@pytest.mark.parametrize("saved", [None, 0, 7])
def test_what_was_known_and_not_evaluated_again_has_a_column(tmp_path: Path, saved: int | None) -> None:
    assert row(tmp_path, meta(), result(evaluations_saved=saved)).evaluations_saved == saved
    assert row(tmp_path, meta(), None).evaluations_saved is None


@pytest.mark.parametrize(("timing_sensitive", "due"), [(True, "Xeon · 0.5 CPUs · torch 2.13"), (False, "")])
def test_hardware_stands_with_scores_that_depend_on_it(tmp_path: Path, timing_sensitive: bool, due: str) -> None:
    told = {"cpu": "Xeon", "cpus": 0.5, "torch": "2.13"}
    assert row(tmp_path, meta(timing_sensitive=timing_sensitive), result(hardware=told)).hardware == due
    assert row(tmp_path, meta(timing_sensitive=timing_sensitive), None).hardware == ""


def test_gpus_are_named_before_the_cpu() -> None:
    told = Hardware(cpu="Xeon", cpus=1.0, gpus=("H100", "H100"), driver="550.54", torch="2.13")
    assert told.name == "2 × H100 · driver 550.54 · Xeon · 1 CPU · torch 2.13"
    assert Hardware().name == ""


def test_without_validation_data_the_training_score_counts(tmp_path: Path) -> None:
    scores = {"initial": {"train": 1}, "best": {"train": 2.0, "test": 0.0}}
    got = row(tmp_path, meta(), result(scores=scores))
    assert (got.score_initial, got.score_best, got.score_final, got.score_test) == (1.0, 2.0, None, 0.0)


def test_feedback_is_of_data_that_is_not_held_out(tmp_path: Path) -> None:
    assert row(tmp_path, meta(), result()).feedback == "too small"


def test_a_timeout_is_failed_and_keeps_its_score(tmp_path: Path) -> None:
    failure = {"boundary": "trainer", "kind": "job_timeout", "message": "training took more than 60 s"}
    got = row(tmp_path, meta(status="failed", stop_reason="timeout", failure=failure), result(stop_reason="timeout"))
    assert (got.status, got.failure_kind, got.failure_boundary) == ("failed", "job_timeout", "trainer")
    assert (got.stop_reason, got.score_best, got.feedback) == ("timeout", -0.5, "training took more than 60 s")


def test_a_job_without_a_result_has_a_row_without_scores(tmp_path: Path) -> None:
    failure = {"boundary": "sandbox", "kind": "oom", "message": "killed"}
    got = row(tmp_path, meta(status="failed", stop_reason=None, failure=failure), None, None)
    assert (got.score_best, got.time_seconds, got.failure_boundary, got.llm_calls) == (None, None, "sandbox", 4)


def test_without_a_measured_time_the_phases_are_added(tmp_path: Path) -> None:
    assert row(tmp_path, meta(), result(), None).time_seconds == pytest.approx(1.5)


def test_a_run_whose_stub_never_moved_anything_says_so(tmp_path: Path) -> None:
    inert = Usage(calls=3, inert=3)
    assert results_row(meta(), result(), inert, 1.0, RunLayout(tmp_path)).stub_inert
    assert not results_row(meta(), result(), Usage(calls=3, inert=2), 1.0, RunLayout(tmp_path)).stub_inert
    assert not results_row(meta(), result(), Usage(), 1.0, RunLayout(tmp_path)).stub_inert


def test_only_paths_that_exist_are_given(tmp_path: Path) -> None:
    job = RunLayout(tmp_path).job("0123456789ab").make()
    job.best_state.write_text("{}\n")
    got = row(tmp_path, meta(), result())
    assert got.best_state_path == "jobs/0123456789ab/artifacts/best_state.yaml"
    assert got.initial_state_path is None


@pytest.mark.parametrize("status", ["planned", "running"])
def test_a_job_that_has_not_ended_has_no_row(tmp_path: Path, status: str) -> None:
    with pytest.raises(HarnessError, match=f"is {status}"):
        row(tmp_path, meta(status=status), None)


METRICS = {"loss": {"direction": "minimize", "failure": 9}, "hits": {"direction": "maximize", "failure": 0}}
MEASURED = {"score": 0.5, "loss": 1.0, "hits": 2.0}


def test_metrics_of_each_state_are_official_means_of_those_that_the_task_declares(tmp_path: Path) -> None:
    states = {
        "initial": {"validate": 0.1, "metrics": {"validate": MEASURED, "train": {"loss": 8.0}}},
        "best": {"validate": 0.2, "test": 0.3, "metrics": {"validate": {**MEASURED, "forged": 1.0}, "test": MEASURED}},
        "final": {"train": 0.2, "metrics": {"train": {"loss": 3.0}}},
    }
    objective = {"mode": "weighted", "metrics": METRICS, "weights": {"loss": 1}}
    got = row(tmp_path, meta(objective=objective), result(scores=states))
    assert (got.objective, got.metrics_initial, got.metrics_best) == ("weighted", MEASURED, MEASURED)
    assert (got.metrics_test, got.metrics_final) == (MEASURED, {"loss": 3.0})
    plain = row(tmp_path, meta(), result(scores=states))
    assert (plain.objective, plain.metrics_initial, plain.metrics_best) == ("scalar", {}, {})


def test_metrics_and_hypervolume_are_withheld_with_the_scores(tmp_path: Path) -> None:
    front = ParetoFront(
        job_id="0123456789ab", split="train", metrics={}, points=(), reference={}, reference_from={},
        hypervolume=2.0, candidates=1,
    )  # fmt: skip
    states = {"best": {"validate": 0.2, "metrics": {"validate": MEASURED}}}
    for report, metrics, volume in (({}, MEASURED, 2.0), ({"flags": ["scorer_changed"]}, {}, None)):
        m = meta(objective={"metrics": METRICS}, integrity_report=report)
        got = results_row(m, result(scores=states), USAGE, 1.0, RunLayout(tmp_path), front)
        assert (got.metrics_best, got.hypervolume) == (metrics, volume)
