"""What commands on the results of runs are called, their arguments and help; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_bench.cli.options import RUNS, Json, RunArgument, RunsDir

results_commands = typer.Typer()

# ---------------------------------------------------------------------------------------------------------- results


# ---------------------------------------------------------------------------------------------------------- compare


# ----------------------------------------------------------------------------------------------------------- report


# ------------------------------------------------------------------------------------------------------------ audit


# -------------------------------------------------------------------------------------------------------- reproduce


# --------------------------------------------------------------------------------------------------- export, import


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
