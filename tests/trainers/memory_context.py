"""A training context in memory: what the worker gives a trainer, with a scripted model and real candidate processes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trace_bench.trainers import base
from trace_bench.trainers.base import Budget, Param, Rollout, Slot, State, StopTraining, selection_of
from trace_bench.trainers.priority_search import PrioritySearch
from trace_bench.worker.answer_text import READER
from trace_bench.worker.evaluate import evaluate_state
from trace_bench.worker.problem import Example, Parameter, Problem, Programs, Value
from trace_bench.worker.search_loop import run_search

Model = Callable[[list[dict[str, str]], Slot, list[Mapping[str, Any]]], str]
"""``model(messages, slot, variables) -> content of the answer``."""


@dataclass
class Call:
    slot: Slot
    messages: list[dict[str, str]]
    variables: list[Mapping[str, Any]]
    request: dict[str, Any]

    @property
    def prompt(self) -> str:
        return self.messages[-1]["content"]


@dataclass(frozen=True)
class Step(base.Step):
    """A recorded step, with what had been spent by then."""

    evaluations: int = 0
    calls: int = 0
    best_score: float = 0.0

    @property
    def score(self) -> float:
        return sum(r.score for r in self.rollouts) / len(self.rollouts)

    @property
    def parent(self) -> str | None:
        return self.parents[0] if self.parents else None


@dataclass
class MemoryContext:
    """`TrainContext` that keeps everything it is told."""

    problem: Problem
    programs: Programs
    model: Model
    seed: int = 1
    optimizer: str = "OptoPrime"
    optimizer_kwargs: Mapping[str, Any] = field(default_factory=dict)
    guide: str = "default"
    guide_kwargs: Mapping[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    embedded: list[tuple[Slot, tuple[str, ...]]] = field(default_factory=list)
    vectors: Callable[[str], list[float]] | None = None
    steps: list[Step] = field(default_factory=list)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    evaluated: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    evaluations: int = 0
    saved: int = 0
    deterministic: bool = True
    budget: Budget = field(default_factory=Budget)
    extra_dir: Path = Path("/nonexistent")
    reader: int = READER
    best_state: State = field(default_factory=dict)
    best_score: float | None = None
    stop_reason: str = ""
    finish_reason: str = "stop"

    def search(self, trainer: Any = PrioritySearch, **params: Any) -> State:
        """Run `trainer` on the one loop; what it is not told is default. `stop_reason` says how it ended."""
        self.best_state = self.problem.initial_state()
        state, self.stop_reason = run_search(trainer(), self.problem, resolved(trainer.params, **params), self)
        return state

    def evaluate(self, state: Mapping[str, Value], example_indices: Sequence[int], split: str) -> list[Rollout]:
        examples = getattr(self.problem, split)
        self.count_evaluations(len(example_indices))
        self.evaluated.append((split, tuple(example_indices)))
        return evaluate_state(self.problem, state, [examples[i] for i in example_indices], self.programs)

    def count_saved(self, number: int) -> None:
        self.saved += number

    def count_evaluations(self, number: int) -> None:
        if self.budget.evaluations is not None and self.evaluations + number > self.budget.evaluations:
            raise StopTraining("budget")
        self.evaluations += number

    def chat(
        self,
        messages: list[dict[str, str]],
        *,
        slot: Slot,
        variables: Sequence[Mapping[str, Any]] = (),
        **request: Any,
    ) -> dict[str, Any]:
        if self.budget.calls is not None and len(self.calls) >= self.budget.calls:
            raise StopTraining("budget")
        self.calls.append(Call(slot, messages, list(variables), request))
        content = self.model(messages, slot, list(variables))
        return {
            "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": self.finish_reason}]
        }

    def check(self) -> None:
        pass

    def embed(self, texts: Sequence[str], *, slot: Slot, model: str = "") -> list[list[float]]:
        """`vectors` of each text; else letter frequencies: equal for equal texts, near for similar ones."""
        self.embedded.append((slot, tuple(texts)))
        if self.vectors is not None:
            return [self.vectors(text) for text in texts]
        return [[text.count(chr(97 + i)) / (len(text) or 1) for i in range(26)] for text in texts]

    def record(self, step: base.Step) -> None:
        json.dumps(dict(step.extra), allow_nan=False)  # extra goes into a JSON file
        score = sum(r.score for r in step.rollouts) / len(step.rollouts)
        everything = {e.id for e in getattr(self.problem, selection_of(self.problem))}
        whole = step.split == selection_of(self.problem) and everything <= {r.example_id for r in step.rollouts}
        if whole and (self.best_score is None or self.problem.better(score, self.best_score)):
            self.best_score, self.best_state = score, dict(step.state)
        best = score if self.best_score is None else self.best_score
        self.steps.append(Step(**vars(step), evaluations=self.evaluations, calls=len(self.calls), best_score=best))

    def event(self, kind: str, /, **fields: Any) -> None:
        json.dumps(fields, allow_nan=False)
        self.events.append((kind, fields))

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def events_of(self, prefix: str) -> list[tuple[str, dict[str, Any]]]:
        """Events whose kind begins with `prefix`, but for those of dropped proposals, which are no bad answers."""
        return [(k, f) for k, f in self.events if k.startswith(prefix) and k != "proposal.dropped"]

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == kind]


def suggest(**values: Any) -> str:
    """An answer as OptoPrime asks for it."""
    return json.dumps({"reasoning": "because", "answer": "", "suggestion": values})


def seeded(seed: int) -> Model:
    """A model that takes a random step in every number and picks an alternative otherwise, keyed by slot alone."""

    def model(messages: list[dict[str, str]], slot: Slot, variables: list[Mapping[str, Any]]) -> str:
        chance = random.Random(f"{seed}/{slot}")
        values: dict[str, Any] = {}
        for variable in variables:
            if variable["kind"] in ("int", "float"):
                low, high = variable["bounds"]
                moved = min(max(variable["value"] + chance.gauss(0, (high - low) / 10), low), high)
                values[variable["name"]] = round(moved) if variable["kind"] == "int" else moved
            else:
                values[variable["name"]] = chance.choice(variable["alternatives"])
        return suggest(**values)

    return model


def resolved(params: tuple[Param, ...] = PrioritySearch.params, /, **given: Any) -> dict[str, Any]:
    """What the host hands to a trainer: all parameters, defaults filled in."""
    values = {param.name: param.default for param in params}
    assert given.keys() <= values.keys()
    return {**values, **given}


def numeric(
    *,
    target: float = 3.0,
    start: float = 0.0,
    direction: str = "maximize",
    train: int = 1,
    validate: int = 0,
    score_range: tuple[float, float] | None = None,
) -> Problem:
    """Guess a number. The score is its distance to `target`, negated where higher is better."""
    sign = -1.0 if direction == "maximize" else 1.0

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return sign * abs(response - target), f"{response:g} is {'too low' if response < target else 'too high'}"

    return Problem(
        parameters=(Parameter("x", start, "float", description="the guess", bounds=(-10.0, 10.0)),),
        guide=guide,
        train=tuple(Example(f"t{i}") for i in range(train)),
        validate=tuple(Example(f"v{i}") for i in range(validate)),
        objective="Find the number.",
        direction=direction,  # type: ignore[arg-type]
        failure_score=sign * 100.0,
        score_range=score_range,
    )


DECIDE = 'def decide(query):\n    return "en"\n'
DECIDE_BROKEN = 'def decide(query):\n    raise ValueError("no idea about " + query)\n'
DECIDE_RIGHT = 'def decide(query):\n    return "es" if "Hola" in query else "en"\n'
GREET = 'def greet(lang, name):\n    return "Hello " + name\n'
GREET_RIGHT = 'def greet(lang, name):\n    return ("Hola " if lang == "es" else "Hello ") + name\n'


def name_of(query: str) -> str:
    """The last word of the query."""
    return query.split()[-1]


def greeting(**values: Any) -> Problem:
    """An agent with two trainable operators, one of which feeds the other, and a fixed function."""

    def agent(ops: Any, query: str) -> Any:
        return ops.call("greet", ops.call("decide", query), ops.apply(name_of, query))

    def guide(query: Any, response: Any, reference: Any) -> tuple[float, str]:
        return float(response == reference), f"expected {reference}"

    return Problem(
        parameters=(
            Parameter("decide", values.get("decide", DECIDE), "code", entry="decide", signature="def decide(query):"),
            Parameter("greet", values.get("greet", GREET), "code", entry="greet", signature="def greet(lang, name):"),
        ),
        guide=guide,
        train=(
            Example("en", "Greet in English: Sam", "Hello Sam"),
            Example("es", "Hola, greet in Spanish: Ana", "Hola Ana"),
        ),
        objective="Greet people in their language.",
        direction="maximize",
        failure_score=0.0,
        agent=agent,
    )
