"""``mirror``: copies a run to another server, or to another tool's files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, Json, RunArgument, RunsDir
from trace_bench.display.console import emit, emit_json, note
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.mirrors import Mirrored


def mirror(
    where: Annotated[str, Argument(metavar="WHERE", help="mlflow or tensorboard.")],
    run: RunArgument,
    runs_dir: RunsDir = RUNS,
    tracking_uri: Annotated[
        str | None, Option(metavar="URI", help="Copy to this MLflow server; else to MLFLOW_TRACKING_URI.")
    ] = None,
    experiment: Annotated[
        str | None, Option(metavar="NAME", help="Name MLflow's experiment; else MLFLOW_EXPERIMENT_NAME or trace-bench.")
    ] = None,
    no_files: Annotated[bool, Option("--no-files", help="Copy no artifacts; mlflow only.")] = False,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FOLDER", help="Write TensorBoard's files here; else to RUN.tb.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy a run to an MLflow server, or to event files for TensorBoard. A second time, MLflow gets only new jobs.

    Example: trace-bench mirror mlflow latest
    """
    from trace_bench.artifacts.folder_lock import held_for_writing
    from trace_bench.mirrors import check_mirror
    from trace_bench.records.runs import find_run

    check_mirror(where)
    of_mlflow = (("--tracking-uri", tracking_uri), ("--experiment", experiment), ("--no-files", no_files))
    of_tensorboard = (("--output", output),)
    other, options = ("mlflow", of_mlflow) if where == "tensorboard" else ("tensorboard", of_tensorboard)
    for option, value in options:
        if value:
            raise ConfigError(f"option {option} is of mirror {other}, not of {where}; take it out")
    layout = find_run(run, runs_dir)
    if where == "tensorboard":
        from trace_bench.mirrors.tensorboard import write_run

        done = write_run(layout, output)
    else:
        from trace_bench.mirrors.mlflow import MlflowMirror

        with held_for_writing(layout):  # two copies at a time would make two of each job
            done = MlflowMirror(layout, tracking_uri, experiment, files=not no_files).copy_run()
    _print(layout.run_id, done, as_json=as_json)


def _print(run_id: str, done: Mirrored, *, as_json: bool) -> None:
    """Print the result of a copy, and a warning for each problem."""
    for problem in done.problems:
        note(f"warning: {problem}")
    if as_json:
        emit_json(
            {"run_id": run_id, "place": done.place, "jobs": done.jobs, "changed": done.changed,
             "problems": list(done.problems)}
        )  # fmt: skip
    else:
        jobs = "1 job" if done.jobs == 1 else f"{done.jobs} jobs"
        emit(f"{run_id}: {jobs} at {done.place}, {done.changed} of them changed")
