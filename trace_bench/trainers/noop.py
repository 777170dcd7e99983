"""Evaluates the start and changes nothing: the baseline of any search, and a check of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.trainers.base import Param, State, TrainContext
from trace_bench.worker.problem import Problem


class NoOp:
    """Scores the initial state once: on the validation split, or the training split where there is none."""

    name = "NoOp"
    summary = "Evaluates the initial state and returns it unchanged."
    source = "none: the baseline"
    params: tuple[Param, ...] = ()
    uses_llm = False
    uses_graph = False

    def train(self, problem: Problem, params: Mapping[str, Any], context: TrainContext) -> State:
        """Return the initial state, after one recorded evaluation (`step` 0, candidate ``seed``).

        Raises:
            StopTraining: passed on.
        """
        split = "validate" if problem.validate else "train"
        examples = problem.validate or problem.train
        state: State = problem.initial_state()
        rollouts = context.evaluate(state, range(len(examples)), split)
        context.step(step=0, candidate="seed", parent=None, state=state, rollouts=rollouts, split=split)
        return state
