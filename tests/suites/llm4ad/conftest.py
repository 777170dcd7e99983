"""Tasks of the suite as tests handle them: the parts of an evaluator by themselves, and programs run as in a phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from trace_bench.suites.judge import Judge, Verdict
from trace_bench.suites.registry import discover
from trace_bench.suites.spec import TaskSpec, load_task_spec, resolve_eval_kwargs
from trace_bench.suites.splits import COMMON_EVAL_KWARGS
from trace_bench.suites.task_folder import load_module
from trace_bench.worker.problem import CandidateError

# The same examples each time: what these tests look at are tasks, and a task is right or wrong on every machine alike.
settings.register_profile("tasks", derandomize=True)
settings.load_profile("tasks")


@cache
def folders() -> dict[str, Path]:
    """Every task of the suite that ships."""
    return {entry.id: entry.folder for entry in discover(["llm4ad"])}


@dataclass(frozen=True)
class Task:
    """The evaluator of a task, called in this process with functions of the test's own: nothing hostile here."""

    id: str
    folder: Path
    spec: TaskSpec
    module: ModuleType
    judge: Judge

    def settings(self, **given: Any) -> dict[str, Any]:
        resolved = resolve_eval_kwargs(self.spec, given, lambda key: key)
        return {k: v for k, v in resolved.items() if k not in COMMON_EVAL_KWARGS | {"n_instance", "size", "test_size"}}

    def instance(self, seed: int = 1, **given: Any) -> dict[str, Any]:
        """One instance, as the generator makes it."""
        made = self.module.instance(np.random.default_rng([seed, 0]), **self.settings(**given))
        assert isinstance(made, dict)
        return made

    def verdict(self, instance: dict[str, Any], solution: Any) -> Verdict:
        """Of a solution (what ``answer`` makes of a program's answers)."""
        return self.judge.verdict(instance, solution)

    def play(self, function: Callable[..., Any], instance: dict[str, Any]) -> float:
        """The score of a Python function in place of a program."""
        return self.verdict(instance, self.module.answer(function, instance)).score

    def refusal(self, instance: dict[str, Any], function: Callable[..., Any]) -> str:
        """Why the answers of `function` are refused."""
        with pytest.raises(CandidateError) as caught:
            self.play(function, instance)
        return caught.value.message

    def broken(self, instance: dict[str, Any], solution: Any) -> list[str]:
        """The rules that a solution breaks."""
        rules = getattr(self.module, "violations", lambda *_: ())
        return list(rules(instance, solution))

    def program(self, name: str) -> Callable[..., Any]:
        """The entry point of one of the task's own programs (``template``, ``reference`` …), loaded here."""
        path = self.folder / "programs" / f"{name}.py"
        found = getattr(load_module(path), self.spec.entry or "")
        assert callable(found)
        return found  # type: ignore[no-any-return]


@cache
def task_of(task_id: str) -> Task:
    folder = folders()[task_id]
    spec = load_task_spec(folder)
    module = load_module(folder / "evaluator.py")
    return Task(task_id, folder, spec, module, Judge(module, spec.raw))


@pytest.fixture
def task() -> Callable[[str], Task]:
    """``task("llm4ad:…")``; the ``llm4ad:`` may be left out."""
    return lambda task_id: task_of(task_id if ":" in task_id else f"llm4ad:{task_id}")
