"""``compare``: how much the scores of parts differ from a baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from trace_bench.arguments import hint
from trace_bench.cli.options import RUNS, Explain, Json, RunsDir, confidence
from trace_bench.display.console import emit, emit_block, emit_json, emit_sentence, emit_table
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.analysis.comparison import Compared
    from trace_bench.analysis.comparison_text import Section

FORMATS = ("table", "md", "json")


def compare(  # long, as it has many options
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
        bool, Option("--failures-as-worst", help="Score a job's own failure 0: the template where a task has a gap.")
    ] = False,
    explain: Explain = False,
    form: Annotated[str, Option("--format", metavar="FORMAT", help="Print a table, md or json.")] = "table",
    as_json: Json = False,
) -> None:
    """Print by how much the scores of parts differ from a baseline's, with a verdict for each task and over all.

    Example: trace-bench compare latest --where trainer=NoOp --where trainer=PrioritySearch
    """
    from trace_bench.analysis.axes import UnfairComparison, refusal
    from trace_bench.analysis.comparison import compare as compare_groups
    from trace_bench.analysis.comparison_groups import choose
    from trace_bench.analysis.comparison_text import markdown, sections, summary
    from trace_bench.analysis.where import parse_where
    from trace_bench.records.runs import find_run

    if form not in FORMATS:
        raise ConfigError(f"--format: there is no {form!r}{hint(form, FORMATS)}")
    layouts = [find_run(run, runs_dir) for run in runs]
    groups = choose(layouts, [parse_where(text) for text in where or ()], by, baseline)
    if strict and (why := refusal(groups)):
        raise UnfairComparison(why)
    done = compare_groups(
        groups, metric=metric, level=level, unprotected=unprotected, failures_as_worst=failures_as_worst
    )
    if as_json or form == "json":
        emit_json(_as_json(done))
        return
    shown = sections(done) if explain else [summary(done)]
    if form == "md":
        emit_block(markdown(shown).rstrip("\n"))
    else:
        _print(shown)


def _print(shown: Sequence[Section]) -> None:
    for place, section in enumerate(shown):
        if place:
            emit()
        emit_sentence(section.title, strong=True)
        for block in section.blocks:
            if isinstance(block, str):
                emit_sentence(block)
            else:
                emit_table(block, by="configuration")


def _as_json(done: Compared) -> dict[str, Any]:
    """Everything, in the names of the dataclasses."""
    from trace_bench.analysis.comparison_power import detected, methods
    from trace_bench.analysis.comparison_text import notes

    found = asdict(done)
    found["metric"].pop("signs")
    return {
        **found,
        "alpha": done.alpha,
        "notes": notes(done),
        "detection": [line for one in done.comparisons for line in detected(done, one)],
        "methods": [{"name": name, "text": text} for name, text in methods(done)],
    }
