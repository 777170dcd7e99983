"""A code task whose evaluator is one function: ``score(program)``, or ``score(program, seed)``.

``program(*args)`` calls the candidate in a process of its own. The function returns a number, or a number and words
for the optimizer. With an argument ``seed`` it draws its data by it: each example is a seed of its own, and held-out
examples have other seeds than training.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from trace_bench.suites.task_folder import place
from trace_bench.worker.problem import ProblemError

SEED = "seed"
"""Name of the argument that gets the seed of an example."""


@dataclass(frozen=True)
class ScoreFunction:
    """Has the functions ``instances`` and ``evaluate`` of an evaluator."""

    path: Path
    function: Callable[..., Any]

    @classmethod
    def of(cls, path: Path, module: ModuleType, name: str) -> ScoreFunction:
        """The function `name` of `module`.

        Raises:
            ProblemError: the module does not define it.
        """
        function = getattr(module, name, None)
        if not callable(function):
            raise ProblemError(f"{place(path)} defines no {name}(), which task.toml names in [score] function")
        return cls(path, function)

    def instances(self, split: str, seed: int, count: int) -> list[int]:
        """The seeds of `count` examples."""
        rng = random.Random(seed)
        return [rng.randrange(1 << 31) for _ in range(count)]

    def evaluate(self, program: Callable[..., Any], seed: int) -> tuple[Any, str]:
        """Score and feedback of a program.

        Raises:
            ProblemError: the function returned something else than a number, or a number and a text.
        """
        keywords = {SEED: seed} if SEED in inspect.signature(self.function).parameters else {}
        outcome = self.function(program, **keywords)
        if not isinstance(outcome, tuple):
            return outcome, ""
        if len(outcome) != 2 or not isinstance(outcome[1], str):
            raise ProblemError(
                f"{place(self.path)}: {self.function.__name__}() must return a number, or (number, text)"
            )
        return outcome[0], outcome[1]
