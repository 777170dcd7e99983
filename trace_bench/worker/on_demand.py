"""Evaluates the states that the host hands over, one after the other, in the place of a search.

`trace_bench.execution.evaluator` is the other side. The sandbox asks for the next state as it asks for any service of
the host, and says with it what the one before came to; so there is one message each way for an evaluation.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlsplit

from trace_bench.worker.problem import Parameter, Problem, Value
from trace_bench.worker.services import Services
from trace_bench.worker.training import Rollout, State, TrainContext

SERVICE = "evaluator"
ENTRY = f"{__name__}:OnDemand"
_OTHERS = {"train": "validation", "validate": "train"}
_FEEDBACK = 10_000
"""Characters."""
_KINDS: Mapping[str, tuple[type, ...]] = {"int": (int,), "float": (int, float)}


class OnDemand:
    """What the train phase of an evaluator's job runs."""

    def train(self, problem: Problem, params: Mapping[str, Any], context: TrainContext) -> State:
        """Evaluate until the host has no more states. What is wrong with a state is an answer, and ends nothing."""
        services = Services(urlsplit(os.environ["OPENAI_BASE_URL"]).port)
        said: dict[str, Any] = {"ready": described(problem)}
        while (wanted := services.ask(SERVICE, said)).get("split"):
            try:
                state = checked(problem, wanted["state"])
                split = wanted["split"]
                examples = range(len(getattr(problem, split)))
                if not examples:
                    raise ValueError(f"the task has no {split} examples; take split {_OTHERS[split]}")
                said = {"rollouts": [told(rollout) for rollout in context.evaluate(state, examples, split)]}
            except ValueError as error:
                said = {"refused": str(error)}
        return problem.initial_state()


def told(rollout: Rollout) -> dict[str, Any]:
    """What is told of a rollout: not the program's response, which may be anything, and no more of its feedback than a
    message of all examples has room for."""
    return asdict(replace(rollout, response=None, feedback=rollout.feedback[:_FEEDBACK]))


def described(problem: Problem) -> dict[str, Any]:
    """The parameters with their values, and the number of examples of each split."""
    return {
        "parameters": {
            p.name: {"kind": p.kind, "value": p.value, "trainable": p.trainable, "description": p.description}
            for p in problem.parameters
        },
        "examples": {split: len(getattr(problem, split)) for split in ("train", "validate")},
        "direction": problem.direction,
    }


def checked(problem: Problem, given: Mapping[str, Any]) -> State:
    """The state that has `given` in place of the initial values.

    Raises:
        ValueError: a name is no trainable parameter, or a value is not of its kind.
    """
    known = {p.name: p for p in problem.trainable}
    state = problem.initial_state()
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"unknown trainable parameter {name!r}; the task has {', '.join(known) or 'none'}")
        state[name] = _value(known[name], value)
    return state


def _value(parameter: Parameter, value: Any) -> Value:
    kinds = _KINDS.get(parameter.kind, (str,))
    fits: bool = isinstance(value, kinds) and not isinstance(value, bool)
    if not fits:
        wanted = {"int": "a whole number", "float": "a number"}.get(parameter.kind, "text")
        raise ValueError(f"{parameter.name} must be {wanted}, not {type(value).__name__}")
    if isinstance(value, str):
        return value
    if parameter.bounds is not None and not parameter.bounds[0] <= value <= parameter.bounds[1]:
        raise ValueError(f"{parameter.name} must be from {parameter.bounds[0]:g} to {parameter.bounds[1]:g}")
    found: Value = float(value) if parameter.kind == "float" else value
    return found
