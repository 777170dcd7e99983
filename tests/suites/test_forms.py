"""The stateless form of a task: each call of a program is answered by a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_bench.errors import ConfigError
from trace_bench.suites.forms import FreshProcesses
from trace_bench.suites.spec import load_task_spec, resolve_eval_kwargs
from trace_bench.worker.evaluate import evaluate_state
from trace_bench.worker.problem import CandidateError, Limits, Problem, Programs
from trace_bench.worker.program_check import check_programs

TOML = """
title = "Add up"
statement = "Three numbers are asked for, one after the other; their sum is the score."
interaction = "policy"
entry = "number"
signature = "def number(step: int) -> int: ..."

[score]
direction = "maximize"
failure = -1.0

[splits]
train = 2

[limits]
cpu_seconds = 3

[candidates]
template = "template.py"
reference = "reference.py"
levels = 2
stateless = "stateless.py"
broken = ["broken.py"]
"""
EVALUATOR = """
def instances(split, seed, count):
    return list(range(count))


def evaluate(program, instance):
    answers = [program(step) for step in range(3)]
    return float(sum(answers)), f"{answers}"
"""
PROGRAMS = {
    "template.py": "def number(step):\n    return 1\n",
    "reference.py": (
        "LEVEL = 2\nCALLS = []\n\n\ndef number(step):\n    CALLS.append(step)\n    return LEVEL * len(CALLS)\n"
    ),
    "stateless.py": "def number(step):\n    return 1 + step // 2\n",
    "broken.py": "def number(step):\n    raise ValueError(step)\n",
}
COUNTS = "CALLS = []\n\n\ndef number(step):\n    CALLS.append(step)\n    return len(CALLS)\n"
DRAWS = "import random\n\n\ndef number(step):\n    return random.randrange(10**9)\n"
WORKS = """import time


def number(step):
    began = time.process_time()
    while time.process_time() - began < {seconds}:
        pass
    return 1
