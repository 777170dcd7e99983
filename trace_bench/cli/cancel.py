"""``cancel``: ends a run, or some of its jobs, from outside."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from trace_bench.artifacts.jsonio import printable
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.follow import GrowingFile
from trace_bench.cli.lookup import jobs_named, manifest_of
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.places import backend_for
from trace_bench.cli.sandboxes import controller_is_alive, own_sandboxes, remove_each
from trace_bench.errors import ConfigError
from trace_bench.execution import cancel as wish
from trace_bench.planning.ownership import has_controller
from trace_bench.records.job_states import Course, job_line
from trace_bench.records.runs import describe, find_run, run_id_of
from trace_bench.records.tables import read_row
from trace_bench.sandbox.base import Sandbox
from trace_bench.sandbox.labels import JOB, RUN


def cancel_run(
    run: str, jobs: Sequence[str], runs_dir: Path, config: Path | None, *, kill: bool, wait: bool, as_json: bool
) -> None:
    """Ask the run's controller to end it (or `jobs`), and wait until it has; without one, remove its sandboxes.

    Args:
        config: says where the sandboxes of a run without a controller are; None is where this user started it.
        kill: at once, rather than in order.

    Raises:
        ConfigError: there is no such run or job, or nothing of it runs. EnvironmentUnavailable: there is no controller
            and the engine does not answer.
    """
    layout = find_run(run, runs_dir)
    run_id = run_id_of(layout)
    chosen = [entry.job_id for entry in jobs_named(layout, jobs)] if jobs else []
    if has_controller(layout):
        removed: list[str] = []
        if jobs:
            chosen = _unfinished(layout, chosen)
        done = _through_controller(layout, chosen, kill=kill, wait=wait)
    else:
        removed, done = _without_controller(layout, run_id, chosen, config, kill=kill)
    if as_json:
        emit_json({"run_id": run_id, "jobs": chosen, "over": done, "removed": removed})
        return
    what = f"{', '.join(chosen)} of run {printable(run_id)}" if chosen else f"run {printable(run_id)}"
    emit(f"cancelled {what}" if done else f"asked to cancel {what}")


def _unfinished(layout: RunLayout, chosen: Collection[str]) -> list[str]:
    """Those of `chosen` that run, or will.

    Raises:
        ConfigError: none does.
    """
    course = Course.of(layout)
    left: list[str] = []
    over: list[tuple[str, str]] = []
    for entry in manifest_of(layout).jobs:
        if entry.job_id not in chosen:
            continue
        path = layout.job(entry.job_id).results
        line = job_line(layout, entry, read_row(path) if path.is_file() else None, course, running=True)
        if line.state in ("running", "planned"):
            left.append(entry.job_id)
        else:
            over.append((entry.job_id, line.state))
    for job_id, state in over:
        note(f"job {job_id} has ended: {state}")
    if not left:
        raise ConfigError(f"no job to cancel: {', '.join(f'{job_id} is {state}' for job_id, state in over)}")
    return left


# ---------------------------------------------------------------------------------------------- with a controller


def _through_controller(layout: RunLayout, chosen: Sequence[str], *, kill: bool, wait: bool) -> bool:
    """Leave the wish; True once it has been obeyed."""
    wish.ask_to_cancel(layout, chosen, kill=kill)
    if not wait:
        return False
    what = ", ".join(chosen) or "the run"
    note(f"waiting until the controller has ended {what}; Ctrl-C does not take the wish back")
    over = _jobs_are_over(layout, chosen) if chosen else lambda: False
    gc.enable()  # jobs that end in order may take minutes
    while has_controller(layout) and not over():
        time.sleep(wish.INTERVAL)
    return True


def _jobs_are_over(layout: RunLayout, chosen: Sequence[str]) -> Callable[[], bool]:
    """True when none of `chosen` runs any more, and the controller has had time to see that none is to start."""
    journal, course = GrowingFile(layout.events), Course()
    seen_by = time.monotonic() + 4 * wish.INTERVAL

    def over() -> bool:
        for raw in journal.lines():
            try:
                course.take(json.loads(raw))
            except (ValueError, AttributeError):
                continue
        return time.monotonic() > seen_by and not course.open.intersection(chosen)

    return over


# ------------------------------------------------------------------------------------------- without a controller


def _without_controller(
    layout: RunLayout, run_id: str, chosen: Sequence[str], config: Path | None, *, kill: bool
) -> tuple[list[str], bool]:
    """Kill and remove the run's sandboxes; their names, and True.

    Where the run's folder cannot be locked, a controller may be at work all the same: then the wish is left with it.

    Raises:
        ConfigError: there are none.
    """
    state = describe(layout, lambda _: False).state
    if state in ("finished", "planned"):
        raise ConfigError(f"run {printable(run_id)} is not running: it is {state}")
    backend = backend_for(config=config, run_id=run_id, layout=layout)
    found = [
        sandbox
        for sandbox in own_sandboxes(backend)
        if sandbox.labels.get(RUN) == run_id and (not chosen or sandbox.labels.get(JOB) in chosen)
    ]
    if not found:
        what = f"of {', '.join(chosen)} " if chosen else ""
        raise ConfigError(
            f"run {printable(run_id)} is not running: it is {state}, and no sandbox {what}is left; "
            f"trace-bench run --config FILE --run-id {printable(run_id)} continues it"
        )
    if any(controller_is_alive(backend, sandbox) for sandbox in found):
        wish.ask_to_cancel(layout, chosen, kill=kill)
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
