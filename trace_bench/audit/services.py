"""Checks ``services.jsonl``: what a job asked services of the host, and the model calls that they made for it."""

from __future__ import annotations

import hashlib

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.records import ServiceRecord
from trace_bench.audit.cassette import Calls
from trace_bench.audit.claims import Book
from trace_bench.audit.reading import Folder, Unreadable, parsed

CLAIM = "derivation.services"


def check_services(folder: Folder, path: str, calls: Calls, book: Book) -> bool:
    """Check the file line by line; False if the job has none."""
    if folder.size(path) is None:
        return False
    known: list[ServiceRecord] = []
    try:
        for number, raw in enumerate(folder.lines(path), start=1):
            key = f"line {number}"
            line = parsed(ServiceRecord, raw)
            book.equal(CLAIM, path, f"{key}: n", line.n, number)
            if line.request:
                due = hashlib.sha256(jsonio.canonical([line.service, line.request])).hexdigest()
                book.equal(CLAIM, path, f"{key}: request_hash", line.request_hash, due)
            if line.reused_from is not None:
                _check_reused(line, known, path, key, book)
            elif line.usage and calls.whole:
                asked = calls.of_services.get((line.attempt, f"{line.request_id}-{line.service}"), (0, 0, 0))
                names = ("llm_calls", "prompt_tokens", "completion_tokens")
                for name, value in zip(names, asked, strict=True):
                    book.equal(CLAIM, path, f"{key}: usage.{name}", line.usage.get(name), value)
            known.append(line)
    except Unreadable as error:
        book.wrong("files.schemas", path, f"line {len(known) + 1}", str(error), "service_call")
    return True


def _check_reused(line: ServiceRecord, known: list[ServiceRecord], path: str, key: str, book: Book) -> None:
    source = known[line.reused_from - 1] if line.reused_from and line.reused_from <= len(known) else None
    if source is None or source.request_hash != line.request_hash or source.phase != line.phase:
        book.wrong(CLAIM, path, f"{key}: reused_from", line.reused_from, "a line with the same request and phase")
    elif source.answer != line.answer:
        book.wrong(CLAIM, path, f"{key}: answer", "another answer", f"that of line {source.n}")
