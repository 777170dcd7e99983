"""``rm``: removes runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, HostsOf, Json, RunsDir
from trace_bench.display.console import emit, emit_json, note
from trace_bench.display.table import megabytes
from trace_bench.errors import ConfigError, EnvironmentUnavailable

if TYPE_CHECKING:
    from trace_bench.artifacts.layout import RunLayout


def rm(
    runs: Annotated[list[str], Argument(metavar="RUN", help="A run's folder, its id or the beginning of it.")],
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    runs_dir: RunsDir = RUNS,
    config: HostsOf = None,
    as_json: Json = False,
) -> None:
    """Remove runs for good.

    Example: trace-bench rm 20260102-030405-3f9a0c11
    """
    from trace_bench.artifacts.folder_lock import check_not_at_work
    from trace_bench.planning.backends import forget_backend
    from trace_bench.records.removing import remove_run
    from trace_bench.records.runs import run_id_of

    named = {run.root: run for run in (_named(text, runs_dir) for text in runs)}
    for run in named.values():
        check_not_at_work(run)
        _refuse_sandboxes(run, config)
    if not yes and not _agreed(list(named.values())):
        raise ConfigError("nothing was removed; answer yes, or give --yes")
    removed = []
    for run in named.values():
        run_id = run_id_of(run)
        size = remove_run(run)
        forget_backend(run_id)
        removed.append({"run_id": run.run_id, "path": str(run.root), "bytes": size})
        if not as_json:
            emit(f"removed {run.root}  ({megabytes(size)})")
    if as_json:
        emit_json(removed)


def _named(text: str, runs_dir: Path) -> RunLayout:
    """Return the run that `text` names.

    Raises:
        ConfigError: there is no such run, or it is a link.
    """
    from trace_bench.records.runs import find_run

    places = [Path(text)] if "/" in text else [runs_dir / text, Path(text)]
    for place in places:
        if place.is_symlink():
            raise ConfigError(f"{place}: it is a link, which rm does not follow; name the run itself")
    return find_run(text, runs_dir)


def _refuse_sandboxes(run: RunLayout, config: Path | None) -> None:
    """
    Args:
        config: says where sandboxes of the run may be; None is where this user started it.

    Raises:
        ConfigError: sandboxes of the run exist.
    """
    from trace_bench.cli.backends import choose_backend
    from trace_bench.cli.sandboxes import own_sandboxes
    from trace_bench.planning.backends import connect_backend
    from trace_bench.records.runs import describe, run_id_of
    from trace_bench.sandbox.labels import RUN

    run_id = run_id_of(run)
    where = choose_backend(config=config, run_id=run_id, layout=run)
    try:
        sandboxes = own_sandboxes(connect_backend(where))
    except (EnvironmentUnavailable, ConfigError) as error:
        if describe(run).state != "finished":
            note(f"whether sandboxes of {run.run_id} exist is not known: {error}")
        return
    count = sum(sandbox.labels.get(RUN) == run_id for sandbox in sandboxes)
    if count:
        raise ConfigError(f"{count} sandboxes of run {run_id} exist; remove them with trace-bench clean --run {run_id}")


def _agreed(runs: Sequence[RunLayout]) -> bool:
    """Ask the user.

    Raises:
        ConfigError: there is no terminal to ask on.
    """
    from trace_bench.records.removing import size_of
    from trace_bench.records.runs import describe

    if not sys.stdin.isatty():
        raise ConfigError("rm asks on a terminal; without one, give --yes")
    for run in runs:
        line = describe(run)
        note(f"{run.root}  ({line.jobs} jobs, {line.state}, {megabytes(size_of(run.root))})")
    note(f"Remove {'it' if len(runs) == 1 else f'these {len(runs)} runs'} for good? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
