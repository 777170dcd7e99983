"""``audit``: checks whether what a run claims holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from trace_bench.cli.options import RUNS, Json, Roots, RunArgument, RunsDir
from trace_bench.display.console import emit, emit_json
from trace_bench.display.text import quoted
from trace_bench.errors import ExitCode

if TYPE_CHECKING:
    from trace_bench.artifacts.audits import AuditReport, Claim, Evidence


def audit(
    run: RunArgument,
    runs_dir: RunsDir = RUNS,
    expect: Annotated[
        str | None, Option("--expect", metavar="DIGEST", help="Expect the digest that the author published.")
    ] = None,
    root: Roots = None,
    as_json: Json = False,
) -> int:
    """Check every claim of a run against its files.

    Example: trace-bench audit latest --json
    """
    from trace_bench.audit import verify
    from trace_bench.records.runs import find_run

    report = verify.audit(find_run(run, runs_dir), expect=expect, roots=root or ())
    if as_json:
        emit_json(report.model_dump(mode="json"))
    else:
        _print(report)
    return int(ExitCode.OK if report.ok else ExitCode.CONTRADICTED)


def _print(report: AuditReport) -> None:
    emit(f"run     {report.run_id}")
    emit(f"digest  {report.digest}")
    emit()
    wide = max(len(claim.claim) for claim in report.claims)
    for claim in report.claims:
        emit(f"{claim.verdict.ljust(12)}  {claim.claim.ljust(wide)}  {claim.says}")
        for evidence in claim.evidence:
            emit(f"{' ' * 14}{_sentence(evidence)}")
        if claim.found > len(claim.evidence) > 0:
            emit(f"{' ' * 14}and {claim.found - len(claim.evidence)} more")
    emit()
    emit(_summary(report.claims))


def _sentence(evidence: Evidence) -> str:
    place = f"{evidence.file}: {evidence.key}" if evidence.key and evidence.file else evidence.file or evidence.key
    text = f"{place} is {_text(evidence.was)}"
    return text if evidence.due is None else f"{text}, should be {_text(evidence.due)}"


def _text(value: Any) -> str:
    if value is None:
        return "not there"
    return quoted(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _summary(claims: Sequence[Claim]) -> str:
    count = {name: sum(claim.verdict == name for claim in claims) for name in ("verified", "unverifiable")}
    bad = len(claims) - sum(count.values())
    end = f"{bad} contradicted" if bad else "nothing is contradicted"
    return f"{count['verified']} claims verified, {count['unverifiable']} unverifiable, {end}"
