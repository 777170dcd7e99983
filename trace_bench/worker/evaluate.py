"""Evaluate a state on examples without a graph, for the scorer and for trainers that need no graph."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.errors import TaskError, TraceBenchError
from trace_bench.worker.objective import SCORE, finite_mean, means
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
from trace_bench.worker.training import RESPONSE_CHARACTERS, Rollout, StopTraining

TRANSIENT = frozenset({"timeout", "memory", "died"})
"""Phases of a `CandidateError` that may not happen again on a machine that is less busy."""
ROUND = 4
"""Examples of a round for each of those that are evaluated at one time."""


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
        return judged(problem, example, response)
    except CandidateError as error:
        return failed(problem, example, error)
    except (ProblemError, TraceBenchError, StopTraining):
        raise
    except Exception as error:
        raise raised_by_task(*at_work, error, example) from error


def failed(problem: Problem, example: Example, error: CandidateError) -> Rollout:
    """The rollout of a failed candidate: score and metrics of `error`, else the failure values of the problem."""
    score, metrics = problem.failure_score, {name: metric.failure for name, metric in problem.metrics.items()}
    metrics.update({name: value for name, value in (error.metrics or {}).items() if name in metrics})
    if error.score is not None:
        score = error.score
        if metrics:
            metrics[SCORE] = score
            score = problem.comparison.scalar(metrics, problem.metrics)
    return Rollout(example.id, score, str(error), failed=True, metrics=metrics, transient=error.phase in TRANSIENT)


def judged(problem: Problem, example: Example, response: Any) -> Rollout:
    """The rollout of `response` by the problem's guide: finite metrics, the score from them, visible feedback.

    Raises:
        CandidateError: the guide raised it, or (`ScoreError`, with a warning of the job) gave no finite number.
        ProblemError: the guide returned something else than a pair, or a triple with the metrics that are declared.
    """
    try:
        outcome: Any = problem.guide(example.query, response, example.reference)
        if not isinstance(outcome, tuple | list) or len(outcome) not in ((2, 3) if problem.metrics else (2,)):
            expected = "(score, feedback, metrics)" if problem.metrics else "(score, feedback)"
            raise ProblemError(f"the guide returned {type(outcome).__name__} where {expected} is expected")
        score, feedback = checked_score(outcome[0]), visible(str(outcome[1]), lines=True)
        metrics = _measured(problem, score, outcome[2] if len(outcome) == 3 else {})
        if metrics:
            score = checked_score(problem.comparison.scalar(metrics, problem.metrics))
        answer = text_of(response) if problem.agent is not None else None
        return Rollout(example.id, score, feedback, metrics=metrics, response=answer)
    except ScoreError as error:
        name = getattr(problem.guide, "__name__", type(problem.guide).__name__)
        problem.warn(
            f"{error.message} (guide {name}, example {example.id!r}): it counts as the candidate's failure, here and "
            "wherever it happens again"
        )
        raise


def text_of(value: object) -> str | None:
    """`value` as text, if it is a text or a number of `RESPONSE_CHARACTERS` at most."""
    if isinstance(value, int) and value.bit_length() > RESPONSE_CHARACTERS:  # `str` refuses the largest ones
        return None
    text = str(value) if isinstance(value, str | int | float) else None
    return text if text is not None and len(text) <= RESPONSE_CHARACTERS else None


def _measured(problem: Problem, score: float, given: Any) -> dict[str, float]:
    """All metrics of one answer, the task's own score among them; empty for a task that declares none.

    Raises:
        ScoreError: a metric is no finite number.
        ProblemError: a metric is not declared, or lacks a value.
    """
    if not isinstance(given, Mapping):
        raise ProblemError(f"the guide returned {type(given).__name__} where metrics by name are expected")
    unknown = [name for name in given if name == SCORE or name not in problem.metrics]
    if unknown:
        raise ProblemError(f"the guide returned the metric {unknown[0]!r}, which task.toml does not declare")
    measured: dict[str, float] = {}
    for name, metric in problem.metrics.items():
        if name == SCORE:
            measured[name] = score
        elif name in given:
            measured[name] = checked_score(given[name], f"the metric {name}")
        elif problem.comparison.missing_value is not None:
            measured[name] = metric.oriented(problem.comparison.missing_value)
        else:
            raise ProblemError(
                f"the guide returned no metric {name!r}, which task.toml declares (objective.missing_value would "
                "stand for it)"
            )
    return measured


def raised_by_task(noun: str, function: Callable[..., Any] | None, error: Exception, example: Example) -> TaskError:
    """The error for an exception of `function`, the task's own `noun`, with the last line of its file in the trace."""
    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(getattr(function, "__code__", None), "co_filename", None)
    frame = next((f for f in reversed(frames) if f.filename == own), frames[-1])
    return TaskError(
        f"the {noun} raised {type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno}; "
        f"example {example.id!r})"
    )


