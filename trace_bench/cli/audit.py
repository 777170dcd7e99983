"""``audit``: whether what a run claims holds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trace_bench.artifacts.audits import AuditReport, Claim, Evidence
from trace_bench.artifacts.jsonio import dumps, printable
from trace_bench.audit.verify import audit
from trace_bench.cli.output import emit, emit_json
from trace_bench.errors import ExitCode
from trace_bench.records.runs import find_run
from trace_bench.secrets import known, secrets_in

_LIMIT = 120


def audit_command(run: str, runs_dir: Path, *, expect: str | None, roots: Sequence[Path], as_json: bool) -> int:
    """Print the audit of a run; returns the exit code."""
    known.add(secrets_in(os.environ))
    report = audit(find_run(run, runs_dir), expect=expect, roots=roots)
    if as_json:
        emit_json(report.model_dump(mode="json"))
    else:
        _print(report)
    return ExitCode.OK if report.ok else ExitCode.CONTRADICTED


def _print(report: AuditReport) -> None:
    emit(f"run     {printable(report.run_id)}")
    emit(f"digest  {report.digest}")
    emit()
    wide = max(len(claim.claim) for claim in report.claims)
    for claim in report.claims:
        emit(f"{claim.verdict.ljust(12)}  {claim.claim.ljust(wide)}  {printable(claim.says, 400)}")
        for evidence in claim.evidence:
            emit(f"{' ' * 14}{_evidence(evidence)}")
        if claim.found > len(claim.evidence) > 0:
            emit(f"{' ' * 14}and {claim.found - len(claim.evidence)} more")
    emit()
    emit(_summary(report.claims))


def _evidence(evidence: Evidence) -> str:
    place = f"{evidence.file}: {evidence.key}" if evidence.key and evidence.file else evidence.file or evidence.key
    text = f"{printable(place, 300)} is {_shown(evidence.was)}"
    return text if evidence.due is None else f"{text}, should be {_shown(evidence.due)}"


def _shown(value: Any) -> str:
    if value is None:
        return "not there"
    return printable(value if isinstance(value, str) else dumps(value), _LIMIT)


def _summary(claims: tuple[Claim, ...]) -> str:
    count = {name: sum(claim.verdict == name for claim in claims) for name in ("verified", "unverifiable")}
    bad = len(claims) - sum(count.values())
    end = f"{bad} contradicted" if bad else "nothing is contradicted"
    return f"{count['verified']} claims verified, {count['unverifiable']} unverifiable, {end}"
