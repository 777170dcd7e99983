"""A job that lacks a precondition is skipped with the reason, and the others run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench
from tests.planning.test_data_sets import fetched
from trace_bench.config import parse_config
from trace_bench.errors import ConfigError, EnvironmentUnavailable, ImageDrift, TraceBenchError
from trace_bench.execution.run_records import write_records
from trace_bench.execution.start import plan_complete
from trace_bench.planning.completion import complete_config
from trace_bench.planning.models import missing_keys
from trace_bench.planning.plan import RunPlan

NO_IMAGE = "cannot run here: the image of lean cannot be built; get what it needs"
TASKS = ["internal:numeric_param", "veribench:gcd"]


def decisions(plan: RunPlan) -> dict[tuple[str, str], str]:
    """The decisions of a plan by task and model, with the reasons of those that are skipped."""
    return {(job.task_id, job.model): job.reason if job.decision == "skip" else job.decision for job in plan.jobs}


def test_a_job_without_its_image_is_skipped_in_every_table_and_runs_once_there_is_one(bench: Bench) -> None:
    bench.config = {"tasks": TASKS, "trainers": ["NoOp"]}
    bench.no_image = {"lean"}
    result = bench.run()
    assert not result.ok and [row.status for row in result.rows] == ["ok", "skipped"]
    (run,) = bench.runs()
    first, second = csv.DictReader((run / "results.csv").read_text().splitlines())
    assert (first["status"], second["status"], second["feedback"]) == ("ok", "skipped", NO_IMAGE)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["cannot_run"] == {NO_IMAGE.removeprefix("cannot run here: "): 1}
    assert f"1 job of veribench:gcd {NO_IMAGE}" in (run / "leaderboard.md").read_text()

    again = bench.run()  # it still lacks it
    assert [row.status for row in again.rows] == ["ok", "skipped"] and bench.runs() == [run]
    bench.no_image = set()
    whole = bench.run()
    assert whole.ok and bench.runs() == [run]
    assert json.loads((run / "summary.json").read_text())["cannot_run"] == {}
    assert json.loads((run / "meta" / "lock.json").read_text())["images"]["lean"]["key"] == "i"


def test_a_result_counts_although_the_image_has_gone(bench: Bench) -> None:
    bench.config = {"tasks": TASKS, "trainers": ["NoOp"]}
    run = bench.run().run_id
    bench.no_image = {"lean"}
    plan = bench.plan(run_id=run)
    assert [job.decision for job in plan.jobs] == ["reuse", "reuse"]
    assert not any("other images" in warning for warning in plan.warnings)
    assert plan.lock.images["lean"].key == "i"


def test_a_result_of_old_code_does_not_count_for_an_image_whose_recipe_has_changed(bench: Bench) -> None:
    bench.config = {"tasks": TASKS, "trainers": ["NoOp"]}
    run = bench.run().run_id
    bench.no_image, bench.why_no_image = {"lean"}, ImageDrift
    plan = bench.plan(run_id=run)
    assert [job.decision for job in plan.jobs] == ["reuse", "skip"]


@pytest.mark.parametrize(
    ("no_image", "more", "error", "says"),
    [
        ({"lean"}, {"require_all": True}, EnvironmentUnavailable, "the image of lean"),
        ({"lean", "core"}, {}, EnvironmentUnavailable, "the image of core .*\nthe image of lean"),
        (set(), {"require_all": True, "tasks": [TASKS[0], {"id": TASKS[1], "sandbox": {"labels": ["tpu"]}}]},
         ConfigError, "no host can run veribench:gcd: this host has no label 'tpu'"),
        (set(), {"sandbox": {"labels": ["tpu"]}}, ConfigError, "no host can run internal:numeric_param"),
    ],
    ids=["image-required", "no-image-at-all", "host-required", "no-host-at-all"],
)  # fmt: skip
def test_a_run_is_refused_if_all_jobs_are_required_or_none_can_run(
    bench: Bench, no_image: set[str], more: dict[str, Any], error: type[TraceBenchError], says: str
) -> None:
    bench.config = {"tasks": TASKS, "trainers": ["NoOp"], **more}
    bench.no_image = no_image
    with pytest.raises(error, match=says):
        bench.run()
    assert bench.runs() == []


def test_a_job_that_no_host_can_run_is_skipped(bench: Bench) -> None:
    tasks = [TASKS[0], {"id": TASKS[1], "sandbox": {"labels": ["tpu"]}}]
    result = bench.run(tasks=tasks, trainers=["NoOp"])
    assert [row.status for row in result.rows] == ["ok", "skipped"]
    assert result.rows[1].feedback.startswith("cannot run here: ") and "has no label 'tpu'" in result.rows[1].feedback


def test_keys_services_and_data_sets_are_preconditions_of_single_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("HARBOR_BIN", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    config = parse_config({
        "tasks": ["internal:numeric_param", "hf:gsm8k", "terminal_bench:count_log_lines"],
        "trainers": ["NoOp"], "seeds": [1], "mode": "real", "backend": "local", "runs_dir": str(tmp_path / "runs"),
        "llms": [{"model": "openai/m"}, {"model": "openai/n", "base_url": "http://127.0.0.1:9"}],
    })  # fmt: skip

    def plan(*, require_all: bool = False) -> RunPlan:
        complete = complete_config(config)
        keys = missing_keys(complete.config, {})
        assert list(keys) == ["m"]
        return plan_complete(
            complete, build=False, say=lambda _: None, keys=keys, services=True, require_all=require_all
        )

    first = plan()
    write_records(first)
    of = decisions(first)
    assert of.pop(("internal:numeric_param", "n")) == "run"
    assert "OPENAI_API_KEY is set neither" in of["internal:numeric_param", "m"]
    for model in ("m", "n"):
        assert "hf:gsm8k: its data set has not been fetched" in of["hf:gsm8k", model]
    assert "trace-bench harbor install" in of["terminal_bench:count_log_lines", "n"]
    assert all(reason.startswith("cannot run here: ") for reason in of.values())

    fetched(tmp_path)  # what a task is made of has changed, and still it is the same run
    second = plan()
    assert second.layout == first.layout and second.continued
    assert decisions(second)["hf:gsm8k", "n"] == "run"
    assert second.config_hash != first.config_hash
    with pytest.raises(ConfigError, match=r"OPENAI_API_KEY(.|\n)*harbor install"):
        plan(require_all=True)
