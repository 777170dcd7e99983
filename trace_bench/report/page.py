"""The report as one page: it loads nothing from a server, and no text of a run is markup or a program in it.

The page forbids itself all loading (its content security policy); plotly's program is inlined once. Texts of runs are
escaped where they are written as HTML, and the pictures' data stand in a block of JSON that cannot end early.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from trace_bench.analysis.frames import OUTCOMES
from trace_bench.display.markup import html_block, html_text
from trace_bench.display.table import Table, dollars, number
from trace_bench.report import charts, outcome, tables, trials
from trace_bench.report.content import Report
from trace_bench.report.drawing import Figure, Style
from trace_bench.report.lineage import FEEDBACK, Candidate, JobLineage, lineages
from trace_bench.report.matrix import MOST_ROWS, matrices, matrix_figure

MARK = '<meta name="generator" content="trace-bench report">'
"""In every page of ours, near its beginning."""
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
NOTHING = "Nothing yet."
_LONG = 44
_FIRST = 8
"""Tasks in the matrix that stands on the first screen where no mean over tasks does."""

Section = tuple[str, str, str]
"""Anchor, title, HTML."""


def page(report: Report) -> str:
    """The whole page."""
    drawn: list[Figure] = []
    style = Style(report.configurations)
    over = outcome.ranked(report)
    found = outcome.differences(report)
    head = _outcome(report, over, found, style, drawn)
    trees, said = lineages(report)
    sections: list[Section] = [
        ("leaderboard", "Leaderboard", _leaderboard(report, over, style, drawn)),
        *(
            (heading.lower(), heading, "".join(map(_table, found)))
            for heading, found in tables.suite_sections(report).items()
        ),
        ("differences", "Paired differences", _note(found) if isinstance(found, str) else _table(found.table)),
        ("curves", "Score against cost", _curves(report, style, drawn)),
        ("changes", "From start to best", _changes(report, trees, said, drawn)),
        ("distributions", "Distributions over seeds", _distributions(report, style, drawn)),
        ("trials", "Trials of agents", _trials(report)),
        ("pareto", "Pareto fronts", _pareto(report, style, drawn)),
        ("failures", "Failures", _failures(report)),
        ("provenance", "Provenance", _provenance(report)),
    ]
    sections = [section for section in sections if section[2]]
    title = "Trace-Bench: " + ", ".join(source.name for source in report.sources)
    menu = "".join(f'<a href="#{anchor}">{html_text(name)}</a>' for anchor, name, _ in sections)
    body = "".join(
        f'<section id="{anchor}"><h2>{html_text(name)}</h2>{html}</section>' for anchor, name, html in sections
    )
    specs = {figure.name: figure.as_json() for figure in drawn}
    scripts = "".join(f"<script>{text}</script>" for text in (_plotly() if drawn else "", _asset("page.js")))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n{MARK}\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{html_text(title)}</title>\n<style>{_asset('page.css')}</style></head>\n"
        f"<body><header><h1>{html_text(title)}</h1>{head}</header><nav>{menu}</nav>\n<main>{body}</main>\n"
        f'<script type="application/json" id="figures">{_embedded(specs)}</script>\n{scripts}\n</body></html>\n'
    )


def _trials(report: Report) -> str:
    """Every trial, and below it the steps of the agent in those that scores are of."""
    if not (found := trials.trials(report)):
        return ""
    steps = "".join(_folded(title, _table(table)) for title, table in trials.timelines(found))
    return _table(trials.table(found)) + steps


# ------------------------------------------------------------------------------------------------------- writing


def _embedded(value: Any) -> str:
    """JSON that stands in a page: nothing in it begins or ends an element, or a line of a program."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return files("trace_bench.report").joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def _table(table: Table, *, empty: str = NOTHING, head_column: bool = False) -> str:
    """A table that can be scrolled by itself, and sorted by a click on a column's head."""
    table = table.first(tables.MOST_ROWS)
    title = f"<h3>{html_text(table.title)}</h3>" if table.title else ""
    notes = "".join(_note(note) for note in table.notes)
    if not table.rows:
        return f"{title}<p class=empty>{html_text(empty)}</p>{notes}"
    numeric = [column.right for column in table.columns]
    head = "".join(
        f'<th scope="col"{_numeric(is_number)}><button type="button">{html_text(name)}</button></th>'
        for name, is_number in zip(table.header, numeric, strict=True)
    )
    rows = []
    for row in table.texts:
        cells = [
            f"<td{_class(cell, is_number)}>{html_text(cell)}</td>" for cell, is_number in zip(row, numeric, strict=True)
        ]
        if head_column:
            cells[0] = f'<th scope="row">{html_text(row[0])}</th>'
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'{title}<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{notes}"
    )


