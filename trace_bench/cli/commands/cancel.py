"""``cancel``: ends a run, or some of its jobs, from outside."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from trace_bench.cli import collect_garbage
from trace_bench.cli.follow import GrowingFile
from trace_bench.cli.options import RUNS, HostsOf, Json, RunArgument, RunsDir
from trace_bench.display.console import emit, emit_json, note
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.artifacts.layout import RunLayout
    from trace_bench.sandbox.base import Sandbox


def cancel(
    run: RunArgument,
    jobs: Annotated[list[str] | None, Argument(metavar="JOB", help="Only these jobs, by id or its beginning.")] = None,
    runs_dir: RunsDir = RUNS,
    config: HostsOf = None,
    kill: Annotated[bool, Option("--kill", help="Kill the jobs at once; do not let them end in order.")] = False,
    no_wait: Annotated[bool, Option("--no-wait", help="Ask, and return.")] = False,
    as_json: Json = False,
) -> None:
    """End a run, or some of its jobs. What has finished is kept, and the run can be continued.

    Example: trace-bench cancel latest
    """
    from trace_bench.artifacts.folder_lock import has_controller
    from trace_bench.cli.lookup import jobs_named
    from trace_bench.records.runs import find_run, run_id_of

    layout = find_run(run, runs_dir)
    run_id = run_id_of(layout)
    chosen = [entry.job_id for entry in jobs_named(layout, jobs)] if jobs else []
    removed: list[str] = []
    if has_controller(layout):
        if chosen:
            chosen = _unfinished(layout, chosen)
        done = _ask_controller(layout, chosen, kill=kill, wait=not no_wait)
    else:
        removed, done = _remove_sandboxes(layout, run_id, chosen, config, kill=kill)
    if as_json:
        emit_json({"run_id": run_id, "jobs": chosen, "over": done, "removed": removed})
        return
    what = f"{', '.join(chosen)} of run {run_id}" if chosen else f"run {run_id}"
    emit(f"cancelled {what}" if done else f"asked to cancel {what}")


# ---------------------------------------------------------------------------------------------- with a controller


def _unfinished(layout: RunLayout, chosen: Collection[str]) -> list[str]:
    """Those of `chosen` that run, or will.

    Raises:
        ConfigError: none does.
    """
    from trace_bench.cli.lookup import manifest_of
    from trace_bench.records.job_states import RunProgress, job_line
    from trace_bench.records.reading import read_row

    progress = RunProgress.of(layout)
    left: list[str] = []
    over: list[tuple[str, str]] = []
    for entry in manifest_of(layout).jobs:
        if entry.job_id not in chosen:
            continue
        path = layout.job(entry.job_id).results
        line = job_line(layout, entry, read_row(path) if path.is_file() else None, progress, running=True)
        if line.state in ("running", "planned"):
            left.append(entry.job_id)
        else:
            over.append((entry.job_id, line.state))
    for job_id, state in over:
        note(f"job {job_id} has ended: {state}")
    if not left:
        raise ConfigError(f"no job to cancel: {', '.join(f'{job_id} is {state}' for job_id, state in over)}")
    return left


def _ask_controller(layout: RunLayout, chosen: Sequence[str], *, kill: bool, wait: bool) -> bool:
    """Ask the run's controller to end the run, or the `chosen` jobs; True once it has."""
    from trace_bench.artifacts.folder_lock import has_controller
    from trace_bench.execution.cancel import INTERVAL, request_cancellation

    request_cancellation(layout, chosen, kill=kill)
    if not wait:
        return False
    what = ", ".join(chosen) or "the run"
    note(f"waiting until the controller has ended {what}; Ctrl-C ends the waiting alone")
    over = _jobs_are_over(layout, chosen, 4 * INTERVAL) if chosen else lambda: False
    collect_garbage()
    while has_controller(layout) and not over():
        time.sleep(INTERVAL)
    return True


def _jobs_are_over(layout: RunLayout, chosen: Sequence[str], noticed_in: float) -> Callable[[], bool]:
    """True when none of `chosen` runs any more, and `noticed_in` seconds have passed, in which the controller sees that
    none is to start."""
    from trace_bench.artifacts.jsonio import json_objects
    from trace_bench.records.job_states import RunProgress

    journal, progress = GrowingFile(layout.events), RunProgress()
    seen_by = time.monotonic() + noticed_in

    def over() -> bool:
        for line in json_objects(journal.lines()):
            progress.add(line)
        return time.monotonic() > seen_by and not progress.open_jobs.intersection(chosen)

    return over


# ------------------------------------------------------------------------------------------- without a controller


def _remove_sandboxes(
    layout: RunLayout, run_id: str, chosen: Sequence[str], config: Path | None, *, kill: bool
) -> tuple[list[str], bool]:
    """Kill and remove the run's sandboxes, or those of the `chosen` jobs; their names, and True.

    Where the run's folder cannot be locked, there may be a controller all the same: then it is asked, and the result
    is False.

    Args:
        config: says where the sandboxes are; None is where this user started the run.

    Raises:
        ConfigError: there are none. EnvironmentUnavailable: the engine does not answer, or some cannot be removed.
    """
    from trace_bench.cli.backends import backend_for
    from trace_bench.cli.sandboxes import controller_is_alive, own_sandboxes, remove_each
    from trace_bench.execution.cancel import request_cancellation
    from trace_bench.records.runs import describe
    from trace_bench.sandbox.labels import JOB, RUN

    state = describe(layout).state
    if state in ("finished", "planned"):
        raise ConfigError(f"run {run_id} is not running: it is {state}")
    backend = backend_for(config=config, run_id=run_id, layout=layout)
    found = [
        sandbox
        for sandbox in own_sandboxes(backend)
        if sandbox.labels.get(RUN) == run_id and (not chosen or sandbox.labels.get(JOB) in chosen)
    ]
    if not found:
        what = f"of {', '.join(chosen)} " if chosen else ""
        raise ConfigError(
            f"run {run_id} is not running: it is {state}, and no sandbox {what}is left; "
            f"trace-bench run --config FILE --run-id {run_id} continues it"
        )
    if any(controller_is_alive(backend, sandbox) for sandbox in found):
        request_cancellation(layout, chosen, kill=kill)
        note("its controller holds no lock that can be waited for; trace-bench ps shows when the sandboxes are gone")
        return [], False
    removed: list[str] = []

    def remove(sandbox: Sandbox) -> None:
        sandbox.kill()
        sandbox.remove()
        removed.append(sandbox.name)

    if failure := remove_each(backend, found, remove):
        raise failure
    note(
        f"removed {len(removed)} sandbox{'es' if len(removed) != 1 else ''} without a controller: what they had not "
        "handed over is lost; trace-bench run --run-id continues the run"
    )
    return removed, True
