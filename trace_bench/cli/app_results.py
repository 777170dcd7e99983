"""What commands on the results of runs are called, their arguments and help; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_bench.cli.options import RUNS, Json, RunArgument, RunsDir
from trace_bench.cli.usage import confidence

results_commands = typer.Typer()

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
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Print what the jobs of a run come to, by group: means with intervals, improvement, held-out scores, what was
    spent, and what failed."""
    from trace_bench.cli.results import results_command

    results_command(
        run, runs_dir, by=by, where=where, form="json" if as_json else form, unprotected=unprotected, level=level
    )


# ---------------------------------------------------------------------------------------------------------- compare


# ----------------------------------------------------------------------------------------------------------- report


# ------------------------------------------------------------------------------------------------------------ audit


# -------------------------------------------------------------------------------------------------------- reproduce


# --------------------------------------------------------------------------------------------------- export, import


# ----------------------------------------------------------------------------------------------------------- mirror


# ------------------------------------------------------------------------------------------- rebuild, diff, rm, gc
