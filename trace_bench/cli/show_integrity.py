"""Show the trust in a job's scores, and the evidence of its attempts, for ``show RUN JOB``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trace_bench.artifacts.jsonio import dumps
from trace_bench.artifacts.outputs import StateKind
from trace_bench.artifacts.records import Attempt, IntegrityReport, JobMeta
from trace_bench.display.console import emit_block, emit_pairs, emit_table
from trace_bench.display.table import Table, number
from trace_bench.records.integrity import FLAGS, PAGE

SIGNS = 20
"""Signs of one state that are shown without ``--all``."""
_STATES: tuple[StateKind, ...] = ("initial", "best", "final")
_IN_TABLE = frozenset({"number", "started_at", "ended_at", "status", "failure", "sandbox_id"})
"""Fields of an attempt that are in the table of attempts, or are not needed. All others are evidence."""

Pairs = Sequence[tuple[str, str | Sequence[str]]]


def print_integrity(meta: JobMeta, *, every: bool) -> None:
    """Print flags with their meaning, claims of training beside the scorer's findings, signs, tallies of candidates and
    the scorer's files, as far as there are any.

    Args:
        every: print all signs, however many.
    """
    report = meta.integrity_report
    _print_pairs("integrity", _pairs(meta))
    for title, header, cells, elastic in (
        ("claims of training, and the scorer's findings", ("state", "claimed", "found", "over"), _claims(report), {}),
        ("signs in scored sources", ("state", "kind", "line", "text"), _signs(report, every=every), {"text": 16}),
        (
            "candidates",
            ("phase", "opened", "needs", "unswept", "over cpu", "cpu s"),
            _candidates(report),
            {},
        ),
    ):
        if cells:
            emit_block(f"\n{title}")
            emit_table(Table.of(header, cells, shrink=elastic))


def print_evidence(meta: JobMeta) -> None:
    """Print the evidence of each attempt that failed: the message, and the reports of supervisor and engine."""
    pairs = [(f"attempt {attempt.number}", texts) for attempt in meta.attempts if (texts := [*_evidence(attempt)])]
    _print_pairs("evidence", pairs)


def _print_pairs(title: str, pairs: Pairs) -> None:
    if pairs:
        emit_block(f"\n{title}")
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
        first = signs if every else signs[:SIGNS]
        cells += [(kind, sign.kind, str(sign.line or "-"), sign.text) for sign in first]
        if len(first) < len(signs):
            cells.append((kind, "…", "-", f"{len(signs) - len(first)} more; --all shows them"))
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


def _evidence(attempt: Attempt) -> Iterator[str]:
    """The texts of the evidence in the record of an attempt."""
    if attempt.failure is not None:
        yield attempt.failure.message
    if attempt.status not in ("ok", "running"):
        for key, text in _flat(attempt.model_dump(mode="json", exclude=set(_IN_TABLE))):
            yield f"{key.removeprefix('evidence.')}: {text}"


def _flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Names and values below `value`, without empty ones."""
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _flat(item, f"{before}{key}.")
        elif item is None or item == "" or item == []:
            continue
        else:
            yield f"{before}{key}", item if isinstance(item, str) else dumps(item)
