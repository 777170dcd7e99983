"""``audit``: see `trace_bench.cli.audit`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from trace_bench.cli.options import RUNS, Json, Roots, RunArgument, RunsDir


def audit(
    run: RunArgument,
    runs_dir: RunsDir = RUNS,
    expect: Annotated[
        str | None, Option("--expect", metavar="DIGEST", help="Expect the digest that the author published.")
    ] = None,
    root: Roots = None,
    as_json: Json = False,
) -> int:
    """Check every claim of a run against its files.

    Example: trace-bench audit latest --json
    """
    from trace_bench.cli.audit import audit_command

    return audit_command(run, runs_dir, expect=expect, roots=root or (), as_json=as_json)
