"""What commands on the results of runs are called, their arguments and help; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_bench.cli.options import RUNS, Json, RunArgument, RunsDir
from trace_bench.cli.usage import whole_number

results_commands = typer.Typer()

# ---------------------------------------------------------------------------------------------------------- results


# ---------------------------------------------------------------------------------------------------------- compare


# ----------------------------------------------------------------------------------------------------------- report


# ------------------------------------------------------------------------------------------------------------ audit


@results_commands.command(epilog="Example: trace-bench audit latest --json")
def audit(
    run: RunArgument,
    runs_dir: RunsDir = RUNS,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="DIGEST", help="The digest that the author published.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check what a run claims: files, tables, scores, calls, identity, conduct."""
    from trace_bench.cli.audit import audit_command

    code = audit_command(run, runs_dir, expect=expect, as_json=as_json)
    if code:
        raise typer.Exit(code)


# -------------------------------------------------------------------------------------------------------- reproduce


# --------------------------------------------------------------------------------------------------- export, import


@results_commands.command(epilog="Example: trace-bench export latest -o run.tar.gz")
def export(
    run: RunArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="What to write: .tar.gz, .tar, .parquet or .csv.")
    ],
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a table: scores (if not given), jobs, steps or calls."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Of a table: only jobs such as trainer=NoOp,seed=1|2."),
    ] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Archive a run that is not finished, without its salt.")
    ] = False,
    ro_crate: Annotated[bool, typer.Option("--ro-crate", help="Add RO-Crate metadata to the archive.")] = False,
    license_url: Annotated[
        str | None, typer.Option("--license", metavar="URL", help="Licence of the data, for the RO-Crate metadata.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Write a run as an archive with checksums, or as a table."""
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


@results_commands.command("import", epilog="Example: trace-bench import run.tar.gz")
def import_run(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="A file that trace-bench export made.")],
    runs_dir: RunsDir = RUNS,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-bytes", metavar="NUMBER", parser=whole_number, help="Most bytes, unpacked; 16 GiB if none."
        ),
    ] = None,
    max_files: Annotated[
        int | None,
        typer.Option("--max-files", metavar="NUMBER", parser=whole_number, help="Files at most; 500000 if none."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Take in the run of an archive, which is not trusted."""
    from trace_bench.cli.import_run import import_command

    import_command(archive, runs_dir, max_bytes=max_bytes, max_files=max_files, as_json=as_json)


# ----------------------------------------------------------------------------------------------------------- mirror


# ------------------------------------------------------------------------------------------- rebuild, diff, rm, gc