def _class(cell: str, is_number: bool) -> str:
    """A cell with a word that is too long for a column may be broken anywhere."""
    return _numeric(is_number) or (" class=long" if max(map(len, cell.split()), default=0) > _LONG else "")


def _numeric(is_number: bool) -> str:
    return " class=number" if is_number else ""


def _note(text: str) -> str:
    return f"<p class=note>{html_text(text)}</p>"


def _figure(figure: Figure, drawn: list[Figure]) -> str:
    drawn.append(figure)
    caption = f'data-figure="{html_text(figure.name)}" role="img" aria-label="{html_text(figure.label)}"'
    size = f"height:{figure.height}px;min-width:{figure.width}px"
    return f'<div class="scroll"><div class="figure" {caption} style="{size}"></div></div>'


def _folded(summary: str, html: str) -> str:
    return f"<details><summary>{html_text(summary)}</summary>{html}</details>"


def _diff(diffs: Mapping[str, Sequence[str]]) -> str:
    """What changed, by parameter: a line of the page for each line."""
    return "".join(
        f"<h4>{html_text(name)}</h4><pre class=diff>{''.join(map(_diff_line, lines))}</pre>"
        for name, lines in diffs.items()
    )


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "at"}.get(line[:1], "same")
    return f"<span class={kind}>{html_block(line)}</span>"


def _legend(report: Report, style: Style) -> str:
    """What colours, lines and marks stand for. In the page and not in the pictures, whose buttons it would cover."""
    items = "".join(
        f'<li><span style="color:{style.color(name)}" aria-hidden="true">{style.letters(name)}</span> '
        f"{html_text(name)}</li>"
        for name in report.configurations
    )
    return f"<ul class=legend>{items}</ul>"


# ------------------------------------------------------------------------------------------------------ sections


