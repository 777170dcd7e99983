"""``results``: what the jobs of a run come to, by group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trace_bench.analysis.markup import Table
from trace_bench.analysis.render import aligned, framed, heading, told_once
from trace_bench.arguments import hint
from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.tables import emit_sentence, screen
from trace_bench.errors import ConfigError
from trace_bench.records.runs import find_run

FORMATS = ("table", "csv", "json", "md", "tex")


def results_command(
    run: str,
    runs_dir: Path,
    *,
    by: str,
    where: str | None,
    form: str,
    unprotected: bool,
    level: float,
    explain: bool = False,
) -> None:
    """Print the groups of the run that `run` means.

    Args:
        by, where: as of `trace_bench.analysis.parts`.
        form: one of `FORMATS`.
        unprotected: let unprotected jobs count.
        level: of intervals, between 0 and 1.
        explain: print all columns, the jobs that are in no mean, and the methods.

    Raises:
        ConfigError: there is no such run, key, format or job. HarnessError: a file of the run is damaged.
    """
    from trace_bench.analysis import group_tables, groups, kernels, markup
    from trace_bench.analysis.parts import parse_by, parse_where

    if form not in FORMATS:
        raise ConfigError(f"--format: there is no {printable(form)!r}{hint(form, FORMATS)}")
    columns = parse_by(by)
    chosen = parse_where(where) if where is not None else None
    layout = find_run(run, runs_dir)
    jobs = groups.jobs_of(layout)
    if not layout.manifest.exists():
        note(f"{printable(layout.run_id)}: its manifest is missing, so that jobs which have not ended are not known")
    if chosen is not None:
        whole, jobs = len(jobs), chosen.of(jobs)
        if whole and jobs.empty:
            raise ConfigError(f"--where {printable(chosen.text)}: none of the {whole} jobs of the run is meant")
    summary = groups.summarise_groups(jobs, columns, level=level, unprotected=unprotected, run_id=layout.run_id)
    _, counted, _ = groups.countable(jobs, unprotected=unprotected)
    speedups = kernels.speedups(jobs, counted, level=level)
    apart = kernels.impossible(jobs, counted)
    notes, methods = group_tables.notes(summary), group_tables.methods(summary)
    if form == "json":
        emit_json({
            "run_id": summary.run_id, "by": summary.by, "joined": summary.joined, "where": where,
            "level": summary.level, "averaged_over_tasks": summary.averaged, "unprotected": summary.unprotected,
            "groups": group_tables.records(summary), "notes": notes, "methods": methods,
            **({"kernels": kernels.records(speedups)} if speedups else {}),
            **({"kernels_impossible": apart} if apart else {}),
        })  # fmt: skip
        return
    if form == "csv":
        emit(group_tables.csv_text(summary).rstrip("\n"))
        return
    aside = group_tables.aside_table(summary) if explain else None
    tables = [group_tables.main_table(summary) if explain else group_tables.short_table(summary)]
    tables += [aside] if aside is not None else []
    tables += [kernels.table(speedups)] if speedups else []
    told = [*notes, *methods] if explain else [group_tables.caveats(summary)]
    told += [kernels.impossible_sentence(apart)] if apart else []
    if form == "md":
        _emit_parts([*map(markup.markdown, tables), "\n".join(f"* {markup.markdown_text(line)}" for line in told)])
    elif form == "tex":
        comments = "\n".join(f"% {line}" for line in told)
        _emit_parts(["% needs \\usepackage{booktabs,textcomp}", *map(markup.tex, tables), comments])
    elif not summary.groups:
        emit("no jobs")
    else:
        directions = [group.direction for group in summary.groups]
        for place, table in enumerate(tables):
            _emit_table(table, [None] * len(table.rows) if place else directions)
            emit()
        for line in told:
            emit_sentence(line)


def _emit_table(table: Table, directions: Sequence[Direction | None]) -> None:
    """In a pipe as it is; on a terminal by task, and what all groups share is said above."""
    from trace_bench.analysis.group_tables import ELASTIC, NUMERIC, SPARE

    at = screen()
    header: Sequence[str] = table.header
    rows: Sequence[Sequence[str]] = table.rows
    if at is None:
        emit(aligned(header, rows, NUMERIC).rstrip("\n"))
        return
    sections: list[str] = []
    if header[0] == "task":
        named = zip((row[0] for row in rows), directions, strict=True)
        sections = [heading(task, way, at) if way else at.strong(task) for task, way in named]
        header, rows = header[1:], [[cell.removesuffix(" ↑").removesuffix(" ↓") for cell in row[1:]] for row in rows]
    if "trainer" in header and len(rows) > 1:
        header, rows, said = told_once(header, rows, ("variant", "optimizer", "model"))
        for line in said:
            emit_sentence(line)
    intervals = [name for name in header if name.startswith(("improvement ", "validation "))]
    spare = [*intervals, *SPARE, *(name for name in header if name.startswith("held-out "))]
    if "held-out" not in header:
        spare = [name for name in spare if not name.startswith("validation")]
    text = framed(header, rows, NUMERIC, screen=at, elastic=ELASTIC, spare=spare, sections=sections)
    emit(text.rstrip("\n"))


def _emit_parts(parts: Sequence[str]) -> None:
    for place, part in enumerate(parts):
        if place:
            emit()
        emit(part)
