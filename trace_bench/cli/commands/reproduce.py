"""``reproduce``: repeats a run or its scores here, and compares job by job."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, DataRoot, Json, NoBuild, Roots, RunsDir, given, whole_number
from trace_bench.display.console import emit, emit_json, note
from trace_bench.errors import ExitCode


def reproduce(  # long, as it has many options
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
        list[str] | None, Option("--job", "--jobs", metavar="JOB", help="Make this job again; can be repeated.")
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
        list[str] | None, Option(metavar="CONTROL", help="Do without this control of sandboxes; can be repeated.")
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
    from trace_bench.audit.reproduce import Options, prepare, write_report
    from trace_bench.cli import reproduce as steps
    from trace_bench.cli.run import DisplayOptions, check_runs_dir

    overrides = given(max_workers=workers, backend=backend, data_root=data_root)
    with contextlib.ExitStack() as unpacked:
        recording, folder = steps.open_named(run, runs_dir, output, unpacked)
        jobs = steps.chosen_jobs(recording, job or [], where)
        options = Options(overrides, root or [], jobs, allow_weaker or [], not no_pull, not no_build)
        prepared = prepare(recording, folder, options, note)
        check_runs_dir(prepared.plan.config)
        unpacked.pop_all()
    if not as_json:
        steps.print_pins(prepared, score_only)
    if prepared.plan.backend.integrity != "protected":
        note("warning: programs of the run, which can be untrusted, run as your user on this backend")
    report = (
        steps.score_again(prepared) if score_only else steps.replay_and_show(prepared, DisplayOptions(quiet=as_json))
    )
    path = write_report(report, folder)
    if as_json:
        emit_json({**report.model_dump(mode="json"), "ok": report.ok, "report": str(path)})
    else:
        steps.print_jobs(report)
        emit(steps.summary(report))
        note(f"report: {path}")
    return int(ExitCode.OK if report.ok else ExitCode.JOB_FAILED)