def _outcome(
    report: Report,
    over: Sequence[outcome.Overall],
    found: outcome.Differences | str,
    style: Style,
    drawn: list[Figure],
) -> str:
    """The first screen: one sentence, one picture, and the counts that are warnings."""
    jobs = report.jobs
    counts = jobs["outcome"].value_counts()
    html = f"<p class=outcome>{html_text(' '.join([outcome.sentence(report, over, found), *report.spending]))}</p>"
    figure = outcome.outcome_figure(report, over, style)
    if figure is None:
        figure = next((matrix_figure(one, report, style, "outcome") for one in matrices(report, _FIRST)), None)
    html += _figure(figure, drawn) if figure is not None else ""
    verdicts = sorted({tables.verdict_sentence(source.audit) for source in report.sources})
    facts = [
        f"{_number(len(jobs), 'job')}: " + ", ".join(f"{counts[name]} {name}" for name in OUTCOMES if counts.get(name)),
        _number(len(report.tasks), "task"),
        _number(len(report.configurations), "configuration"),
        f"{dollars(float(jobs['cost_usd'].sum()))} US dollars",
        f"audit: {'; '.join(verdicts)}",
    ]
    html += f"<p class=facts>{html_text(' · '.join(facts))}</p>" if len(jobs) else ""
    unprotected = int(((jobs["status"] != "skipped") & (jobs["integrity"] == "unprotected")).sum())
    if any(claim.verdict == "contradicted" for source in report.sources for claim in source.claims):
        html += '<p class="warning">The audit contradicts a claim of this report: see its verdict.</p>'
    if unprotected:
        shown_too = bool((report.counted["integrity"] == "unprotected").any())
        caption = "no job is protected, so they are shown" if shown_too else "they are left out of every score"
        html += (
            f'<p class="warning">{unprotected} of {len(jobs)} jobs are unprotected: a candidate could have written its '
            f"own score; {caption}.</p>"
        )
    return html


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _leaderboard(report: Report, over: Sequence[outcome.Overall], style: Style, drawn: list[Figure]) -> str:
    table = tables.overall(report, over)
    html = _table(table) if table is not None else ""
    for place, matrix in enumerate(matrices(report)):
        if place == 0 and not over and len(matrix.tasks) <= _FIRST:
            continue  # it is on the first screen
        caption = (
            "Colour and number: mean over seeds of the normalised held-out score: the gap, from the template (0) to "
            "the reference (1), where the task has one; else from a failure (0) to the bound or target (1)."
            if matrix.normalised
            else "Tasks without a normalised held-out score: colour is the rank within the task, the number the mean "
            "in its own units."
        )
        caption += (
            " Beside it a dot for each seed, configurations from top to bottom as the columns from left to right."
        )
        html += "<h3>By task</h3>" + _figure(matrix_figure(matrix, report, style), drawn) + _note(caption)
        if matrix.left_out:
            html += _note(f"{matrix.left_out} configurations were left out.")
    if len(report.tasks) > MOST_ROWS:
        html += _note(f"A matrix shows {MOST_ROWS} tasks at most; the tables have them all.")
    by_task = "".join(_table(table) for table in tables.leaderboards(report))
    if by_task:
        caption = (
            "Means over seeds of jobs that are ok, ranked by the validation score, which flatters the states that it "
            "chose: quote held-out scores. Jobs that failed are in no mean; 3/5 says that three of five seeds count."
        )
        html += _folded("each task in its own units", by_task + _note(caption))
    html = html or _note(NOTHING)
    html += "".join(map(_note, report.remarks))
    if report.answers:
        html += f"<h3>Unusable answers</h3><p class=note>{'<br>'.join(map(html_text, report.answers))}</p>"
    return html


def _by_task(report: Report, draw: Callable[[int, str], Figure | None], drawn: list[Figure]) -> str:
    html = ""
    for place, task in enumerate(report.tasks[: charts.MOST_TASKS]):
        figure = draw(place, task)
        if figure is not None:
            html += f"<h3>{html_text(task)}</h3>{_figure(figure, drawn)}"
    if html and len(report.tasks) > charts.MOST_TASKS:
        html += _note(f"{len(report.tasks) - charts.MOST_TASKS} more tasks were left out.")
    return html


def _curves(report: Report, style: Style, drawn: list[Figure]) -> str:
    html = _by_task(report, lambda place, task: charts.curve_figure(place, task, report, style), drawn)
    figure = charts.cost_figure(report, style)
    if html:
        caption = (
            "The best score so far as training saw it (no official score), natural units: median and quartiles over "
            "seeds. A search keeps its best score after its end, which is what its job spent in all. Curves begin "
            "where every seed has a score."
        )
        html = _legend(report, style) + _note(caption) + html
    if figure is not None:
        html += "<h3>What a job cost</h3>" + _figure(figure, drawn)
    costs = tables.costs(report)
    if costs.rows:
        caption = _note("Sums over all jobs that ran, whatever their outcome.")
        html += _folded("what was spent, by task and configuration", _table(costs) + caption)
    return html or _note(NOTHING)


def _distributions(report: Report, style: Style, drawn: list[Figure]) -> str:
    html = _by_task(report, lambda place, task: charts.distribution_figure(place, task, report, style), drawn)
    return _note("Official scores of the best state, one dot a seed, natural units.") + html if html else _note(NOTHING)


def _pareto(report: Report, style: Style, drawn: list[Figure]) -> str:
    """Empty where no search had several objectives."""
    html = _by_task(report, lambda place, task: charts.pareto_figure(place, task, report, style), drawn)
    caption = (
        "States that no other one of their search dominates, as training saw them. A line joins the front of the "
        "configuration's job with the largest hypervolume; other seeds are pale."
    )
    return _legend(report, style) + _note(caption) + html if html else ""


