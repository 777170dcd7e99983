"""Evaluations of many examples at one time: in rounds, in order, and as far as a budget goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from trace_bench.errors import TaskError
from trace_bench.worker.evaluate import ROUND, evaluate_state
from trace_bench.worker.problem import Example, Ops, Parameter, Problem
from trace_bench.worker.training import Rollout, StopTraining

AT_ONCE = 4
OF_A_ROUND = AT_ONCE * ROUND


def _problem(agent: Callable[[Ops, Any], Any], number: int, at_once: int = AT_ONCE) -> Problem:
    return Problem(
        parameters=(Parameter("x", "", "text"),),
        guide=lambda query, response, reference: (float(response), ""),
        agent=agent,
        train=tuple(Example(f"train-{i}", query=i) for i in range(number)),
        objective="Count.",
        direction="maximize",
        failure_score=0.0,
        at_once=at_once,
    )


def _evaluated(problem: Problem, **more: Any) -> list[Rollout]:
    return evaluate_state(problem, {}, problem.train, None, **more)  # type: ignore[arg-type]


def test_as_many_as_were_asked_for_are_at_work_and_come_back_in_order() -> None:
    lock, at_work, most = threading.Lock(), 0, 0

    def agent(ops: Ops, query: int) -> int:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.002 * (7 - query % 7))
        with lock:
            at_work -= 1
        return query

    found = _evaluated(_problem(agent, 50))
    assert [r.score for r in found] == [float(i) for i in range(50)]
    assert [r.example_id for r in found] == [f"train-{i}" for i in range(50)]
    assert most == AT_ONCE


@pytest.mark.parametrize("slow", [0, OF_A_ROUND - 1])
def test_the_round_in_which_a_budget_ends_is_asked_to_its_end_and_no_further(slow: int) -> None:
    asked: set[int] = set()

    def agent(ops: Ops, query: int) -> int:
        asked.add(query)
        if query % OF_A_ROUND == slow:
            time.sleep(0.05)
        if query >= OF_A_ROUND + 3:
            raise StopTraining("budget")
        return 1

    problem = _problem(agent, 3 * OF_A_ROUND)
    assert len(_evaluated(problem, partial=True)) == OF_A_ROUND + 3
    assert asked == set(range(2 * OF_A_ROUND)), "which examples were asked depends on their number alone"
    with pytest.raises(StopTraining):
        _evaluated(problem)


@pytest.mark.parametrize("at_once", [1, AT_ONCE])
def test_where_a_budget_ends_what_was_evaluated_counts(at_once: int) -> None:
    def agent(ops: Ops, query: int) -> int:
        if query >= 5:
            raise StopTraining("budget")
        return query

    assert [r.score for r in _evaluated(_problem(agent, 9, at_once), partial=True)] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_failure_of_the_task_goes_before_the_end_of_a_budget() -> None:
    def agent(ops: Ops, query: int) -> int:
        if query == 2:
            raise StopTraining("budget")
        raise KeyError("broken")

    with pytest.raises(TaskError, match="broken"):
        _evaluated(_problem(agent, 5), partial=True)


def test_progress_is_said_between_rounds_and_can_end_the_evaluation() -> None:
    seen: list[tuple[int, int]] = []

    def between(found: Any, number: int) -> None:
        seen.append((len(found), number))
        if len(seen) == 2:
            raise StopTraining("timeout")

    problem = _problem(lambda ops, query: 1, 5 * OF_A_ROUND)
    with pytest.raises(StopTraining):
        _evaluated(problem, between=between)
    assert seen == [(OF_A_ROUND, 5 * OF_A_ROUND), (2 * OF_A_ROUND, 5 * OF_A_ROUND)]
