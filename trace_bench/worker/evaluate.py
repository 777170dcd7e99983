"""Runs a state over examples without a graph: what the scorer does, and a trainer that needs no graph."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.errors import TaskError, TraceBenchError
from trace_bench.worker.problem import (
    CandidateError,
    Example,
    Problem,
    ProblemError,
    Program,
    Programs,
    ScoreError,
    Value,
    checked_score,
)
from trace_bench.worker.sentences import visible
from trace_bench.worker.training import Rollout, StopTraining


class PlainOps:
    """`problem.Ops` on plain data. One process per operator, for one example; close when done."""

    def __init__(self, problem: Problem, state: Mapping[str, Value], programs: Programs) -> None:
        self._parameters = {p.name: p for p in problem.parameters}
        self._state = state
        self._programs = programs
        self._open: dict[str, Program] = {}

    def __enter__(self) -> PlainOps:
        return self

    def __exit__(self, *exc: object) -> None:
        for program in self._open.values():
            program.__exit__(None, None, None)
        self._open.clear()

    def param(self, name: str) -> Any:
        return self._state.get(name, self._parameters[name].value)

    def apply(self, fn: Callable[..., Any], *args: Any) -> Any:
        return fn(*args)

    def call(self, name: str, *args: Any) -> Any:
        if name not in self._open:
            entry = self._parameters[name].entry or name
            self._open[name] = self._programs.open(str(self.param(name)), entry)
        return self._open[name](*args)


def evaluate_example(problem: Problem, state: Mapping[str, Value], example: Example, programs: Programs) -> Rollout:
    """The score of `state` on one example, natural units. A candidate's failure is a rollout, not an exception.

    Raises:
        ProblemError: the guide returned something that is no score.
        TaskError: agent or guide raised anything but `CandidateError`.
    """
    at_work: tuple[str, Callable[..., Any] | None] = ("agent", problem.agent)
    try:
        with PlainOps(problem, state, programs) as ops:
            if problem.agent is None:
                response = ops.param(problem.trainable[0].name)
            else:
                response = problem.agent(ops, example.query)
        at_work = ("guide", problem.guide)
        score, feedback = judged(problem, example, response)
    except CandidateError as error:
        return Rollout(example.id, problem.failure_score, str(error), failed=True)
    except (ProblemError, TraceBenchError, StopTraining):
        raise
    except Exception as error:
        raise raised_by_task(*at_work, error, example) from error
    return Rollout(example.id, score, feedback)


def judged(problem: Problem, example: Example, response: Any) -> tuple[float, str]:
    """What the problem's guide says of `response`: a finite score and visible feedback.

    Raises:
        CandidateError: the guide raised it, or (`ScoreError`, with a warning of the job) gave no finite number.
        ProblemError: the guide returned something else than a pair.
    """
    try:
        outcome = problem.guide(example.query, response, example.reference)
        if not isinstance(outcome, tuple | list) or len(outcome) != 2:
            raise ProblemError(f"the guide returned {type(outcome).__name__} where (score, feedback) is due")
        return checked_score(outcome[0]), visible(str(outcome[1]), lines=True)
    except ScoreError as error:
        name = getattr(problem.guide, "__name__", type(problem.guide).__name__)
        problem.warn(
            f"{error.message} (guide {name}, example {example.id!r}): it counts as the candidate's failure, here and "
            "wherever it happens again"
        )
        raise


def raised_by_task(noun: str, function: Callable[..., Any] | None, error: Exception, example: Example) -> TaskError:
    """What `function`, the task's own `noun`, raised: with the line of its file that the error came through last."""
    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(getattr(function, "__code__", None), "co_filename", None)
    frame = next((f for f in reversed(frames) if f.filename == own), frames[-1])
    return TaskError(
        f"the {noun} raised {type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno}; "
        f"example {example.id!r})"
    )


def evaluate_state(
    problem: Problem, state: Mapping[str, Value], chosen: Sequence[Example], programs: Programs
) -> list[Rollout]:
    """`evaluate_example` over `chosen`, in order."""
    return [evaluate_example(problem, state, example, programs) for example in chosen]


def mean_score(rollouts: Sequence[Rollout]) -> float:
    """Mean over `rollouts`, which are not none, in natural units. It is finite, as each is; their sum need not be."""
    scores = [r.score for r in rollouts]
    plain = sum(scores) / len(scores)
    return plain if math.isfinite(plain) else mean_of_huge(scores)


def mean_of_huge(scores: Sequence[float]) -> float:
    """Mean of finite numbers whose sum may be beyond a double."""
    largest = max(map(abs, scores))
    return largest * (math.fsum(score / largest for score in scores) / len(scores))
