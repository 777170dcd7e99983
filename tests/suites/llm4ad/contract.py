"""What a task adds to the contract of `tests.suites.llm4ad.test_llm4ad_contract`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.suites.llm4ad.conftest import Task, task_of

Instance = dict[str, Any]
Moved = tuple[Instance, Any, float]
Given = Instance | str
"""An instance, or the text of a published file whose first instance it is."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A task in the contract. An *answer* is what a program returns, or a function in the place of a program.

    Attributes:
        task: id without the suite.
        tiny: settings of an instance so small that all its solutions can be tried, or a function that makes one.
        scores: the scores of all its valid solutions.
        seeds: number of tiny instances.
        close: the reference's score is at most so many times the best (at least, where higher is better).
        tight: the bound is at least this part of the best score, where lower is better.
        hand: instance, answer and its score, computed by hand.
        refused: instance, answer and words of the refusal: one for each constraint.
        drawn: settings of the instances for `moved`.
        moved: the same problem and solution with other names, orders and units, and the factor of the score.
        same_bound: the bound changes by that factor, too.
        file: name of a published file.
        read: text of such a file, and for each instance in it some of its values.
        unread: text of another format, and words of the error.
        solved: whether the reference solves what is read.
    """

    task: str
    tiny: Mapping[str, Any] | Callable[[Task, int], Instance] = field(default_factory=dict)
    scores: Callable[[Task, Instance], Iterable[float]] | None = None
    seeds: int = 3
    close: float = 1.0
    tight: float = 0.0
    hand: Sequence[tuple[Given, Any, float]] = ()
    refused: Sequence[tuple[Given, Any, str]] = ()
    drawn: Mapping[str, Any] = field(default_factory=dict)
    moved: Callable[[Task, Instance, Any, np.random.Generator], Moved] | None = None
    same_bound: bool = True
    file: str = "file.txt"
    read: Sequence[tuple[str, Sequence[Mapping[str, Any]]]] = ()
    unread: Sequence[tuple[str, str]] = ()
    solved: bool = True

    def one(self) -> Task:
        return task_of(f"llm4ad:{self.task}")

    def small(self, seed: int) -> Instance:
        return self.tiny(self.one(), seed) if callable(self.tiny) else self.one().instance(seed, **self.tiny)

    def given(self, instance: Given) -> Instance:
        if isinstance(instance, str):
            found: Instance = self.one().module.read(instance, self.file)[0]
            return found
        return instance


def program(answer: Any) -> Callable[..., Any]:
    """A function that gives this answer."""
    return answer if callable(answer) else lambda *_: answer


def verdicts(solutions: Callable[[Instance], Iterable[Any]]) -> Callable[[Task, Instance], list[float]]:
    """The scores of those of all `solutions` that break no rule."""

    def scores(one: Task, instance: Instance) -> list[float]:
        return [one.module.score(instance, s) for s in solutions(instance) if not one.broken(instance, s)]

    return scores
