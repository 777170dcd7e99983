"""Settle which rows the tasks of data sets take: those of the data set that was fetched, or the few of the fixture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trace_bench.config.frozen import FrozenDict
from trace_bench.config.models import RunConfig, TaskConfig
from trace_bench.config.selectors import select
from trace_bench.config.task_choices import takes_fixture
from trace_bench.errors import ConfigError
from trace_bench.planning.preconditions import refuse
from trace_bench.planning.recording import Recording
from trace_bench.suites import data_sources
from trace_bench.suites.hf import data
from trace_bench.suites.registry import discover, resolve_all
from trace_bench.suites.spec import load_task_spec

SUITE = "hf"
FIXTURE = "fixture"


def with_rows(
    config: RunConfig, roots: Sequence[Path] = (), recording: Recording | None = None
) -> tuple[RunConfig, dict[str, ConfigError]]:
    """`config` where task entries say ``fixture: true`` whose data set was not fetched, in mode stub, with a warning;
    and those that say nothing, where the jobs of `recording` took the fixture. And, in another mode, an error for each
    task whose data set was not fetched.

    Raises:
        ConfigError: the data set of an entry was not fetched, in a replay; one line each.
    """
    missing = {entry.id for entry in config.tasks if entry.id.startswith(f"{SUITE}:")}
    everywhere = [*roots, *(Path(root) for root in config.task_roots)]
    if not missing or not all(root.is_dir() for root in everywhere):
        return config, {}  # `resolve` says so
    missing -= {entry.id for entry in discover([SUITE], everywhere) if entry.id in missing and _is_there(entry.folder)}
    recorded = _recorded(recording) if recording is not None else frozenset()
    stub = config.mode == "stub"
    tasks: list[TaskConfig] = []
    replaced, problems = dict[str, None](), dict[str, ConfigError]()
    for entry in config.tasks:
        silent = FIXTURE not in entry.eval_kwargs and FIXTURE not in config.eval_kwargs
        if silent and (entry.id in recorded or (entry.id in missing and stub)):
            replaced |= {} if entry.id in recorded else {entry.id: None}
            entry = entry.model_copy(update={"eval_kwargs": FrozenDict({**entry.eval_kwargs, FIXTURE: True})})
        elif entry.id in missing and not takes_fixture(config, entry):
            problems[entry.id] = ConfigError(
                f"{entry.id}: its data set has not been fetched; run: trace-bench data fetch {entry.id} (or set "
                "eval_kwargs fixture: true for the few rows that come with the program)"
            )
        tasks.append(entry)
    if problems and recording is not None:
        refuse(problems.values())
    return config.changed({"tasks": tuple(tasks)}, warnings=_warnings(list(replaced))), problems


def needed(config: RunConfig, roots: Sequence[Path] = ()) -> list[str]:
    """The published data that `config` reads and that are not on this machine, or damaged there: names for ``data
    fetch``, collections first. Tasks that take the fixture need none.

    Raises:
        ConfigError: a task is unknown, or its spec is broken.
    """
    config = select(config, roots)
    named = config.data_root
    source = data_sources.SOURCES.get(named) if named is not None and not Path(named).exists() else None
    missing = [source.name] if source is not None and data_sources.kept(source) is None else []
    everywhere = [*roots, *(Path(root) for root in config.task_roots)]
    tasks = dict.fromkeys(entry.id for entry in config.tasks)
    folders = {entry.id: entry.folder for entry in resolve_all(list(tasks), everywhere)}
    for entry in config.tasks:
        if (folder := folders.get(entry.id)) is None:
            continue  # another name of a task that is there
        spec = load_task_spec(folder)
        asked = entry.eval_kwargs.get(FIXTURE, config.eval_kwargs.get(FIXTURE))
        default = spec.eval_kwargs[FIXTURE].default if FIXTURE in spec.eval_kwargs else None
        takes = asked if isinstance(asked, bool) else default
        if spec.qa is not None and takes is not True and not _is_whole(folder) and entry.id not in missing:
            missing.append(entry.id)
    return missing


def _is_there(folder: Path) -> bool:
    """Whether the data set of a task was fetched. What is broken, its spec or the list of what was fetched, is reported
    by `resolve`."""
    try:
        qa = load_task_spec(folder).qa
        return qa is None or qa.rows == "folder" or data.fetched(qa) is not None
    except ConfigError:
        return True


def _is_whole(folder: Path) -> bool:
    """Whether the data set of a task was fetched, and all that is read of it can be read."""
    qa = load_task_spec(folder).qa
    return qa is None or qa.rows == "folder" or (data.fetched(qa) is not None and not data.is_damaged(qa))


def _recorded(recording: Recording) -> frozenset[str]:
    """Tasks whose recorded jobs all took the fixture."""
    jobs = recording.jobs.values()
    others = {job.task_id for job in jobs if job.eval_kwargs.get(FIXTURE) is not True}
    return frozenset({job.task_id for job in jobs} - others)


def _warnings(tasks: Sequence[str]) -> list[str]:
    if not tasks:
        return []
    shown = ", ".join(tasks[:3]) + (f" and {len(tasks) - 3} more" if len(tasks) > 3 else "")
    sets, has, run = ("", "has", "it runs") if len(tasks) == 1 else ("s", "have", "they run")
    return [
        f"{shown}: the data set{sets} {has} not been fetched, so {run} on the few rows that come with the program "
        "(fixture: true); trace-bench data fetch gets the data"
    ]
