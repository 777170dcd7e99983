"""Show the trust in a job's scores, and the evidence of its attempts, for ``show RUN JOB``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trace_bench.artifacts.jsonio import dumps
from trace_bench.artifacts.outputs import StateKind
from trace_bench.artifacts.records import Attempt, IntegrityReport, JobMeta
from trace_bench.display.console import emit, emit_pairs, emit_table
from trace_bench.display.table import Table, number
from trace_bench.records.integrity import FLAGS, PAGE

SIGNS = 20
"""Signs of one state that are shown without ``--all``."""
_STATES: tuple[StateKind, ...] = ("initial", "best", "final")
_IN_TABLE = frozenset({"number", "started_at", "ended_at", "status", "failure", "sandbox_id"})
"""Of an attempt, what the table of attempts shows, or what is not needed. All else is evidence."""

Pairs = list[tuple[str, str]]


def print_integrity(meta: JobMeta, *, every: bool) -> None:
    """Flags with their meaning, claims against what was found, signs, tallies and the scorer's files; nothing where
    there is nothing to say.

    Args:
        every: show all signs, however many.
    """
    report = meta.integrity_report
    pairs = _pairs(meta)
    if pairs:
        emit()
        emit("integrity")
        emit_pairs(pairs, indent="  ")
    for title, header, cells, elastic in (
        ("what training claimed, and the scorer found", ("state", "claimed", "found", "over"), _claims(report), {}),
        ("signs in scored sources", ("state", "kind", "line", "text"), _signs(report, every=every), {"text": 16}),
        (
            "candidates",
            ("phase", "opened", "needs", "unswept", "over cpu", "cpu s"),
            _candidates(report),
            {},
        ),
    ):
        if cells:
            emit()
            emit(title)
            emit_table(Table.of(header, cells, shrink=elastic))


def print_evidence(meta: JobMeta) -> None:
    """Print the evidence of each attempt that failed: the message, and the reports of supervisor and engine."""
    pairs = [pair for attempt in meta.attempts for pair in _evidence(attempt)]
    if pairs:
        emit()
        emit("evidence")
        emit_pairs(pairs, indent="  ")


def _pairs(meta: JobMeta) -> Pairs:
    report = meta.integrity_report
    pairs = [(flag, FLAGS.get(flag, "a flag that this version does not know")) for flag in report.flags]
    if meta.integrity == "unprotected":
        pairs.append(("unprotected", "nothing kept a candidate from writing its own score"))
    if pairs:
        pairs.append(("read more", PAGE))
    files = report.scorer_files
    if files is not None:
        state = "unchanged while it scored" if files.unchanged else "CHANGED while it scored"
        pairs.append(("scorer files", f"{files.files}, {state}, sha256 {files.sha256}"))
    return pairs


def _claims(report: IntegrityReport) -> list[tuple[str, ...]]:
    claims = [(kind, report.claims[kind]) for kind in _STATES if kind in report.claims]
    return [
        (
            kind,
            *_apart(claim.score, report.found.get(kind)),
            f"{len(claim.examples)} of {claim.split}" + ("" if kind in report.found else ", which were not scored"),
        )
        for kind, claim in claims
    ]


def _apart(claimed: float, found: float | None) -> tuple[str, str]:
    """Both scores, with enough digits to differ where they do."""
    if found is not None and claimed != found and number(claimed) == number(found):
        return repr(claimed), repr(found)
    return number(claimed), number(found)


def _signs(report: IntegrityReport, *, every: bool) -> list[tuple[str, ...]]:
    cells: list[tuple[str, ...]] = []
    for kind in _STATES:
        signs = report.signs.get(kind, ())
        shown = signs if every else signs[:SIGNS]
        cells += [(kind, sign.kind, str(sign.line or "-"), sign.text) for sign in shown]
        if len(shown) < len(signs):
            cells.append((kind, "…", "-", f"{len(signs) - len(shown)} more; --all shows them"))
    return cells


def _candidates(report: IntegrityReport) -> list[tuple[str, ...]]:
    return [
        (
            phase,
            str(tally.opened),
            ", ".join(tally.needs) or "-",
            str(tally.unswept),
            str(tally.over_cpu),
            number(tally.cpu_seconds, 1),
        )
        for phase, tally in report.candidates.items()
    ]


def _evidence(attempt: Attempt) -> Iterator[tuple[str, str]]:
    """All evidence in the record of an attempt, so that the file need not be opened."""
    name = f"attempt {attempt.number}"
    if attempt.failure is not None:
        yield name, attempt.failure.message
        name = ""
    if attempt.status in ("ok", "running"):
        return
    rest = attempt.model_dump(mode="json", exclude=set(_IN_TABLE))
    for key, text in _flat(rest):
        key = key.removeprefix("evidence.")
        yield name, f"{key}: {text}"
        name = ""


def _flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Names and values of what `value` holds, what is empty left out."""
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{before}{key}.")
        elif item is None or item == "" or item == []:
            continue
        else:
            yield f"{before}{key}", item if isinstance(item, str) else dumps(item)
