"""``compare``: see `trace_bench.cli.compare`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, Explain, Json, RunsDir, confidence


def compare(
    runs: Annotated[
        list[str],
        Argument(metavar="RUN...", help="Runs by folder, id or the beginning of it; the first is the baseline."),
    ],
    runs_dir: RunsDir = RUNS,
    where: Annotated[
        list[str] | None,
        Option("--where", metavar="KEY=VALUE,...", help="Choose the jobs of a part; once for each part, or for all."),
    ] = None,
    by: Annotated[
        str | None, Option("--by", metavar="KEY,...", help="Make a part of each trainer, variant, model … of the run.")
    ] = None,
    baseline: Annotated[
        str | None, Option("--baseline", metavar="NAME", help="Compare the other parts with this one.")
    ] = None,
    metric: Annotated[
        str | None,
        Option("--metric", metavar="NAME", help="Compare normalised_test, score_test, normalised, score_best, …"),
    ] = None,
    level: Annotated[
        float,
        Option(metavar="SHARE", parser=confidence, help="Set the level of intervals; 1 - level is the error rate."),
    ] = 0.95,
    strict: Annotated[bool, Option("--strict", help="Refuse if more than one axis differs.")] = False,
    unprotected: Annotated[
        bool, Option("--unprotected", help="Count jobs that could have written their own score.")
    ] = False,
    failures_as_worst: Annotated[
        bool, Option("--failures-as-worst", help="Score a job's own failure 0, the worst normalised score.")
    ] = False,
    explain: Explain = False,
    form: Annotated[str, Option("--format", metavar="FORMAT", help="Print a table, md or json.")] = "table",
    as_json: Json = False,
) -> None:
    """Print by how much the scores of parts differ from a baseline's, with a verdict for each task and over all.

    Example: trace-bench compare latest --where trainer=NoOp --where trainer=PrioritySearch
    """
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
