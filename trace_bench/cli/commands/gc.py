"""``gc``: removes old runs, and what is no longer needed of the others."""

from __future__ import annotations

import re
from typing import Annotated

from typer import Option

from trace_bench.cli.options import RUNS, Json, RunsDir, whole_number
from trace_bench.display.console import emit, emit_json, note
from trace_bench.display.table import megabytes
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, EnvironmentUnavailable

_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def gc(
    older_than: Annotated[
        str | None, Option(metavar="AGE", help="Remove finished runs that ended earlier too, such as 30d.")
    ] = None,
    keep: Annotated[
        int | None,
        Option(metavar="NUMBER", parser=whole_number, help="Remove finished runs too, but for this many newest ones."),
    ] = None,
    evidence: Annotated[
        bool, Option("--failed-evidence", help="Remove what earlier attempts of jobs left, too.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Remove what is no longer needed.

    Example: trace-bench gc --dry-run
    """
    from trace_bench.records.removing import removable, remove

    if keep is not None and keep < 0:
        raise ConfigError(f"--keep: it is a number of runs, and cannot be {keep}")
    age = seconds(older_than) if older_than is not None else None
    items = list(removable(runs_dir, evidence=evidence, older_than=age, keep=keep))
    gone, failed = (items, []) if dry_run else remove(items)
    size = sum(item.size for item in gone)
    if as_json:
        emit_json({
            "dry_run": dry_run,
            "bytes": size,
            "removed": [
                {"path": str(item.path), "bytes": item.size, "why": item.why,
                 "run_id": item.run.run_id if item.run is not None else None}
                for item in gone
            ],
            "failed": failed,
        })  # fmt: skip
    else:
        for item in gone:
            emit(f"{megabytes(item.size):>10}  {item.path}  ({item.why})")
        emit(f"{megabytes(size)} in {len(gone)} places {'would be' if dry_run else 'are'} free")
    changed = sorted({item.run.run_id for item in gone if item.listed and not item.is_run and item.run is not None})
    if changed and not dry_run:
        names = ", ".join(changed[:5]) + (" …" if len(changed) > 5 else "")
        note(f"files of the index have gone, so that the digest is another one now: {names}")
    note("left alone: the response cache (trace-bench llm cache --clear) and images (docker image prune)")
    if failed:
        raise EnvironmentUnavailable(f"{len(failed)} could not be removed: {'; '.join(quoted(f, 400) for f in failed)}")


def seconds(text: str) -> float:
    """Return the seconds of an age such as ``30d``.

    Raises:
        ConfigError: `text` is not an age.
    """
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise ConfigError(f"--older-than: {text!r} is not an age; write 30d, 12h or 2w")
    return float(match[1]) * _UNITS[match[2]]
