"""Resolve each task entry: the layers of the config are applied over each other. Pure.

Arguments: ``splits`` < ``eval_kwargs`` of the top level < ``eval_kwargs`` of the entry. What stands at the
top level applies to the tasks that take it, and is an error only if none does; what stands on an entry is
strict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trace_bench.arguments import find, hint
from trace_bench.config.frozen import FrozenDict, freeze
from trace_bench.config.models import RunConfig, SandboxConfig, TaskConfig
from trace_bench.config.objectives import EntryMode, resolve_objective
from trace_bench.config.source import Path_
from trace_bench.errors import ConfigError
from trace_bench.suites.former import remedies
from trace_bench.suites.spec import OBJECTIVE_MODE, Task, TaskSpec, resolve_eval_kwargs

FIXTURE = "fixture"
"""The argument of a task that reads a data set: take the few rows that come with the program."""
_SPLITS = {"train": "train", "validate": "validate_", "test": "test"}


@dataclass(frozen=True)
class TaskChoice:
    """One task entry, resolved.

    Attributes:
        entry: index in ``tasks``.
        eval_kwargs: what the task is built with.
        splits: examples of each split, as far as spec and config say; a task may make it depend on its arguments.
        limits: time limits of the job, of one candidate process, and the sandbox's resources: all that can
            change a score.
        objective: what its states are compared by.
    """

    entry: int
    task: Task
    eval_kwargs: FrozenDict
    splits: FrozenDict
    limits: FrozenDict
    sandbox: SandboxConfig
    objective: FrozenDict

    @property
    def path(self) -> Path_:
        return ("tasks", self.entry)


def takes_fixture(config: RunConfig, entry: TaskConfig) -> bool:
    """Whether a task entry asks for the fixture in place of the data set."""
    return entry.eval_kwargs.get(FIXTURE, config.eval_kwargs.get(FIXTURE)) is True


def fixture_default(spec: TaskSpec) -> bool | None:
    """True if a task takes the fixture unless it is told otherwise; None if it has no fixture."""
    return bool(spec.eval_kwargs[FIXTURE].default) if FIXTURE in spec.eval_kwargs else None


def resolve_tasks(config: RunConfig, tasks: Mapping[str, Task], problems: list[str]) -> list[TaskChoice]:
    """Every task entry, in order; what is wrong is added to `problems`, one sentence each."""
    choices: list[TaskChoice] = []
    taken: set[str] = set()
    for index, entry in enumerate(config.tasks):
        if entry.id not in tasks:
            where = config.source.where(("tasks", index, "id"))
            problems.append(f"{where}: there is no task {entry.id!r}{hint(entry.id, tasks)}")
            continue
        task = tasks[entry.id]
        try:
            eval_kwargs = _eval_kwargs(config, index, task, taken)
        except ConfigError as error:
            problems += str(error).splitlines()
            continue
        sandbox = entry.sandbox.over(config.sandbox) if entry.sandbox is not None else config.sandbox
        problems += _too_few_gpus(config, index, task, eval_kwargs, sandbox)
        splits = {
            name: eval_kwargs.get(f"num_{name}", getattr(task.spec.splits, field)) for name, field in _SPLITS.items()
        }
        choices.append(
            TaskChoice(
                entry=index,
                task=task,
                eval_kwargs=freeze(eval_kwargs),
                splits=freeze(splits),
                limits=freeze(_limits(config, task, eval_kwargs, sandbox)),
                sandbox=sandbox,
                objective=resolve_objective(
                    config.objective, task, config.source, problems, _entry_mode(config, index, eval_kwargs)
                ),
            )
        )
    if len(choices) == len(config.tasks):
        _nothing_is_left_over(config, choices, taken, problems)
    return choices


def _eval_kwargs(config: RunConfig, index: int, task: Task, taken: set[str]) -> dict[str, Any]:
    arguments = task.spec.arguments()
    written: dict[str, tuple[Path_, str, Any]] = {}
    for name, field in _SPLITS.items():
        value = getattr(config.splits, field)
        key = f"num_{name}"
        if value is not None and find(arguments, key) is not None:
            written[key] = (("splits", name), key, value)
            taken.add(f"splits.{name}")
    for key, value in config.eval_kwargs.items():
        argument = find(arguments, key)
        if argument is not None or task.spec.takes(key):
            written[argument.name if argument is not None else key] = (("eval_kwargs", key), key, value)
            taken.add(f"eval_kwargs.{key}")
    for key, value in config.tasks[index].eval_kwargs.items():
        argument = find(arguments, key)
        path: Path_ = ("tasks", index, "eval_kwargs", key)
        name = argument.name if argument is not None else key
        if name in written and written[name][0][:2] == ("tasks", index):
            name = key  # two spellings in one mapping: `resolve_eval_kwargs` says so
        written[name] = (path, key, value)
    places = {key: path for path, key, _ in written.values()}
    values = {key: value for _, key, value in written.values()}
    top: Path_ = ("tasks", index)
    return resolve_eval_kwargs(task.spec, values, lambda key: config.source.where(places.get(key, top)))


def _entry_mode(config: RunConfig, index: int, eval_kwargs: Mapping[str, Any]) -> EntryMode | None:
    """The ``objective_mode`` of a task entry, if it has one."""
    mode = eval_kwargs.get(OBJECTIVE_MODE)
    if mode is None:
        return None
    own: Path_ = ("tasks", index, "eval_kwargs", OBJECTIVE_MODE)
    given = any(key.replace("-", "_") == OBJECTIVE_MODE for key in config.tasks[index].eval_kwargs)
    return EntryMode(str(mode), config.source.where(own if given else ("eval_kwargs", OBJECTIVE_MODE)))


def _too_few_gpus(
    config: RunConfig, index: int, task: Task, eval_kwargs: Mapping[str, Any], sandbox: SandboxConfig
) -> Iterator[str]:
    for name, asked in task.spec.asked_of_sandbox(eval_kwargs):
        if sandbox.gpus < asked.gpus:
            own: Path_ = ("tasks", index, "eval_kwargs", name)
            where = config.source.where(own if name in config.tasks[index].eval_kwargs else ("eval_kwargs", name))
            count = f"{asked.gpus} GPU{'s' if asked.gpus > 1 else ''}"
            yield f"{where}: {eval_kwargs[name]!r} needs {count}; add sandbox: {{gpus: {asked.gpus}}}"


def _limits(config: RunConfig, task: Task, eval_kwargs: Mapping[str, Any], sandbox: SandboxConfig) -> dict[str, Any]:
    spec = task.spec.limits
    wall = spec.wall_seconds
    if "timeout_seconds" in eval_kwargs and "timeout_seconds" not in task.spec.eval_kwargs:
        wall = eval_kwargs["timeout_seconds"]
    return {
        "job_timeout": config.job_timeout,
        "score_timeout": config.score_timeout,
        "candidate": {
            "wall_seconds": wall,
            # A longer wall limit is of no use to a program that its CPU limit ends first.
            "cpu_seconds": max(spec.cpu_seconds, wall),
            "memory_bytes": spec.memory_mb << 20,
        },
        "sandbox": {
            "cpus": sandbox.cpus,
            "memory_bytes": sandbox.memory,
            "disk_bytes": sandbox.disk,
            "tmp_bytes": sandbox.tmp,
            "pids": sandbox.pids,
            "gpus": sandbox.gpus,
        },
    }


def _nothing_is_left_over(config: RunConfig, choices: list[TaskChoice], taken: set[str], problems: list[str]) -> None:
    """Add a problem for each top-level argument that no task takes."""
    known = [argument.name for choice in choices for argument in choice.task.spec.arguments()]
    others = remedies(known)
    for key in config.eval_kwargs:
        if f"eval_kwargs.{key}" not in taken:
            where = config.source.where(("eval_kwargs", key))
            remedy = others.get(key.replace("-", "_"))
            said = f"; {remedy}" if remedy else hint(key, known)
            problems.append(f"{where}: no task of this config takes {key!r}{said}")
    for name, field in _SPLITS.items():
        value = getattr(config.splits, field)
        where = config.source.where(("splits", name))
        if value is not None and f"splits.{name}" not in taken:
            problems.append(f"{where}: no task of this config lets the size of a split be set; delete this key")
        if value is not None and any(key.replace("-", "_") == f"num_{name}" for key in config.eval_kwargs):
            problems.append(f"{where}: eval_kwargs.num_{name} sets the same; keep one of them")