"""
Build = Callable[..., Problem]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"task.toml": TOML, "evaluator.py": EVALUATOR, **PROGRAMS}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def said(problem: Problem, source: str, programs: Programs) -> list[str]:
    return [rollout.feedback for rollout in evaluate_state(problem, {"code": source}, problem.train, programs)]


def test_a_program_remembers_its_calls_in_the_planned_form_alone(
    folder: Path, build_at: Build, programs: Programs
) -> None:
    for form in ({}, {"form": "planned"}):
        assert all("[1, 2, 3]" in text for text in said(build_at(folder, **form), COUNTS, programs))
    assert all("[1, 1, 1]" in text for text in said(build_at(folder, form="stateless"), COUNTS, programs))


def test_equal_calls_have_equal_answers_in_the_stateless_form(
    folder: Path, build_at: Build, programs: Programs
) -> None:
    problem = build_at(folder, form="stateless")
    first, again = said(problem, DRAWS, programs), said(problem, DRAWS, programs)
    assert first == again and len(set(first)) == 1
    assert len(set(first[0].partition("[")[2].partition("]")[0].split(", "))) == 1, "each process has the same seed"


def test_calls_are_metered_in_processes_of_their_own(folder: Path, build_at: Build, programs: Programs) -> None:
    text = EVALUATOR.replace("program(step)", "program.metered(step)[0]").replace(
        "{answers}", "{program.metered(9)[1] > 0.05}"
    )
    (folder / "evaluator.py").write_text(text)
    source = (
        WORKS.format(seconds=0.1).replace("return 1", "CALLS.append(step)\n    return len(CALLS)") + "\nCALLS = []\n"
    )
    problem = build_at(folder, form="stateless", num_train=1)
    (rollout,) = evaluate_state(problem, {"code": source}, problem.train, programs)
    assert rollout.score == 3 and "True" in rollout.feedback


@pytest.mark.slow
def test_the_limit_of_cpu_time_holds_for_all_calls_together(folder: Path, build_at: Build, programs: Programs) -> None:
    problem = build_at(folder, form="stateless", num_train=1)
    assert "[1, 1, 1]" in said(problem, WORKS.format(seconds=0.5), programs)[0]
    (text,) = said(problem, WORKS.format(seconds=1.1), programs)
    assert "more than 3 s of CPU time for all calls of the instance together" in text


class OneCall:
    """A program that says how much CPU time its process used."""

    def __init__(self, limits: Limits, seconds: float) -> None:
        self.limits, self.cpu_seconds = limits, seconds

    def __enter__(self) -> OneCall:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __call__(self, *args: Any) -> Any:
        if self.limits.cpu_seconds < self.cpu_seconds:
            raise CandidateError("died", "the process was killed by SIGXCPU")
        return self.limits.cpu_seconds


def test_a_process_gets_what_the_calls_before_have_left_and_none_is_started_after_the_limit() -> None:
    opened: list[Limits] = []

    def open_one(limits: Limits) -> Any:
        opened.append(limits)
        return OneCall(limits, 4.0)

    program = FreshProcesses(open_one, Limits(cpu_seconds=10))
    assert [program(), program()] == [10, 6]
    for _ in range(2):
        with pytest.raises(CandidateError, match="more than 10 s of CPU time for all calls"):
            program()
    assert len(opened) == 3


def test_the_limit_of_wall_time_holds_for_all_calls_together() -> None:
    class Sleeping(OneCall):
        def __call__(self, *args: Any) -> Any:
            time.sleep(0.6)

    limits = Limits(wall_seconds=0.8, cpu_seconds=0.04)
    program = FreshProcesses(lambda limits: Sleeping(limits, 0.0), limits)  # type: ignore[arg-type, return-value]
    program()
    with pytest.raises(CandidateError, match=r"its answers took more than 1 s for all calls of the instance together"):
        program()


def test_a_failure_in_one_call_is_reported_with_its_line(folder: Path, build_at: Build, programs: Programs) -> None:
    source = "def number(step):\n    return 1 // (1 - step)\n"
    (text, _) = said(build_at(folder, form="stateless"), source, programs)
    assert "line 2" in text and "return 1 // (1 - step)" in text


def test_the_statement_says_what_a_program_may_remember(folder: Path, build_at: Build) -> None:
    planned, stateless = build_at(folder).objective, build_at(folder, form="stateless").objective
    assert "All calls of an instance are answered by the same process" in planned
    assert "Each call is answered by a fresh process" in stateless and "same process" not in stateless
    (folder / "task.toml").write_text(TOML.replace('"policy"', '"solve"').replace('stateless = "stateless.py"\n', ""))
    assert "Each instance is given to a fresh process" in build_at(folder).objective


def test_arguments_have_a_form_only_if_it_is_given(folder: Path) -> None:
    spec = load_task_spec(folder)
    assert resolve_eval_kwargs(spec, {}, lambda key: key) == {}, "ids stay as they were"
    assert resolve_eval_kwargs(spec, {"form": "stateless"}, lambda key: key) == {"form": "stateless"}


def test_an_unknown_form_is_refused_with_its_place(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml, line 4 must be one of planned, stateless, not 'stateles'"):
        resolve_eval_kwargs(load_task_spec(folder), {"form": "stateles"}, lambda key: "config.yaml, line 4")
    (folder / "task.toml").write_text(TOML.replace('stateless = "stateless.py"\n', ""))
    with pytest.raises(ConfigError, match=r"config\.yaml, line 4: .*'form'"):
        resolve_eval_kwargs(load_task_spec(folder), {"form": "stateless"}, lambda key: "config.yaml, line 4")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"stateless.py"', '"other.py"', "'other.py' does not exist"),
        ('"policy"', '"solve"', "only a task whose interaction is 'policy' has a stateless form"),
    ],
)
def test_faults_of_a_stateless_program_are_named(folder: Path, old: str, new: str, message: str) -> None:
    (folder / "task.toml").write_text(TOML.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        load_task_spec(folder)


def test_each_form_has_its_own_reference(folder: Path, build_at: Build) -> None:
    def of(problem: Problem) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return problem.parameters[0].ladder, problem.parameters[0].alternatives

    template, reference, stateless, broken = (
        PROGRAMS[f"{n}.py"] for n in ("template", "reference", "stateless", "broken")
    )
    weaker = reference.replace("LEVEL = 2", "LEVEL = 1")
    assert of(build_at(folder)) == ((broken, template, weaker, reference), (reference, broken))
    assert of(build_at(folder, form="stateless")) == ((broken, template, stateless), (stateless, broken))
    (folder / "task.toml").write_text(TOML.replace("stateless.py", "reference.py"))
    assert of(build_at(folder, form="stateless")) == of(build_at(folder)), "one program may be the reference of both"


def test_programs_are_checked_in_the_form_of_their_role(folder: Path, build_at: Build, programs: Programs) -> None:
    (folder / "stateless.py").write_text(COUNTS)
    found = check_programs(build_at(folder), load_task_spec(folder).raw, folder, programs)
    scores = {report["role"]: report["score"] for report in found}
    assert scores["reference"] == 12 and scores["template"] == 3
    assert scores["stateless"] == 3, "what it remembers in the planned form does not count"
