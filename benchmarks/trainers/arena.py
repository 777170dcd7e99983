"""Runs a trainer on a shipped task in this process, against a model of known quality, and counts what it spends.

No container, no gateway: the programs that are evaluated here are the tasks' own alternatives, which nobody generated.
"""

from __future__ import annotations

import functools
import importlib
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.trainers.problems import PROBLEMS
from trace_bench.config.frozen import thaw
from trace_bench.config.models import ObjectiveConfig
from trace_bench.config.objectives import resolve_objective
from trace_bench.config.source import Source, Table
from trace_bench.suites.installed import load_suites
from trace_bench.suites.registry import resolve as find_task
from trace_bench.suites.spec import Task, load_task_spec, resolve_eval_kwargs
from trace_bench.trainers.base import Budget, Rollout, Slot, State, Step, StopTraining, selection_of
from trace_bench.worker.answer_text import READER
from trace_bench.worker.evaluate import evaluate_state, mean_score
from trace_bench.worker.problem import BuildContext, CandidateError, Limits, Problem, Value, with_objective
from trace_bench.worker.search_loop import run_search

Answer = Callable[[random.Random, Sequence[Mapping[str, Any]], "Arena"], str]
"""``answer(chance, variables, arena) -> content``; `chance` is the same for the same seed and slot."""


@functools.lru_cache(maxsize=50_000)
def _function(source: str, entry: str) -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(compile(source, "candidate", "exec"), space)
    function: Callable[..., Any] = space[entry]
    return function


class _Program:
    def __init__(self, source: str, entry: str) -> None:
        self._source, self._entry = source, entry

    def __enter__(self) -> _Program:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def __call__(self, *args: Any) -> Any:
        try:
            return _function(self._source, self._entry)(*args)
        except Exception as error:
            raise CandidateError("call", f"{type(error).__name__}: {error}") from error


class Programs:
    """Runs sources in this process: for sources that are known."""

    def open(self, source: str, entry: str, limits: Limits | None = None) -> _Program:
        return _Program(source, entry)


def build(task_id: str, seed: int, **given: Any) -> Problem:
    """The problem of a shipped task as a job of `seed` has it, or the arena's own."""
    if task_id in PROBLEMS:
        return PROBLEMS[task_id](seed)
    found = find_task(task_id)
    spec = load_task_spec(found.folder)
    module, _, name = load_suites()[found.suite].builder.partition(":")
    kwargs = resolve_eval_kwargs(spec, given, str)
    context = BuildContext(Path(found.folder), spec.raw, kwargs, seed, Programs())
    problem: Problem = getattr(importlib.import_module(module), name)(context)
    task = Task(task_id, load_suites()[found.suite], Path(found.folder), spec)
    return with_objective(problem, thaw(resolve_objective(ObjectiveConfig(), task, Source("", Table()), [])))


@dataclass
class Arena:
    """`TrainContext` in memory: what a search has spent, and the best that it has judged.

    Attributes:
        answer: the model.
        events: how many of each kind there were.
        curve: (cost, best score so far) at each step; cost is the larger number of evaluations and calls.
    """

    problem: Problem
    answer: Answer
    seed: int
    budget: Budget
    optimizer: str = "OptoPrime"
    optimizer_kwargs: Mapping[str, Any] = field(default_factory=dict)
    guide: str = "default"
    guide_kwargs: Mapping[str, Any] = field(default_factory=dict)
    programs: Programs = field(default_factory=Programs)
    extra_dir: Path = Path("/nonexistent")
    evaluations: int = 0
    saved: int = 0
    deterministic: bool = True
    calls: int = 0
    reader: int = READER
    best_state: State = field(default_factory=dict)
    best_score: float | None = None
    curve: list[tuple[int, float]] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    _oracle: dict[Any, float] = field(default_factory=dict)

    def run(self, trainer: Any, **params: Any) -> float:
        """Search until the budget is used up; returns the mean score of the best state on the selection split."""
        self.best_state = self.problem.initial_state()
        values = {p.name: p.default for p in trainer.params} | params
        run_search(trainer(), self.problem, values, self)
        assert self.best_score is not None
        return self.best_score

    def best_at(self, cost: int) -> float:
        """The best score of a search that was stopped after `cost` evaluations or as many calls."""
        return [score for spent, score in self.curve if spent <= cost][-1]

    def truth(self, state: Mapping[str, Value]) -> float:
        """The score of `state` that the search is after, for models that know it. It costs the search nothing."""
        key = tuple(sorted(state.items()))
        if key not in self._oracle:
            examples = getattr(self.problem, selection_of(self.problem))
            self._oracle[key] = mean_score(evaluate_state(self.problem, state, examples, self.programs))
        return self._oracle[key]

    # -- TrainContext --------------------------------------------------------------------------------------------

    def evaluate(self, state: Mapping[str, Value], example_indices: Sequence[int], split: str) -> list[Rollout]:
        self.count_evaluations(len(example_indices))
        examples = getattr(self.problem, split)
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
        if self.budget.calls is not None and self.calls >= self.budget.calls:
            raise StopTraining("budget")
        self.calls += 1
        content = self.answer(random.Random(f"{self.seed}/{slot}"), variables, self) if variables else "Go on."
        return {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}

    def embed(self, texts: Sequence[str], *, slot: Slot, model: str = "") -> list[list[float]]:
        return [[text.count(chr(code)) / 10 for code in range(32, 127)] for text in texts]

    def check(self) -> None: ...

    def record(self, step: Step) -> None:
        split = selection_of(self.problem)
        whole = {e.id for e in getattr(self.problem, split)} <= {r.example_id for r in step.rollouts}
        score = mean_score(step.rollouts)
        if step.split == split and whole and (self.best_score is None or self.problem.better(score, self.best_score)):
            self.best_score, self.best_state = score, dict(step.state)
        if self.best_score is not None:
            self.curve.append((max(self.evaluations, self.calls), self.best_score))

    def event(self, kind: str, /, **fields: Any) -> None:
        self.events[f"{kind}.{fields['reason']}" if "reason" in fields else kind] += 1

    def warn(self, message: str) -> None: ...
