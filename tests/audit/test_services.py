"""What an audit makes of the record of services."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.artifacts.samples import SERVICE_CALL
from trace_bench.artifacts import jsonio
from trace_bench.audit.cassette import SERVICES, Calls, check_services
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Folder

REQUEST = {"prompt": "p"}
HONEST = {
    **SERVICE_CALL,
    "request": REQUEST,
    "request_hash": hashlib.sha256(jsonio.canonical(["harbor", REQUEST])).hexdigest(),
    "usage": {"llm_calls": 2, "prompt_tokens": 30, "completion_tokens": 4},
}
AGAIN = {**HONEST, "n": 2, "attempt": 2, "request": {}, "usage": {}, "reused_from": 1}
CALLS = Calls(of_services={(1, "train-1-harbor"): (2, 30, 4)})


def checked(folder: Path, *lines: dict[str, Any]) -> Findings:
    (folder / "services.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    findings = Findings("services.jsonl")
    with Folder(folder) as files:
        check_services(files, findings, CALLS)
    return findings


def contradicted(findings: Findings) -> set[str]:
    return {claim.claim for claim in findings.claims() if claim.verdict == "contradicted"}


def test_an_honest_record_is_verified(tmp_path: Path) -> None:
    assert SERVICES not in contradicted(checked(tmp_path, HONEST, AGAIN))


@pytest.mark.parametrize(
    "lines",
    [
        [{**HONEST, "n": 2}],
        [{**HONEST, "request": {"prompt": "another"}}],
        [{**HONEST, "usage": {"llm_calls": 1, "prompt_tokens": 30, "completion_tokens": 4}}],
        [{**HONEST, "request_id": "train-9"}],
        [HONEST, {**AGAIN, "answer": {"rewards": {"reward": 0.0}}}],
        [HONEST, {**AGAIN, "phase": "score"}],
        [HONEST, {**AGAIN, "reused_from": 7}],
    ],
    ids=["number", "request", "usage", "no such calls", "another answer", "another phase", "no such line"],
)
def test_a_record_that_was_changed_is_contradicted(lines: list[dict[str, Any]], tmp_path: Path) -> None:
    assert SERVICES in contradicted(checked(tmp_path, *lines))


def test_a_line_that_is_none_breaks_the_schema(tmp_path: Path) -> None:
    assert "files.schemas" in contradicted(checked(tmp_path, {"n": 1}))
