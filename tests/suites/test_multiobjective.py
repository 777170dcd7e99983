"""The tasks that measure several things: what each program or prompt is worth by every metric."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest

from trace_bench.resources import data_dir
from trace_bench.suites.task_folder import load_module
from trace_bench.worker.evaluate import evaluate_state, mean_metrics
from trace_bench.worker.problem import Problem, Programs

BBEH = "internal:multiobjective_bbeh"
BuildTask = Callable[..., Problem]


def sources() -> dict[str, str]:
    folder = data_dir("benchmarks") / "internal/multiobjective_bbeh"
    paths = {path.stem: path for path in [*folder.glob("*.py"), *folder.glob("alternatives/*.py")]}
    return {name: path.read_text() for name, path in paths.items() if name != "evaluator"}


@pytest.mark.parametrize("difficulty", [1, 5, 20])
def test_the_generator_knows_the_value_of_what_it_writes(difficulty: int) -> None:
    evaluator = load_module(data_dir("benchmarks") / "internal/multiobjective_bbeh/evaluator.py")
    made = evaluator.instances("train", 5, 150, difficulty=difficulty)
    assert [value for _, value in made] == [eval(text) for text, _ in made]
    assert 0.35 < mean(value for _, value in made) < 0.65
    words = {word for text, _ in made for word in text.split()}
    assert {"and", "or", "not", "(", ")", "True", "False", "<", "<=", ">", ">=", "==", "!=", "+", "-", "*"} <= words
    sizes = [sum(word in ("and", "or") for word in text.split()) + 1 for text, _ in made]
    assert set(sizes) == {4 * difficulty}
    assert (
        made
        == evaluator.instances("train", 5, 150, difficulty=difficulty)
        != evaluator.instances("train", 6, 150, difficulty=difficulty)
    )


def test_no_program_is_best_by_both_metrics_and_a_faster_one_scores_better(
    build_task: BuildTask, programs: Programs
) -> None:
    problem = build_task(BBEH, num_train=12)
    found = {
        name: mean_metrics(evaluate_state(problem, {"code": source}, problem.train, programs))
        for name, source in sources().items()
    }
    assert found["template"]["accuracy"] == found["reference"]["accuracy"] == 1
    assert found["template"]["cpu_seconds"] > 5 * found["reference"]["cpu_seconds"] > 0
    assert found["template"]["score"] < found["reference"]["score"] < 1
    assert 0 < found["worse"]["accuracy"] < 1 and 0 < found["left_to_right"]["accuracy"] < 1
    assert found["worse"]["cpu_seconds"] < found["reference"]["cpu_seconds"]
    assert found["broken"] == pytest.approx({"score": -0.9, "accuracy": 0, "cpu_seconds": 3})
    for metrics in found.values():
        assert metrics["score"] == pytest.approx(metrics["accuracy"] - 0.3 * metrics["cpu_seconds"])


@pytest.mark.parametrize(
    ("body", "words"),
    [("1", "must be True or False, not the integer 1"), ("None", "must be True or False, not None"),
     ("1 / 0", "ZeroDivisionError")],
)  # fmt: skip
def test_what_is_no_boolean_fails_the_program(body: Any, words: str, build_task: BuildTask, programs: Programs) -> None:
    problem = build_task(BBEH)
    source = f"def evaluate_expression(text): return {body}"
    (rollout,) = evaluate_state(problem, {"code": source}, problem.train[:1], programs)
    assert rollout.failed and words in rollout.feedback and rollout.metrics["cpu_seconds"] == 3


def test_a_wrong_value_is_shown_with_its_expression(build_task: BuildTask, programs: Programs) -> None:
    problem = build_task(BBEH)
    source = f"def evaluate_expression(text): return {not problem.train[0].reference[1]}"
    (rollout,) = evaluate_state(problem, {"code": source}, problem.train[:1], programs)
    assert problem.train[0].reference[0][:100] in rollout.feedback and "CPU seconds" in rollout.feedback
    assert not rollout.failed and rollout.metrics["accuracy"] == 0
