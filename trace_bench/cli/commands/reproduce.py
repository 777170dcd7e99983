"""``reproduce``: see `trace_bench.cli.reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, DataRoot, Json, NoBuild, Roots, RunsDir, given, whole_number


def reproduce(
    run: Annotated[
        str, Argument(metavar="RUN", help="A run's folder, its id or the beginning of it, latest, or an archive.")
    ],
    score_only: Annotated[bool, Option("--score-only", help="Score the saved states again; train nothing.")] = False,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FOLDER", help="Write the new run and the report to this new folder."),
    ] = None,
    runs_dir: RunsDir = RUNS,
    root: Roots = None,
    data_root: DataRoot = None,
    where: Annotated[
        str | None, Option(metavar="CONDITIONS", help="Make only those jobs again, as in task=llm4ad:*,seed=1|2.")
    ] = None,
    job: Annotated[
        list[str] | None, Option("--job", "--jobs", metavar="JOB", help="Make this job again; may be repeated.")
    ] = None,
    workers: Annotated[
        int | None,
        Option(
            "--workers", "--max-workers", metavar="NUMBER", parser=whole_number, help="Run this many jobs at a time."
        ),
    ] = None,
    backend: Annotated[
        str | None,
        Option(metavar="NAME", help="Use auto, docker, modal or local (unprotected), whatever the run used."),
    ] = None,
    allow_weaker: Annotated[
        list[str] | None, Option(metavar="CONTROL", help="Do without this control of sandboxes; may be repeated.")
    ] = None,
    no_pull: Annotated[
        bool, Option("--no-pull", help="Make images from the recipes here, and pull none that the run names.")
    ] = False,
    no_build: NoBuild = False,
    as_json: Json = False,
) -> int:
    """Make a run again from its folder or archive, and compare.

    Example: trace-bench reproduce latest
    """
    from trace_bench.cli.reproduce import Given, reproduce_command

    return reproduce_command(
        Given(run, runs_dir, output, job or [], where),
        given(max_workers=workers, backend=backend, data_root=data_root),
        roots=root or [],
        allow_weaker=allow_weaker or [],
        score_only=score_only,
        pull=not no_pull,
        build=not no_build,
        as_json=as_json,
    )
