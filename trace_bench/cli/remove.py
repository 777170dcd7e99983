"""``rm`` and ``gc``: runs that are to go, and what of the others can go."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from trace_bench.artifacts.jsonio import printable
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.records.guard import refuse_at_work
from trace_bench.records.removing import Item, removable, remove, remove_run, size_of
from trace_bench.records.runs import describe, find_run, run_id_of

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def rm_command(runs: Sequence[str], runs_dir: Path, config: Path | None, *, yes: bool, as_json: bool) -> None:
    """Remove `runs`, if that is what the user wants.

    Args:
        config: says where sandboxes of them may be; None is where this user started them.

    Raises:
        ConfigError: there is no such run, it is a link, or somebody is at work in it; or nobody can be asked.
        EnvironmentUnavailable: something in it cannot be removed.
    """
    from trace_bench.planning.backends import forget_backend

    found = {run.root: run for run in (_found(text, runs_dir) for text in runs)}
    for run in found.values():
        refuse_at_work(run)
        _refuse_sandboxes(run, config)
    if not yes and not _agreed(list(found.values())):
        raise ConfigError("nothing was removed; answer yes, or give --yes")
    removed = []
    for run in found.values():
        run_id = run_id_of(run)
        size = remove_run(run)
        forget_backend(run_id)
        removed.append({"run_id": run.run_id, "path": str(run.root), "bytes": size})
        if not as_json:
            emit(f"removed {printable(str(run.root), 4096)}  ({megabytes(size)})")
    if as_json:
        emit_json(removed)


def _found(text: str, runs_dir: Path) -> RunLayout:
    places = [Path(text)] if "/" in text else [runs_dir / text, Path(text)]
    for place in places:
        if place.is_symlink():
            raise ConfigError(
                f"{printable(str(place), 4096)}: it is a link, which rm does not follow; name the run itself"
            )
    return find_run(text, runs_dir)


def _refuse_sandboxes(run: RunLayout, config: Path | None) -> None:
    """
    Raises:
        ConfigError: sandboxes of the run exist.
    """
    from trace_bench.cli.places import places_for
    from trace_bench.cli.sandboxes import own_sandboxes
    from trace_bench.planning.backends import connect_backend
    from trace_bench.sandbox.labels import RUN

    run_id = run_id_of(run)
    where = places_for(config=config, run_id=run_id, layout=run)
    try:
        sandboxes = own_sandboxes(connect_backend(where))
    except (EnvironmentUnavailable, ConfigError) as error:
        if describe(run).state != "finished":
            note(f"whether sandboxes of {printable(run.run_id)} exist is not known: {printable(str(error), 400)}")
        return
    count = sum(sandbox.labels.get(RUN) == run_id for sandbox in sandboxes)
    if count:
        shown = printable(run_id)
        raise ConfigError(f"{count} sandboxes of run {shown} exist; remove them with trace-bench clean --run {shown}")


def _agreed(runs: Sequence[RunLayout]) -> bool:
    """
    Raises:
        ConfigError: there is no terminal to ask on.
    """
    if not sys.stdin.isatty():
        raise ConfigError("rm asks on a terminal; without one, give --yes")
    for run in runs:
        line = describe(run)
        what = f"{line.jobs} jobs, {line.state}, {megabytes(size_of(run.root))}"
        note(f"{printable(str(run.root), 4096)}  ({what})")
    note(f"Remove {'it' if len(runs) == 1 else f'these {len(runs)} runs'} for good? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def gc_command(
    runs_dir: Path, *, evidence: bool, older_than: str | None, keep: int | None, dry_run: bool, as_json: bool
) -> None:
    """Remove what can go, or only say what.

    Raises:
        ConfigError: an option is none. EnvironmentUnavailable: something could not be removed.
    """
    if keep is not None and keep < 0:
        raise ConfigError(f"--keep: it is a number of runs, and cannot be {keep}")
    age = seconds(older_than) if older_than is not None else None
    items = list(removable(runs_dir, evidence=evidence, older_than=age, keep=keep))
    gone, failed = (items, []) if dry_run else remove(items)
    size = sum(item.size for item in gone)
    if as_json:
        emit_json({"dry_run": dry_run, "bytes": size, "removed": [_as_json(item) for item in gone], "failed": failed})
    else:
        for item in gone:
            emit(f"{megabytes(item.size):>10}  {printable(str(item.path), 4096)}  ({item.why})")
        emit(f"{megabytes(size)} in {len(gone)} places {'would be' if dry_run else 'are'} free")
    changed = sorted({item.run.run_id for item in gone if item.listed and not item.is_run and item.run is not None})
    if changed and not dry_run:
        names = ", ".join(printable(name, 128) for name in changed[:5]) + (" …" if len(changed) > 5 else "")
        note(f"files of the index have gone, so that the digest is another one now: {names}")
    note("left alone: the response cache (trace-bench llm cache --clear) and images (docker image prune)")
    if failed:
        raise EnvironmentUnavailable(
            f"{len(failed)} could not be removed: " + "; ".join(printable(f, 400) for f in failed)
        )


def seconds(text: str) -> float:
    """``30d`` and the like.

    Raises:
        ConfigError: it is none.
    """
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        raise ConfigError(f"--older-than: {printable(text)!r} is no age; write 30d, 12h or 2w")
    return float(found[1]) * _UNITS[found[2]]


def megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def _as_json(item: Item) -> dict[str, object]:
    run_id = item.run.run_id if item.run is not None else None
    return {"path": str(item.path), "bytes": item.size, "why": item.why, "run_id": run_id}
