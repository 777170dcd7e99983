"""Programs for the Trace-Bench prototype: its import paths work, or name what to use instead."""

from __future__ import annotations

import csv
import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.integration.cli import REPOSITORY
from trace_bench.errors import ConfigError

PAGE = REPOSITORY / "docs" / "how-to" / "coming-from-the-prototype.md"
NUMBER = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "backend": "local"}


def rows() -> list[tuple[str, str]]:
    section = PAGE.read_text().split("\n## From Python\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`([^`]*)`", line.split(" | ")[0])[0], line.split(" | ")[1].strip(" |")) for line in lines]


@pytest.mark.parametrize(("path", "here"), rows())
def test_each_import_of_the_page_works_or_refuses_with_the_replacement(path: str, here: str) -> None:
    module, _, name = path.partition("(")[0].rpartition(".")
    if name == "from_dict":
        module, _, inner = module.rpartition(".")
        found = getattr(getattr(import_module(module), inner), name)
    else:
        found = getattr(import_module(module), name)
    if here.startswith("refused"):
        with pytest.raises(ConfigError, match=r"trace_bench\.evaluate\(task, state\) scores a state in a sandbox"):
            found("internal:numeric_param")
    else:
        assert callable(found)


def test_a_runner_runs_as_the_prototype_did(tmp_path: Path) -> None:
    from trace_bench import BenchRunner, RunConfig

    config = RunConfig.from_dict({**NUMBER, "runs_dir": str(tmp_path / "runs"), "run_id": "mine"})
    runner = BenchRunner(config, tasks_root=REPOSITORY / "tests" / "tasks", job_timeout=60)
    assert runner.config.job_timeout == 60 and config.job_timeout is None
    summary = runner.run()
    (row,) = summary.results
    assert (summary.run_id, row["status"], row["trainer_id"]) == ("mine", "ok", "NoOp") and summary.result.ok
    assert row["score_val"] == row["score_best"] == row["score_val_initial"] and isinstance(row["eval_kwargs"], dict)
    with (tmp_path / "runs" / "mine" / "results.csv").open(newline="") as file:
        assert set(next(csv.reader(file))) >= {name for name in row if not name.startswith("metric")} - {
            "search_answers", "unusable_answers", "evaluations_saved", "scoring_calls",
        }  # fmt: skip
    assert runner.run().results == summary.results, "continued: its job has a result"
    assert runner.run(force=True).results[0]["time_seconds"] != row["time_seconds"]
    assert BenchRunner(NUMBER, job_timeout=0).config.job_timeout is None
    for bad in (-5, float("nan")):
        with pytest.raises(ConfigError, match=f"job_timeout is {bad}; write seconds, or 0 for no limit"):
            BenchRunner(NUMBER, job_timeout=bad)


def test_tasks_and_trainers_are_found_as_by_the_commands() -> None:
    from trace_bench.registry import discover_tasks, discover_trainers, normalize_task_id

    assert {task.suite for task in discover_tasks(bench="internal,hf")} == {"internal", "hf"}
    ids = {task.id for task in discover_tasks(REPOSITORY / "benchmarks" / "LLM4AD" / "benchmark_tasks")}
    assert "llm4ad:circle_packing" in ids and all(Path(t.module).exists() for t in discover_tasks(bench="internal"))
    with pytest.raises(ConfigError, match="no suite nope"):
        discover_tasks(bench="nope")
    trainers = {trainer.id: trainer for trainer in discover_trainers()}
    assert trainers["PrioritySearch"].available
    assert trainers["PrioritySearch"].source == "trace_bench.trainers.priority_search"
    assert normalize_task_id("circle_packing") == "llm4ad:circle_packing"
    assert normalize_task_id("example:greeting_stub") == "trace_examples:greeting_stub"