Progress = Callable[[Sequence[Rollout], int], None]
"""Called between rounds of an evaluation with what was evaluated so far, and the number of examples. May raise."""


def evaluate_state(
    problem: Problem,
    state: Mapping[str, Value],
    chosen: Sequence[Example],
    programs: Programs,
    between: Progress | None = None,
    *,
    partial: bool = False,
) -> list[Rollout]:
    """`evaluate_example` over `chosen`, in order; `Problem.at_once` of them at one time.

    Examples are evaluated in rounds of a fixed number: so which of them have been when a budget ends, or a stop is
    asked for, does not depend on how fast each was.

    Args:
        partial: a budget that ends ends the evaluation too: what it has come to is returned.
    """
    found: list[Rollout] = []
    with _Rounds(problem.at_once) as rounds:
        for start in range(0, len(chosen), rounds.size):
            if start and between is not None:
                between(found, len(chosen))
            batch = chosen[start : start + rounds.size]
            try:
                rounds.evaluate(lambda example: evaluate_example(problem, state, example, programs), batch, found)
            except StopTraining:
                if not partial:
                    raise
                break
    return found


class _Rounds:
    """Evaluates examples at one time: one, or as many threads as are given. Use as a context manager.

    Attributes:
        size: examples of a round; one at a time, all are one round.
    """

    def __init__(self, threads: int) -> None:
        self.size = threads * ROUND if threads > 1 else sys.maxsize
        self._pool: Any = None
        if threads > 1:
            from concurrent.futures import ThreadPoolExecutor  # its import takes as long as half the worker's

            self._pool = ThreadPoolExecutor(threads)

    def __enter__(self) -> _Rounds:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def evaluate(self, one: Callable[[Example], Rollout], batch: Sequence[Example], found: list[Rollout]) -> None:
        """Add the rollouts of `batch` to `found`, in order. All are evaluated, whatever one of them raises.

        Raises:
            Exception: what the first of those raised that failed; `found` has the others' rollouts.
        """
        if self._pool is None:
            found += map(one, batch)
            return
        errors = []
        for made in [self._pool.submit(one, example) for example in batch]:
            if (error := made.exception()) is None:
                found.append(made.result())
            else:
                errors.append(error)
        if errors:  # one that is the harness's or the task's own before the end of a budget
            raise min(errors, key=lambda error: isinstance(error, StopTraining))


def mean_score(rollouts: Sequence[Rollout]) -> float:
    """Mean score of one or more rollouts in natural units. It is finite, as each score is; their sum need not be."""
    return finite_mean([r.score for r in rollouts])


def best_known(problem: Problem, example: Example) -> float | None:
    """The best known score of `example`, natural units; None where the problem's guide knows none."""
    known = getattr(problem.guide, "best_known", None)
    best = known(example.reference) if callable(known) else None
    return None if best is None else checked_score(best)


def mean_best_known(problem: Problem, examples: Sequence[Example]) -> float | None:
    """Mean of the best known scores, natural units; None if that of one example is not known."""
    found = [best_known(problem, example) for example in examples]
    known = [best for best in found if best is not None]
    return finite_mean(known) if known and len(known) == len(found) else None


def mean_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Mean of each metric over `rollouts`, natural units; empty for a task that declares none."""
    return means(r.metrics for r in rollouts)
