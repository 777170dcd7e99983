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


@results_commands.command(epilog="Example: trace-bench rebuild latest --check")
def rebuild(
    run: RunArgument,
    jobs: Annotated[bool, typer.Option("--jobs", help="Derive the jobs' rows too, from what sandboxes left.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if anything differs.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Name the files that are as they should be, too.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> int:
    """Derive a run's tables again from its jobs' files."""
    from trace_bench.cli.rebuild import rebuild_command

    return rebuild_command(run, runs_dir, jobs=jobs, check=check, every=every, as_json=as_json)


@results_commands.command(epilog="Example: trace-bench diff latest 3ddb 5b37")
def diff(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB JOB", help="RUN/JOB RUN/JOB, or RUN JOB JOB.")],
    every: Annotated[bool, typer.Option("--all", help="Show all of long diffs.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Show what differs between two jobs, and where first."""
    from trace_bench.cli.diff import diff_command

    diff_command(jobs, runs_dir, every=every, as_json=as_json)


@results_commands.command(epilog="Example: trace-bench rm 20260102-030405-3f9a0c11")
def rm(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="A run's folder, its id or the beginning of it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Remove runs for good."""
    from trace_bench.cli.remove import rm_command

    rm_command(runs, runs_dir, yes=yes, as_json=as_json)


@results_commands.command(epilog="Example: trace-bench gc --dry-run")
def gc(
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Also finished runs that ended earlier, such as 30d.")
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", parser=whole_number, help="Also finished runs, but for the newest ones."),
    ] = None,
    evidence: Annotated[
        bool, typer.Option("--failed-evidence", help="Also what earlier attempts of jobs left.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Remove what nothing needs any more."""
    from trace_bench.cli.remove import gc_command

    gc_command(runs_dir, evidence=evidence, older_than=older_than, keep=keep, dry_run=dry_run, as_json=as_json)
