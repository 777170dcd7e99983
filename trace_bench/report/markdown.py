"""The report as Markdown for a repository: the same tables, no pictures. Equal files of a run give equal text."""

from __future__ import annotations

from collections.abc import Iterable

from trace_bench.display.markup import markdown as table_text
from trace_bench.display.markup import markdown_text
from trace_bench.display.table import Table
from trace_bench.report import outcome, tables
from trace_bench.report.content import Report
from trace_bench.report.matrix import matrices

BEGINNING = "<!-- trace-bench report -->"
"""The first line of every report of ours."""


def markdown(report: Report) -> str:
    """The whole text."""
    over = outcome.ranked(report)
    found = outcome.differences(report)
    parts = [BEGINNING, "# Trace-Bench: " + ", ".join(_text(source.name) for source in report.sources)]
    parts += [_text(outcome.sentence(report, over, found)), "## Leaderboard"]
    ranking = tables.overall(report, over)
    boards = [*([ranking] if ranking else []), *tables.leaderboards(report)]
    for table in boards:
        parts += _table(table)
    parts.append(
        "Of a task: means over seeds of jobs that are ok, ranked by the validation score, which flatters the states "
        "that it chose: quote held-out scores. Jobs that failed are in no mean."
        if boards
        else "Nothing yet."
    )
    for matrix in matrices(report):
        parts.append("Normalised held-out means over seeds: 0 is the template or a failure, 1 the reference or the "
                     "bound."
                     if matrix.normalised else
                     "Tasks without a normalised held-out score: the rank within the task, and the mean.")  # fmt: skip
        parts += _table(tables.matrix_table(matrix))
    parts += map(_text, report.remarks)
    if report.answers:
        parts += ["### Unusable answers", "\n".join(f"* {_text(sentence)}" for sentence in report.answers)]
    for heading, of_suite in tables.suite_sections(report).items():
        parts += [f"## {_text(heading)}", *(part for table in of_suite for part in _table(table))]
    parts += ["## Paired differences", *([_text(found)] if isinstance(found, str) else _table(found.table))]
    parts += ["## Cost", *_table(tables.costs(report))]
    failed, flagged = tables.failures(report)
    parts += [
        "## Failures",
        *(_table(failed) if failed.rows else ["No job failed." if len(report.jobs) else "Nothing yet."]),
    ]
    parts += _table(flagged) if flagged else []
    parts += ["## Provenance", *_table(tables.overview(report)), *_table(tables.what_ran(report))]
    parts += [f"**{_text(note)}**" for note in report.notes]
    parts += ["### Environment", *_table(tables.environment(report)), "### The audit's verdict"]
    for source in report.sources:
        where = f"{_text(source.name)}: " if report.several else ""
        parts.append(f"{where}{tables.verdict_sentence(source.audit)}."
                     + (f" Digest of the run: {source.audit.digest}." if source.audit else ""))  # fmt: skip
        parts += _table(tables.verdict(source.claims)) if source.claims else []
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> Iterable[str]:
    """A heading, if it has one, the table, and its notes."""
    table = table.first(tables.MOST_ROWS)
    if table.title:
        yield f"### {_text(table.title)}"
    if not table.rows:
        yield "Nothing yet."
    else:
        yield table_text(table)
    yield from (_text(note) for note in table.notes)


def _text(text: str) -> str:
    return markdown_text(text).strip() or " "
