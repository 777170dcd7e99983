"""The objective of a config, over the metrics of its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.config import load_config, parse_config
from trace_bench.config.models import RunConfig
from trace_bench.config.objectives import direction_of
from trace_bench.config.resolve import resolve
from trace_bench.errors import ConfigError
from trace_bench.identity import config_hash
from trace_bench.matrix import Job, expand

CAMEL = "internal:multiobjective_convex"
PLAIN = "internal:numeric_param"
TOML = """
title = "t"
statement = "s"
interaction = "value"
[score]
direction = "maximize"
failure = 0
[metrics.{name}]
{body}
"""


def load(tmp_path: Path, objective: str, *tasks: str, line: str = "") -> tuple[RunConfig, list[Job]]:
    path = tmp_path / "c.yaml"
    path.write_text(f"tasks: [{', '.join(tasks or (CAMEL,))}]\n{objective}\n{line}")
    config = load_config(path)
    found = resolve(config)
    return config, expand(config, found.tasks, found.trainers)


def objective_of(tmp_path: Path, objective: str, *tasks: str) -> ObjectiveSpec:
    return ObjectiveSpec(**load(tmp_path, objective, *tasks)[1][0].objective)


def test_without_one_the_tasks_own_score_counts_and_its_metrics_are_measured(tmp_path: Path) -> None:
    plain = objective_of(tmp_path, "", PLAIN)
    assert (plain.mode, plain.score_key, plain.score_direction, plain.metrics) == ("scalar", "score", "maximize", {})
    camel = objective_of(tmp_path, "")
    assert (camel.mode, camel.score_direction, camel.weights) == ("scalar", "minimize", {})
    assert list(camel.metrics) == ["base_loss", "reg_loss"] == list(camel.pareto_metrics)
    assert camel.metrics["base_loss"].reference == 6.0


@pytest.mark.parametrize(
    ("written", "same"),
    [("objective: score", ""), ("objective: scalar", ""), ("objective: {}", ""), ("objective: {mode: scalar}", ""),
     ("objective: pareto", "objective: {mode: pareto}"), ("objective: weighted", "objective: {mode: weighted}")],
)  # fmt: skip
def test_a_word_stands_for_its_mode_and_a_snapshot_loads_again(written: str, same: str, tmp_path: Path) -> None:
    one, other = load(tmp_path, written)[0], load(tmp_path, same)[0]
    assert one == other and config_hash(one.to_snapshot(), {}) == config_hash(other.to_snapshot(), {})
    assert parse_config(one.to_snapshot()) == one


@pytest.mark.parametrize(
    ("written", "direction"),
    [("", "minimize"), ("objective: {score_key: reg_loss}", "minimize"), ("objective: weighted", "maximize"),
     ("objective: pareto", "maximize")],
)  # fmt: skip
def test_the_direction_is_that_of_what_is_compared(written: str, direction: str, tmp_path: Path) -> None:
    assert direction_of(load(tmp_path, written)[1][0].objective) == direction


def test_weights_are_the_tasks_own_unless_given_and_then_the_whole_sum(tmp_path: Path) -> None:
    assert objective_of(tmp_path, "objective: weighted").weights == {"base_loss": 1.0, "reg_loss": 1.0}
    given = "objective: {mode: weighted, weights: {reg_loss: 3, score: 0.5}}"
    assert objective_of(tmp_path, given).weights == {"reg_loss": 3.0, "score": 0.5}


def test_a_metric_may_be_minimized_whatever_the_task_says(tmp_path: Path) -> None:
    root = tmp_path / "tasks" / "mine"
    root.mkdir(parents=True)
    (root / "task.toml").write_text(TOML.format(name="hits", body='direction = "maximize"\nfailure = 1'))
    (root / "problem.py").write_text("")
    roots = f"task_roots: [{tmp_path / 'tasks'}]\n"
    plain = load(tmp_path, "", "internal:mine", line=roots)[1][0].objective
    turned = load(tmp_path, "objective: {minimize: [hits]}", "internal:mine", line=roots)[1][0].objective
    assert plain["metrics"]["hits"]["direction"] == "maximize"
    assert turned["metrics"]["hits"]["direction"] == "minimize"
    # A task with one metric trades it for its score.
    assert plain["pareto_metrics"] == ("score", "hits")


def test_it_is_no_part_of_a_jobs_id(tmp_path: Path) -> None:
    one, other = load(tmp_path, "")[1][0], load(tmp_path, "objective: pareto")[1][0]
    assert one.job_id == other.job_id and one.objective != other.objective


@pytest.mark.parametrize(
    ("objective", "tasks", "words"),
    [
        ("objective: pareto", (CAMEL, PLAIN), ("c.yaml, line 2: objective pareto compares metrics",
                                               f"the task {PLAIN} declares none; write 'objective: score'")),
        ("objective:\n  mode: weighted", (PLAIN,), ("line 3: objective.mode weighted compares metrics", PLAIN)),
        ("objective:\n  mode: weighted\n  weights:\n    bas_loss: 1", (CAMEL,),
         ("line 5: objective.weights.bas_loss: the task internal:multiobjective_convex has no metric 'bas_loss'",
          "did you mean 'base_loss'")),
        ("objective: {minimize: [score]}", (CAMEL,), ("the direction of its score is the task's own",)),
        ("objective: {mode: pareto, pareto_metrics: [base_loss, size]}", (CAMEL,),
         ("objective.pareto_metrics[1]: the task", "no metric 'size'", "base_loss, reg_loss, score")),
        ("objective: {score_key: x}", (CAMEL,), ("objective.score_key: the task", "no metric 'x'")),
        ("objective: {score_key: x}", (PLAIN,), ("declares no metrics, so there is nothing to set",)),
        ("objective: {reference: {x: 1}}", (CAMEL,), ("objective.reference.x: the task", "no metric 'x'")),
        ("objective: {mode: weighted, minimize: [y], weights: {x: 1}}", (CAMEL,), ("'x'", "'y'")),
    ],
)  # fmt: skip
def test_what_the_tasks_do_not_have_is_refused_with_its_place(
    objective: str, tasks: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, objective, *tasks)
    assert all(word in str(caught.value).replace("\n", " ") for word in words), str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("score", 'direction = "maximize"\nfailure = 1', "metrics.score: 'score' is the task's own score"),
        ("'a b'", 'direction = "maximize"\nfailure = 1', "metrics.a b: a metric's name is a Python identifier"),
        ("hits", 'direction = "up"\nfailure = 1', "line 9: metrics.hits.direction must be one of"),
        ("hits", 'direction = "maximize"', "'metrics.hits.failure' is missing"),
        ("hits", 'direction = "maximize"\nfailure = 1\nweigth = 2', "unknown key 'metrics.hits.weigth'"),
        ("hits", 'direction = "maximize"\nfailure = 1\nweight = -1', "metrics.hits.weight"),
        ("hits", 'direction = "maximize"\nfailure = inf', "metrics.hits.failure"),
    ],
)
def test_a_task_that_declares_a_metric_wrongly_is_refused(name: str, body: str, words: str, tmp_path: Path) -> None:
    root = tmp_path / "tasks" / "mine"
    root.mkdir(parents=True)
    (root / "task.toml").write_text(TOML.format(name=name, body=body))
    (root / "problem.py").write_text("")
    given: dict[str, Any] = {"tasks": ["internal:mine"], "task_roots": [str(tmp_path / "tasks")]}
    with pytest.raises(ConfigError) as caught:
        resolve(parse_config(given))
    assert words in str(caught.value), str(caught.value)


def with_mode(mode: str, extra: str = "", objective: str = "", name: str = "objective_mode") -> str:
    return f"{objective}\ntasks:\n- {{id: {CAMEL}, eval_kwargs: {{{name}: {mode}}}}}\n{extra}\n"


def loaded(tmp_path: Path, text: str) -> list[Job]:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    config = load_config(path)
    found = resolve(config)
    again = parse_config(config.to_snapshot())
    assert expand(again, resolve(again).tasks, found.trainers) == expand(config, found.tasks, found.trainers)
    return expand(config, found.tasks, found.trainers)


def test_a_task_entry_chooses_its_mode_and_weights_are_those_of_the_metrics(tmp_path: Path) -> None:
    entries = [f"- {{id: {CAMEL}, eval_kwargs: {{objective_mode: {mode}}}}}" for mode in ("weighted", "pareto")]
    jobs = loaded(tmp_path, "\n".join(["tasks:", f"- {CAMEL}", *entries]))
    assert [job.objective["mode"] for job in jobs] == ["scalar", "weighted", "pareto"]
    assert len({job.job_id for job in jobs}) == 3
    assert jobs[0].job_id == load(tmp_path, "")[1][0].job_id and "objective_mode" not in jobs[0].eval_kwargs
    assert jobs[1].objective["weights"] == {"base_loss": 1.0, "reg_loss": 1.0}


def test_the_mode_may_be_said_for_all_tasks_and_twice_if_both_agree(tmp_path: Path) -> None:
    (job,) = loaded(tmp_path, f"tasks: [{CAMEL}]\neval_kwargs: {{objective_mode: pareto}}")
    assert job.objective["mode"] == "pareto"
    (job,) = loaded(tmp_path, with_mode("pareto", objective="objective: {mode: pareto, tie_break: lexicographic}"))
    assert (job.objective["mode"], job.objective["tie_break"]) == ("pareto", "lexicographic")
    (job,) = loaded(tmp_path, with_mode("weighted", objective="objective: {reference: {reg_loss: 5}}"))
    assert (job.objective["mode"], job.objective["references"]) == ("weighted", {"reg_loss": 5.0})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (with_mode("pareto", objective="objective: weighted"),
         "objective_mode pareto differs from c.yaml, line 1: objective, which compares by weighted"),
        (with_mode("pareto", objective="objective: {score_key: reg_loss}"), "which compares by reg_loss; keep one"),
        (with_mode("paretto"), "did you mean 'pareto'"),
        (f"tasks: [{PLAIN}]\neval_kwargs: {{objective_mode: pareto}}", "no task of this config takes 'objective_mode'"),
    ],
)  # fmt: skip
def test_a_mode_that_differs_from_the_objective_or_has_nothing_to_compare_is_refused(
    text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert words in str(caught.value).replace("\n", " ").replace(str(tmp_path) + "/", ""), str(caught.value)
