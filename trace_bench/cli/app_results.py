"""What commands on the results of runs are called, their arguments and help; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_bench.cli.options import RUNS, Json, RunsDir

results_commands = typer.Typer()

# ---------------------------------------------------------------------------------------------------------- results


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
        float, typer.Option("--level", metavar="NUMBER", help="Of intervals; 1 - level of tests.", show_default=True)
    ] = 0.95,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse if more than one axis differs.")] = False,
    unprotected: Annotated[
        bool, typer.Option("--unprotected", help="Count jobs that could have written their own score.")
    ] = False,
    failures_as_worst: Annotated[
        bool, typer.Option("--failures-as-worst", help="Score a job's own failure 0, the worst normalised score.")
    ] = False,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="table, md or json.", show_default=True)
    ] = "table",
    as_json: Json = False,
) -> None:
    """Say in what parts differ, then by how much their scores do, and what so few seeds could have shown."""
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
    )
    compare_command(wanted, runs_dir)


# ----------------------------------------------------------------------------------------------------------- report


# ------------------------------------------------------------------------------------------------------------ audit


# -------------------------------------------------------------------------------------------------------- reproduce


# --------------------------------------------------------------------------------------------------- export, import


# ----------------------------------------------------------------------------------------------------------- mirror


# ------------------------------------------------------------------------------------------- rebuild, diff, rm, gc
