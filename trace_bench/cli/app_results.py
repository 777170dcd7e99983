"""What commands on the results of runs are called, their arguments and help; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_bench.cli.options import RUNS, DataRoot, Json, PlacesOf, Roots, RunArgument, RunsDir
from trace_bench.cli.usage import confidence, whole_number

results_commands = typer.Typer()
Explain = Annotated[bool, typer.Option("--explain", help="Print everything that there is to know, and the methods.")]

# ---------------------------------------------------------------------------------------------------------- results


@results_commands.command(
    short_help="Print means with intervals, by task and trainer, say.",
    epilog="Example: trace-bench results latest --by task,trainer --format md",
)
def results(
    run: RunArgument,
    by: Annotated[
        str, typer.Option(metavar="KEY,...", help="What to group by; without task, tasks are averaged.")
    ] = "task,trainer",
    where: Annotated[
        str | None, typer.Option(metavar="KEY=VALUE,...", help="Only these jobs, as in trainer=GEPA-*,seed=1|2.")
    ] = None,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="table, csv, json, md or tex.")] = "table",
    unprotected: Annotated[
        bool, typer.Option("--unprotected", help="Count jobs whose score a candidate could have written.")
    ] = False,
    level: Annotated[
        float, typer.Option(metavar="SHARE", parser=confidence, help="Confidence level of the intervals.")
    ] = 0.95,
    explain: Explain = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Print what the jobs of a run come to, by group: validation and held-out scores with intervals, and what was
    spent."""
    from trace_bench.cli.results import results_command

    form = "json" if as_json else form
    results_command(run, runs_dir, by=by, where=where, form=form, unprotected=unprotected, level=level, explain=explain)


# ---------------------------------------------------------------------------------------------------------- compare


@results_commands.command(
    short_help="Compare runs, or parts of one, fairly.",
    epilog="Example: trace-bench compare latest --where trainer=NoOp --where trainer=PrioritySearch",
)
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs by folder, id or the beginning of it; the first is the baseline."),
    ],
    runs_dir: RunsDir = RUNS,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="KEY=VALUE,...", help="The jobs of a part; give it once for each, or for all."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="KEY,...", help="A part for each trainer, variant, model … of the run."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="NAME", help="The part that others are compared with.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", help="normalised_test, score_test, normalised, score_best, …"),
    ] = None,
    level: Annotated[
        float,
        typer.Option(metavar="SHARE", parser=confidence, help="Of intervals; 1 - level is the error rate."),
    ] = 0.95,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse if more than one axis differs.")] = False,
    unprotected: Annotated[
        bool, typer.Option("--unprotected", help="Count jobs that could have written their own score.")
    ] = False,
    failures_as_worst: Annotated[
        bool, typer.Option("--failures-as-worst", help="Score a job's own failure 0, the worst normalised score.")
    ] = False,
    explain: Explain = False,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="table, md or json.", show_default=True)
    ] = "table",
    as_json: Json = False,
) -> None:
    """Print by how much the scores of parts differ from a baseline's, with a verdict for each task and over all."""
    from trace_bench.cli.compare import Wanted, compare_command

    wanted = Wanted(
        runs=tuple(runs),
        wheres=tuple(where or ()),
        by=by,
        baseline=baseline,
        metric=metric,
        level=level,
        strict=strict,
        unprotected=unprotected,
        failures_as_worst=failures_as_worst,
        form="json" if as_json else form,
        explain=explain,
    )
    compare_command(wanted, runs_dir)


# ----------------------------------------------------------------------------------------------------------- report


