"""``results``: what the jobs of a run come to, by group."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from trace_bench.arguments import hint
from trace_bench.artifacts.contract import Direction
from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.tables import screen
from trace_bench.errors import ConfigError
from trace_bench.results.render import aligned, framed, heading, told_once
from trace_bench.results.runs import find_run

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
) -> None:
    """Print the groups of the run that `run` means.

    Args:
        by, where: as of `trace_bench.results.parts`.
        form: one of `FORMATS`.
        unprotected: let unprotected jobs count.
        level: of intervals, between 0 and 1.

    Raises:
        ConfigError: there is no such run, key, format or job. HarnessError: a file of the run is damaged.
    """
    from trace_bench.results import group_tables, groups, markup
    from trace_bench.results.parts import parse_by, parse_where

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
    main, aside = group_tables.main_table(summary), group_tables.aside_table(summary)
    told = [*group_tables.notes(summary), *group_tables.methods(summary)]
    if form == "json":
        emit_json({
            "run_id": summary.run_id, "by": summary.by, "joined": summary.joined, "where": where,
            "level": summary.level, "averaged_over_tasks": summary.averaged, "unprotected": summary.unprotected,
            "groups": group_tables.records(summary), "notes": group_tables.notes(summary),
            "methods": group_tables.methods(summary),
        })  # fmt: skip
    elif form == "csv":
        emit(group_tables.csv_text(summary).rstrip("\n"))
    elif form == "md":
        tables = [markup.markdown(table, group_tables.NUMERIC) for table in (main, aside) if table is not None]
        _emit_parts([*tables, "\n".join(f"* {markup.markdown_text(line)}" for line in told)])
    elif form == "tex":
        tables = [markup.tex(table, group_tables.NUMERIC) for table in (main, aside) if table is not None]
        _emit_parts(["% needs \\usepackage{booktabs,textcomp}", *tables, "\n".join(f"% {line}" for line in told)])
    elif not summary.groups:
        emit("no jobs")
    else:
        directions = [group.direction for group in summary.groups]
        _emit_table(main, directions)
        if aside is not None:
            emit()
            _emit_table(aside, [None] * len(aside[1]))
        emit()
        for line in told:
            for part in _folded(line):
                emit(part)


def _folded(line: str) -> list[str]:
    """A sentence below a table: on a terminal as wide as that, in a pipe whole."""
    at = screen()
    return [line] if at is None else textwrap.wrap(line, max(at.width, 20), subsequent_indent="  ")


def _emit_table(table: tuple[Sequence[str], Sequence[Sequence[str]]], directions: Sequence[Direction | None]) -> None:
    """In a pipe as it is; on a terminal by task, and what all groups share is said above."""
    from trace_bench.results.group_tables import ELASTIC, NUMERIC, SPARE

    at = screen()
    header, rows = table
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
            emit(line)
    kept = () if "mean" in header else ("normalised",)
    spare = [
        *(name for name in header if name.startswith("improvement ")),
        *(name for name in SPARE if name not in kept),
        *(name for name in header if name.startswith("held-out ")),
    ]
    text = framed(header, rows, NUMERIC, screen=at, elastic=ELASTIC, spare=spare, sections=sections)
    emit(text.rstrip("\n"))


def _emit_parts(parts: Sequence[str]) -> None:
    for place, part in enumerate(parts):
        if place:
            emit()
        emit(part)
