"""Checks ``services.jsonl``: the requests of a job to services of the host, and the model calls of these services."""

from __future__ import annotations

import hashlib
from functools import partial

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.calls import ServiceRecord
from trace_bench.audit.cassette import Calls
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Folder, JsonLines, parse_model

CLAIM = "derivation.services"


def check_services(folder: Folder, at: Findings, calls: Calls) -> bool:
    """Check the file line by line; False if it does not exist."""
    if folder.size(at.file) is None:
        return False
    lines: list[ServiceRecord] = []
    parse = partial(parse_model, ServiceRecord)
    for number, line in JsonLines(folder, at, parse, schema="service_call", claim="files.schemas"):
        key = f"line {number}"
        at.equal(CLAIM, f"{key}: n", line.n, number)
        if line.request:
            expected = hashlib.sha256(jsonio.canonical([line.service, line.request])).hexdigest()
            at.equal(CLAIM, f"{key}: request_hash", line.request_hash, expected)
        if line.reused_from is not None:
            _check_reused(line, lines, at, key)
        elif line.usage and calls.whole:
            made = calls.of_services.get((line.attempt, f"{line.request_id}-{line.service}"), (0, 0, 0))
            for name, value in zip(("llm_calls", "prompt_tokens", "completion_tokens"), made, strict=True):
                at.equal(CLAIM, f"{key}: usage.{name}", line.usage.get(name), value)
        lines.append(line)
    return True


def _check_reused(line: ServiceRecord, earlier: list[ServiceRecord], at: Findings, key: str) -> None:
    source = earlier[line.reused_from - 1] if line.reused_from and line.reused_from <= len(earlier) else None
    if source is None or source.request_hash != line.request_hash or source.phase != line.phase:
        at.wrong(CLAIM, f"{key}: reused_from", line.reused_from, "a line with the same request and phase")
    elif source.answer != line.answer:
        at.wrong(CLAIM, f"{key}: answer", "another answer", f"that of line {source.n}")
