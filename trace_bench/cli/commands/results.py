"""``results``: the scores of a run's jobs, by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from trace_bench.arguments import hint
from trace_bench.cli.options import RUNS, Explain, Json, RunArgument, RunsDir, confidence
from trace_bench.display.console import emit, emit_block, emit_json, emit_run_table, emit_sentence, note
from trace_bench.errors import ConfigError

if TYPE_CHECKING:
    from trace_bench.analysis.groups import Summary
    from trace_bench.suites.tables import SuiteTable

FORMATS = ("table", "csv", "json", "md", "tex")


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
    from trace_bench.analysis import groups
    from trace_bench.analysis.spending import spending_sentences
    from trace_bench.analysis.suite_tables import suite_tables
    from trace_bench.analysis.where import parse_by, parse_where
    from trace_bench.records.gaps import gap_sentences
    from trace_bench.records.reading import read_rows
    from trace_bench.records.rows import unmet_sentences
    from trace_bench.records.runs import find_run

    form = "json" if as_json else form
    if form not in FORMATS:
        raise ConfigError(f"--format: there is no {form!r}{hint(form, FORMATS)}")
    columns = parse_by(by)
    chosen = parse_where(where) if where is not None else None
    layout = find_run(run, runs_dir)
    jobs = groups.jobs_of(layout)
    if not layout.manifest.exists():
        note(f"{layout.run_id}: its manifest is missing, so jobs that have not ended are unknown")
    if chosen is not None:
        count, jobs = len(jobs), chosen.of(jobs)
        if count and jobs.empty:
            raise ConfigError(f"--where {chosen.text}: none of the {count} jobs of the run matches")
    summary = groups.summarise_groups(jobs, columns, level=level, unprotected=unprotected, run_id=layout.run_id)
    _, counted, _ = groups.countable(jobs, unprotected=unprotected)
    of_suites = suite_tables(jobs, counted, level=level)
    if form == "json":
        emit_json(_as_json(summary, of_suites, where))
    else:
        skipped = jobs[jobs["status"] == "skipped"]
        unmet = unmet_sentences(zip(skipped["task_id"], skipped["feedback"], strict=True))
        wanted = set(jobs["job_id"])
        spending = spending_sentences(layout, [row for row in read_rows(layout) if row.job_id in wanted])
        remarks = [*gap_sentences(layout), *(f"budgets: {text}" for text in spending)]
        _emit(summary, of_suites, remarks, unmet, form, explain=explain)


def _as_json(summary: Summary, of_suites: Sequence[SuiteTable], where: str | None) -> Any:
    from trace_bench.analysis import group_tables

    return {
        "run_id": summary.run_id, "by": summary.by, "joined": summary.joined, "where": where,
        "level": summary.level, "averaged_over_tasks": summary.averaged, "unprotected": summary.unprotected,
        "groups": group_tables.records(summary), "notes": group_tables.notes(summary),
        "methods": group_tables.methods(summary),
        **({"answers": answers} if (answers := group_tables.answer_records(summary)) else {}),
        **{name: value for table in of_suites for name, value in table.fields.items()},
    }  # fmt: skip


def _emit(
    summary: Summary,
    of_suites: Sequence[SuiteTable],
    remarks_of_run: Sequence[str],
    unmet: Sequence[str],
    form: str,
    *,
    explain: bool,
) -> None:
    from trace_bench.analysis import group_tables
    from trace_bench.analysis.suite_tables import as_table
    from trace_bench.display import markup

    if form == "csv":
        emit_block(markup.csv_text(group_tables.csv_table(summary)).rstrip("\n"))
        return
    aside = group_tables.aside_table(summary) if explain else None
    tables = [group_tables.main_table(summary) if explain else group_tables.short_table(summary)]
    tables += [aside] if aside is not None else []
    tables += [as_table(table) for table in of_suites if table.rows]
    remarks = [group_tables.caveats(summary)]
    if explain:
        remarks = [*group_tables.notes(summary), *group_tables.methods(summary)]
    remarks = [*group_tables.answers(summary), *remarks_of_run, *remarks]
    remarks += [remark for table in of_suites for remark in table.remarks]
    remarks += unmet
    if form == "md":
        remarks_text = "\n".join(f"* {markup.markdown_text(line)}" for line in remarks)
        emit_block("\n\n".join([*map(markup.markdown, tables), remarks_text]))
    elif form == "tex":
        head, remarks_text = "% needs \\usepackage{booktabs,textcomp}", "\n".join(f"% {line}" for line in remarks)
        emit_block("\n\n".join([head, *map(markup.tex, tables), remarks_text]))
    elif not summary.groups:
        emit("no jobs")
    else:
        directions = [group.direction for group in summary.groups]
        for place, table in enumerate(tables):
            emit_run_table(table, () if place else directions, ("variant", "optimizer", "model"))
            emit()
        for line in remarks:
            emit_sentence(line)
