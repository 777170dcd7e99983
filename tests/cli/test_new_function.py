"""`new task --function`: a Python function that scores programs becomes a task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import refused
from tests.console import here
from tests.integration.cli import REPOSITORY, cli
from tests.suites.conftest import build_at, build_folder, programs, spawner  # noqa: F401
from trace_bench.cli.new import new_function_task
from trace_bench.suites.spec import load_task_spec
from trace_bench.worker.evaluate import evaluate_example
from trace_bench.worker.problem import ProblemError, Programs

EVALUATE = '''import random


def score(program, seed):
    """Sort numbers with few swaps."""
    numbers = random.Random(seed).sample(range(100), 9)
    answer = program(numbers)
    return float(sum(a == b for a, b in zip(answer, sorted(numbers)))), f"seed {seed}"
'''
START = "def arrange(numbers: list) -> list:\n    return list(numbers)\n"
RIGHT = "def arrange(numbers):\n    return sorted(numbers)\n"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("evaluate.py").write_text(EVALUATE)
    Path("start.py").write_text(START)


def test_a_function_becomes_a_task_that_runs_at_once(tmp_path: Path) -> None:
    done = here("new", "task", "arrange", "--function", "evaluate.py:score", "--program", "start.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["tasks/arrange/evaluate.py", "tasks/arrange/program.py", "tasks/arrange/task.toml"]
    assert done.stderr == "run it with: trace-bench run --root tasks -t internal:arrange\n"
    ran = cli("run", "-t", "internal:arrange", "--root", "tasks", "--backend", "local", home=tmp_path / "home")
    assert ran.returncode == 0 and "1 of 1 jobs ok" in ran.stdout, ran.stderr


def made(programs: Programs, test_seed: int | None = None, **given: Any) -> Any:  # noqa: F811
    new_function_task("t", Path("tasks"), "evaluate.py:score", **given)
    return build_folder(Path("tasks/t"), programs, "internal", seed=1, test_seed=test_seed)


def test_its_seeds_are_the_examples(programs: Programs) -> None:  # noqa: F811
    problem = made(programs, test_seed=5, program=Path("start.py"))
    assert [len(split) for split in (problem.train, problem.validate, problem.test)] == [5, 5, 5]
    seeds = {example.reference for split in (problem.train, problem.validate, problem.test) for example in split}
    assert len(seeds) == 15
    assert problem.objective.startswith("Sort numbers with few swaps. The score is to be maximized.")
    assert "def arrange(numbers: list) -> list:" in problem.objective
    right = evaluate_example(problem, {"code": RIGHT}, problem.train[0], programs)
    assert right.score == 9.0 and right.feedback.endswith(f"seed {problem.train[0].reference}")
    failed = evaluate_example(problem, {"code": "def arrange(numbers):\n    1 / 0\n"}, problem.train[0], programs)
    assert failed.failed and failed.score == -1e6 and "ZeroDivisionError" in failed.feedback


def test_without_a_seed_there_is_one_example(programs: Programs) -> None:  # noqa: F811
    Path("evaluate.py").write_text("def score(program):\n    return abs(program() - 3)\n")
    problem = made(programs, direction="minimize")
    assert [len(split) for split in (problem.train, problem.validate, problem.test)] == [1, 0, 0]
    assert (problem.direction, problem.failure_score) == ("minimize", 1e6)
    start = evaluate_example(problem, problem.initial_state(), problem.train[0], programs)
    assert start.failed and "no program to start from" in start.feedback
    assert evaluate_example(problem, {"code": "def t():\n    return 5\n"}, problem.train[0], programs).score == 2.0


@pytest.mark.parametrize(
    ("body", "said"),
    [("return 'good'", "is of type str, which is no number"), ("return 1, 2", "score() must return a number, or"),
     ("return {}['x']", "t/evaluate.py, line 2: KeyError: 'x'; the task's own code is at fault")],
)  # fmt: skip
def test_a_function_that_breaks_the_contract_is_named(body: str, said: str, programs: Programs) -> None:  # noqa: F811
    Path("evaluate.py").write_text(f"def score(program):\n    {body}\n")
    problem = made(programs)
    try:
        feedback = evaluate_example(problem, problem.initial_state(), problem.train[0], programs).feedback
    except ProblemError as error:
        feedback = str(error)
    assert said in feedback


def test_the_image_follows_from_its_imports() -> None:
    new_function_task("small", Path("tasks"), "evaluate.py:score")
    Path("evaluate.py").write_text("import pandas\n" + EVALUATE)
    new_function_task("large", Path("tasks"), "evaluate.py:score")
    images = [load_task_spec(Path("tasks") / name).image for name in ("small", "large")]
    assert images == ["llm4ad", "llm4ad+llm4ad_pkg"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--function", "evaluate.py"), "--function evaluate.py: expected FILE.py:NAME, as evaluate.py:score"),
        (("--function", "gone.py:score"), "gone.py: cannot be read: No such file"),
        (("--function", "evaluate.py:scores"), "defines no function 'scores' at its top level (found: score)"),
        (("--function", "bad.py:score"), "bad.py, line 1: is not Python"),
        (("--function", "none.py:score"), "none.py, line 1: score must take the program first: def score(program)"),
        (("--function", "other.py:more"), "other.py, line 1: more is called with the program, and with seed=… if it"),
        (("--function", "other.py:seeded"), "other.py, line 2: seeded is called with the program"),
        (("--function", "evaluate.py:score", "--direction", "up"), "--direction up: unknown direction; use maximize"),
        (("--function", "evaluate.py:score", "--program", "two.py"), "--program two.py: defines no function 't'"),
        (("--function", "evaluate.py:score", "--metric", "f1"), "--metric: is for another kind of task; add --prompt"),
        (("--function", "evaluate.py:score", "--prompt", "x.csv"), "make different tasks; give one of them"),
        (("--direction", "minimize"), "--direction: is for another kind of task; add --function FILE:NAME"),
    ],
)
def test_what_does_not_fit_is_refused(options: tuple[str, ...], said: str) -> None:
    Path("bad.py").write_text("def score(:\n")
    Path("none.py").write_text("def score():\n    pass\n")
    Path("other.py").write_text("def more(program, seed, other): ...\ndef seeded(program, seed, /): ...\n")
    Path("two.py").write_text("def a(): ...\ndef b(): ...\n")
    assert said in refused("new", "task", "t", *options)
    assert not Path("tasks").exists()


def test_the_function_of_the_page_works(programs: Programs) -> None:  # noqa: F811
    page = (REPOSITORY / "docs" / "how-to" / "add-a-task.md").read_text()
    Path("evaluate.py").write_text(page.split("```python\n# evaluate.py\n")[1].split("```")[0])
    problem = made(programs, program=Path("start.py"))
    right = evaluate_example(problem, {"code": RIGHT}, problem.train[0], programs)
    assert right.score == 9.0 and right.feedback.endswith("numbers in place")
