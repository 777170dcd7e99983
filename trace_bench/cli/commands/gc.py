"""``gc``: see `trace_bench.cli.remove`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from trace_bench.cli.options import RUNS, Json, RunsDir, whole_number


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
    from trace_bench.cli.remove import gc_command

    gc_command(runs_dir, evidence=evidence, older_than=older_than, keep=keep, dry_run=dry_run, as_json=as_json)
