"""What commands on the results of runs are called, their arguments and help; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_bench.cli.options import RUNS, DataRoot, Json, Roots, RunsDir
from trace_bench.cli.usage import whole_number

results_commands = typer.Typer()

# ---------------------------------------------------------------------------------------------------------- results


# ---------------------------------------------------------------------------------------------------------- compare


# ----------------------------------------------------------------------------------------------------------- report


# ------------------------------------------------------------------------------------------------------------ audit


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
        str | None, typer.Option(metavar="NAME", help="auto, docker or local (unprotected); not the run's to say.")
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
    """Make a run, or its scores, again from what its folder holds, and compare."""
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


# ----------------------------------------------------------------------------------------------------------- mirror


# ------------------------------------------------------------------------------------------- rebuild, diff, rm, gc
