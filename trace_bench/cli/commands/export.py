"""``export``: see `trace_bench.cli.export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from trace_bench.cli.options import RUNS, Json, RunArgument, RunsDir


def export(
    run: RunArgument,
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="Write this file: .tar.gz, .tar, .parquet or .csv.")
    ],
    table: Annotated[
        str | None, Option(metavar="NAME", help="Write this table: scores (if not given), jobs, steps or calls.")
    ] = None,
    where: Annotated[
        str | None, Option(metavar="CONDITION", help="Of a table, write only jobs such as trainer=NoOp,seed=1|2.")
    ] = None,
    unfinished: Annotated[
        bool, Option("--unfinished", help="Archive a run that is not finished, without its salt.")
    ] = False,
    ro_crate: Annotated[bool, Option("--ro-crate", help="Add RO-Crate metadata to the archive.")] = False,
    license_url: Annotated[
        str | None, Option("--license", metavar="URL", help="Name the licence of the data in the RO-Crate metadata.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite a file that is there.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Write a run as an archive with checksums, or as a table.

    Example: trace-bench export latest -o run.tar.gz
    """
    from trace_bench.cli.export import export_command

    export_command(
        run,
        output,
        runs_dir,
        table=table,
        where=where,
        unfinished=unfinished,
        ro_crate=ro_crate,
        license_url=license_url,
        force=force,
        as_json=as_json,
    )