def _changes(report: Report, jobs: Sequence[JobLineage], said: Sequence[str], drawn: list[Figure]) -> str:
    """What the best states changed in the initial ones, and by which candidates the searches came there."""
    if not jobs:
        return _note("No search made a candidate." if len(report.jobs) else NOTHING)
    html = ""
    for place, job in enumerate(jobs):
        title = f"{job.task}: {job.configuration}, seed {job.seed}: {number(job.start)} → {number(job.score)}"
        body = _diff(job.change) or "<p>The best state is the initial one.</p>"
        opened = " open" if place == 0 else ""
        html += f"<details class=change{opened}><summary>{html_text(title)}</summary>{body}</details>"
    names = {job.key: f"{job.task} — {job.configuration}, seed {job.seed}: {number(job.score)}" for job in jobs}
    options = "".join(f'<option value="{html_text(key)}">{html_text(name)}</option>' for key, name in names.items())
    html += (
        f'<h3>Lineage of candidates</h3><label for="choose-job">Job </label><select id="choose-job">{options}</select>'
    )
    html += _note(
        "Right is later, colour is the score; the star is the best, an open circle was judged on a part of the "
        "examples. A click on a candidate opens what it changed in its parent."
    )
    for place, job in enumerate(jobs):
        html += _job(job, report, drawn, hidden=place > 0)
    return html + "".join(_note(text) for text in said)


def _job(job: JobLineage, report: Report, drawn: list[Figure], *, hidden: bool) -> str:
    items = "".join(_candidate(job, place, node) for place, node in enumerate(job.candidates))
    more = _note(f"{job.left_out} more candidates were left out.") if job.left_out else ""
    head = (
        f"<h4>{html_text(job.task)}: {html_text(job.configuration)}, seed {job.seed}, job {html_text(job.job_id)}</h4>"
    )
    return (
        f'<article class="job" data-job="{html_text(job.key)}"{" hidden" if hidden else ""}>{head}'
        f"{_figure(charts.tree_figure(job, report), drawn)}{items}{more}</article>"
    )


def _candidate(job: JobLineage, place: int, node: Candidate) -> str:
    marks = ["best"] if place == job.best else []
    marks += {True: ["accepted"], False: ["rejected"], None: []}[node.accepted]
    origin = f"from {node.parent_name}" if node.parent is not None else "no parent here"
    caption = f"{node.name} · step {node.step} · {origin} · {number(node.score)}" + "".join(
        f" · {mark}" for mark in marks
    )
    facts = [f"Also from {', '.join(node.others)}." if node.others else "", node.reason, node.feedback]
    body = "".join(f"<p>{html_text(text, FEEDBACK)}</p>" for text in facts if text)
    body += _diff(node.diffs)
    if not node.diffs and not node.cut:
        body += "<p>It is equal to its parent.</p>"
    if node.cut:
        body += _note("Cut: there is more of it in state_history.jsonl.")
    anchor = html_text(f"c-{job.key}-{place}")
    return f'<details class="candidate" id="{anchor}"><summary>{html_text(caption, FEEDBACK)}</summary>{body}</details>'


def _failures(report: Report) -> str:
    failed, flagged = tables.failures(report)
    caption = "No job failed." if len(report.jobs) else NOTHING
    html = _table(failed, empty=caption)
    return html + (_table(flagged) if flagged else "")


def _provenance(report: Report) -> str:
    """What was run, where, and what an audit found."""
    html = "<h3>What ran</h3>" + _table(tables.overview(report)) + _table(tables.what_ran(report), head_column=True)
    for source in report.sources:
        if source.config:
            html += _folded(f"config of {source.name}, resolved", f"<pre>{html_block(source.config)}</pre>")
    html += "".join(f'<p class="warning">{html_text(note)}</p>' for note in report.notes)
    html += "<h3>Environment</h3>" + _table(tables.environment(report), head_column=True)
    for source in report.sources:
        html += f"<h3>The audit's verdict{f' on {html_text(source.name)}' if report.several else ''}</h3>"
        if source.audit is None:
            html += _note(f"Not audited when the page was made; trace-bench audit {source.name} does that.")
        else:
            html += _note(f"{tables.verdict_sentence(source.audit)}. Digest of the run: {source.audit.digest}.")
            html += _table(tables.verdict(source.claims))
    return html