@results_commands.command(epilog="Example: trace-bench report latest -o report.html")
def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders or ids of runs, or latest.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A .html or .md; report-RUN.html if left out.")
    ] = None,
    no_audit: Annotated[bool, typer.Option("--no-audit", help="Leave the audit's verdict out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is no report.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Write a page with the pictures, tables and diffs of runs."""
    from trace_bench.cli.report import report_command

    report_command(runs, output, runs_dir, audited=not no_audit, force=force, as_json=as_json)


# ------------------------------------------------------------------------------------------------------------ audit


@results_commands.command(epilog="Example: trace-bench audit latest --json")
def audit(
    run: RunArgument,
    runs_dir: RunsDir = RUNS,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="DIGEST", help="The digest that the author published.")
    ] = None,
    root: Roots = None,
    as_json: Json = False,
) -> None:
    """Check every claim of a run against its files."""
    from trace_bench.cli.audit import audit_command

    code = audit_command(run, runs_dir, expect=expect, roots=root or (), as_json=as_json)
    if code:
        raise typer.Exit(code)


# -------------------------------------------------------------------------------------------------------- reproduce


@results_commands.command(epilog="Example: trace-bench reproduce latest")
def reproduce(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's folder, its id or the beginning of it, latest, or an archive.")
    ],
    score_only: Annotated[
        bool, typer.Option("--score-only", help="Score the saved states again; train nothing.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="A new folder for the new run and the report."),
    ] = None,
    runs_dir: RunsDir = RUNS,
    root: Roots = None,
    data_root: DataRoot = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITIONS", help="Those jobs alone, as in task=llm4ad:*,seed=1|2.")
    ] = None,
    job: Annotated[
        list[str] | None, typer.Option("--job", "--jobs", metavar="JOB", help="This job alone; may be repeated.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "--max-workers", metavar="NUMBER", parser=whole_number, help="Jobs at a time."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="auto, docker, modal or local (unprotected); not the run's to say."),
    ] = None,
    allow_weaker: Annotated[
        list[str] | None, typer.Option(metavar="CONTROL", help="A control that sandboxes here may go without.")
    ] = None,
    no_pull: Annotated[
        bool, typer.Option("--no-pull", help="Make images from the recipes here, and pull none that the run names.")
    ] = False,
    no_build: Annotated[bool, typer.Option("--no-build", help="Fail where an image is missing.")] = False,
    as_json: Json = False,
) -> None:
    """Make a run again from its folder or archive, and compare."""
    from trace_bench.cli.reproduce import Given, reproduce_command

    given = {"max_workers": workers, "backend": backend, "data_root": data_root}
    code = reproduce_command(
        Given(run, runs_dir, output, job or [], where),
        {key: value for key, value in given.items() if value is not None},
        roots=root or [],
        allow_weaker=allow_weaker or [],
        score_only=score_only,
        pull=not no_pull,
        build=not no_build,
        as_json=as_json,
    )
    raise typer.Exit(code)


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


@results_commands.command(
    short_help="Copy a run to MLflow, or to TensorBoard's files.", epilog="Example: trace-bench mirror mlflow latest"
)
def mirror(
    where: Annotated[str, typer.Argument(metavar="WHERE", help="mlflow or tensorboard.")],
    run: RunArgument,
    runs_dir: RunsDir = RUNS,
    follow: Annotated[bool, typer.Option("--follow", help="Until the run has ended; mlflow only.")] = False,
    tracking_uri: Annotated[
        str | None, typer.Option(metavar="URI", help="Address of the MLflow server; else MLFLOW_TRACKING_URI.")
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of MLflow; else MLFLOW_EXPERIMENT_NAME, else trace-bench.")
    ] = None,
    no_files: Annotated[bool, typer.Option("--no-files", help="No artifacts; mlflow only.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Of TensorBoard's files; else RUN.tb, here."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy a run to an MLflow server, or to event files for TensorBoard. Again, it adds what is new."""
    from trace_bench.cli.mirror import mirror_command

    mirror_command(
        where, run, runs_dir, follow=follow, tracking_uri=tracking_uri, experiment=experiment, files=not no_files,
        output=output, as_json=as_json,
    )  # fmt: skip


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
    jobs: Annotated[list[str], typer.Argument(metavar="JOB JOB", help="Of the latest run, or each as RUN/JOB.")],
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
    config: PlacesOf = None,
    as_json: Json = False,
) -> None:
    """Remove runs for good."""
    from trace_bench.cli.remove import rm_command

    rm_command(runs, runs_dir, config, yes=yes, as_json=as_json)


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
