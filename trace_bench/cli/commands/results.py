"""``results``: see `trace_bench.cli.results`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from trace_bench.cli.options import RUNS, Explain, Json, RunArgument, RunsDir, confidence


def results(
    run: RunArgument,
    by: Annotated[
        str, Option(metavar="KEY,...", help="Group by these; without task, tasks are averaged.")
    ] = "task,trainer",
    where: Annotated[
        str | None, Option(metavar="KEY=VALUE,...", help="Take only these jobs, as in trainer=GEPA-*,seed=1|2.")
    ] = None,
    form: Annotated[str, Option("--format", metavar="FORMAT", help="Print a table, csv, json, md or tex.")] = "table",
    unprotected: Annotated[
        bool, Option("--unprotected", help="Count jobs whose score a candidate could have written.")
    ] = False,
    level: Annotated[
        float, Option(metavar="SHARE", parser=confidence, help="Set the confidence level of the intervals.")
    ] = 0.95,
    explain: Explain = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Print what the jobs of a run come to, by group: validation and held-out scores with intervals, and what was
    spent.

    Example: trace-bench results latest --by task,trainer --format md
    """
    from trace_bench.cli.results import results_command

    form = "json" if as_json else form
    results_command(run, runs_dir, by=by, where=where, form=form, unprotected=unprotected, level=level, explain=explain)
