"""Adapters for programs that were written for the Trace-Bench prototype, over `trace_bench.run` and its like.

They are reachable by the prototype's import paths: ``trace_bench.runner``, ``trace_bench.registry`` and
``trace_bench.integrations.opto``. New programs use `trace_bench` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from trace_bench import api
from trace_bench.artifacts.records import OTHER_NAMES
from trace_bench.cli.listing import suites_of
from trace_bench.config import RunConfig, load_config
from trace_bench.errors import ConfigError
from trace_bench.execution.result import RunResult
from trace_bench.resources import plug_ins
from trace_bench.suites.registry import discover, normalise_id
from trace_bench.trainers.registry import GROUP, list_trainers

__all__ = [
    "BenchRunner", "RunSummary", "TaskSpec", "TrainerSpec", "discover_tasks", "discover_trainers", "evaluate_bundle",
    "load_and_evaluate", "load_task_bundle", "normalize_task_id",
]  # fmt: skip

_INSTEAD = (
    "task code does not run in this process: trace_bench.evaluate(task, state) scores a state in a sandbox, and "
    "trace_bench.evaluator(task) one state after the other"
)


@dataclass(frozen=True)
class RunSummary:
    """The outcome of `BenchRunner.run`.

    Attributes:
        results: the rows of ``results.csv`` with nested values, in the order of the plan.
        result: the same run as `trace_bench.run` returns it.
    """

    run_id: str
    results: list[dict[str, Any]]
    result: RunResult


@dataclass(frozen=True)
class TaskSpec:
    """A task. `module` is the path of its folder."""

    id: str
    suite: str
    module: str


@dataclass(frozen=True)
class TrainerSpec:
    """A trainer. `source` is the module that it is in, or why it is not available."""

    id: str
    source: str
    available: bool


class BenchRunner:
    """`trace_bench.run` under the prototype's name.

    Args:
        config: a loaded config, or anything that `trace_bench.load_config` takes.
        tasks_root: an extra folder with task folders.
        job_timeout: seconds of one job's training, over the config's; 0 is no limit.
    """

    def __init__(
        self,
        config: RunConfig | str | Path | Mapping[str, Any],
        tasks_root: str | Path | None = None,
        job_timeout: float | None = None,
    ) -> None:
        loaded = config if isinstance(config, RunConfig) else load_config(config)
        if job_timeout is not None and not 0 <= job_timeout < float("inf"):
            raise ConfigError(f"job_timeout is {job_timeout}; write seconds, or 0 for no limit")
        self.config = loaded if job_timeout is None else loaded.changed({"job_timeout": float(job_timeout) or None})
        self._roots = [] if tasks_root is None else [Path(tasks_root)]

    def run(self, force: bool = False) -> RunSummary:
        """Run every job, continuing an unfinished run of the config; errors as of `trace_bench.run`.

        Args:
            force: run jobs again that have a result.
        """
        config = self.config.changed({"resume": "none"}) if force else self.config
        result = api.run(config, roots=self._roots)
        rows = [row.model_dump(mode="json") for row in result.rows]
        named = [row | {other: row[name] for other, name in OTHER_NAMES.items()} for row in rows]
        return RunSummary(result.run_id, named, result)


def discover_tasks(tasks_root: str | Path | None = None, bench: str | None = None) -> list[TaskSpec]:
    """Return the tasks of the suites `bench` (commas between), or of all suites, as ``trace-bench list-tasks`` does.

    Raises:
        ConfigError: an unknown suite, or a root without tasks.
    """
    entries = discover(suites_of(bench), [] if tasks_root is None else [Path(tasks_root)])
    return [TaskSpec(entry.id, entry.suite, str(entry.folder)) for entry in entries]


def discover_trainers() -> list[TrainerSpec]:
    """Return all trainers, the unavailable ones too, as ``trace-bench list-trainers --all`` does."""
    modules = {point.name: point.value.partition(":")[0] for point in plug_ins(GROUP)}
    return [TrainerSpec(name, modules.get(name, "") if ok else why, ok) for name, ok, why in list_trainers()]


def normalize_task_id(task_id: str) -> str:
    """Return `task_id` as ``suite:name``; see `trace_bench.suites.registry.normalise_id`."""
    return normalise_id(task_id)


def load_task_bundle(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse.

    Raises:
        ConfigError: always; it names what scores a task in a sandbox.
    """
    raise ConfigError(f"load_task_bundle: {_INSTEAD}")


def evaluate_bundle(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse; see `load_task_bundle`."""
    raise ConfigError(f"evaluate_bundle: {_INSTEAD}")


def load_and_evaluate(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse; see `load_task_bundle`."""
    raise ConfigError(f"load_and_evaluate: {_INSTEAD}")
