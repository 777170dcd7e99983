"""Checks every file of a run against the index and its schema, and searches it for secrets."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping

from pydantic import ValidationError

from trace_bench.artifacts import schema
from trace_bench.artifacts.derived import FileEntry, FilesIndex
from trace_bench.artifacts.jsonio import JsonError, explain, loads
from trace_bench.artifacts.layout import schema_of
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Unreadable, kind_of, parse_state
from trace_bench.audit.run import AuditedRun
from trace_bench.audit.secrets import Scanner
from trace_bench.records.digest import run_digest

HASHES, LINKS, SCHEMAS, SECRETS, UNLISTED = (
    "files.hashes", "files.links", "files.schemas", "secrets.none", "files.unlisted"
)  # fmt: skip
MAX_HASHED = 64 << 30
"""Bytes of a file. A sparse file can claim more than a disk holds."""
_BLOCK = 1 << 20


class Inventory:
    """The check of all files of a run, one after another."""

    def __init__(self, run: AuditedRun, environ: Mapping[str, str]) -> None:
        self._folder = run.folder
        self._findings = run.findings
        self._scanner = Scanner(environ)
        self._at_index = run.at(run.layout.files_index)
        self._never_listed = {self._at_index.file, run.path(run.layout.cancel)}
        self._listed: dict[str, FileEntry] = {}
        self._hashes: dict[str, str] = {}
        index = None
        try:
            index = run.folder.model(FilesIndex, self._at_index.file)
        except Unreadable as error:
            self._at_index.wrong(SCHEMAS, found=str(error), expected="files_index")
        self._why_not = run.why_unfinished or ("" if index is not None else "the run has no index")
        for claim in (HASHES, UNLISTED) if self._why_not else ():
            self._findings.unknown(claim, self._why_not)
        for entry in index.files if index is not None else ():
            if entry.path in self._listed:
                self._at_index.wrong(HASHES, entry.path, "listed twice", "listed once")
            self._listed[entry.path] = entry

    def take(self, path: str, status: os.stat_result | None, *, is_read: bool = False) -> None:
        """Check one file, or what is in its place.

        Args:
            is_read: its schema was checked.
        """
        at, listed = self._findings.in_file(path), self._listed.pop(path, None)
        is_file = status is not None and stat.S_ISREG(status.st_mode)
        if not at.check(is_file, LINKS, "", kind_of(status), "a file") or status is None:
            return
        size, sha256 = self._hash(at, status)
        if path not in self._never_listed:
            self._hashes[path] = sha256 or ""
        if not self._why_not:
            at.checked(UNLISTED)
            if listed is None and path not in self._never_listed:
                at.wrong(UNLISTED, found=f"{size} bytes")
            elif listed is not None and at.equal(HASHES, "size", size, listed.size):
                at.equal(HASHES, "sha256", sha256, listed.sha256)
                self._at_index.equal(SCHEMAS, f"{path}: schema_name", listed.schema_name, schema_of(path))
        name = schema_of(path)
        if name is not None and not is_read:
            self._check_schema(at, name)

    def finish(self) -> str:
        """Report the files that are listed and missing. Returns the digest of the run."""
        for path, entry in self._listed.items() if not self._why_not else ():
            self._findings.in_file(path).wrong(HASHES, found=None, expected=f"{entry.size} bytes")
        return run_digest(self._hashes)

    def _hash(self, at: Findings, status: os.stat_result) -> tuple[int, str | None]:
        """Size and SHA-256. The bytes are searched for secrets on the way."""
        if status.st_size > MAX_HASHED:
            at.wrong(LINKS, found=f"{status.st_size} bytes", expected=f"at most {MAX_HASHED}")
            return status.st_size, None
        digest, size = hashlib.sha256(), 0
        self._scanner.begin()
        at.checked(SECRETS)
        try:
            file = self._folder.open(at.file)
            if file is None:
                raise Unreadable("it was removed")
            with file:
                while block := file.read(_BLOCK):
                    digest.update(block)
                    size += len(block)
                    for place, kind, beginning in self._scanner.feed(block):
                        at.wrong(SECRETS, f"byte {place}", f"{beginning} ({kind})")
        except (Unreadable, OSError) as error:
            at.wrong(LINKS, found=str(error), expected="a file that can be read")
            return status.st_size, None
        return size, digest.hexdigest()

    def _check_schema(self, at: Findings, name: str) -> None:
        at.checked(SCHEMAS)
        key = ""
        try:
            if at.file.endswith(".jsonl"):
                for number, raw in enumerate(self._folder.lines(at.file), start=1):
                    key = f"line {number}"
                    _check_fits(name, raw)
                    key = ""
            elif at.file.endswith(".yaml"):
                parse_state(self._folder.data(at.file) or b"")
            else:
                _check_fits(name, self._folder.data(at.file) or b"")
        except ValueError as error:
            at.wrong(SCHEMAS, key, str(error), name)


def _check_fits(name: str, data: bytes) -> None:
    """Raise Unreadable if `data` does not fit the schema `name`."""
    try:
        loads(data)
        schema.adapter(name).validate_json(data, strict=True)
    except ValidationError as error:
        raise Unreadable(explain(error)) from None
    except (JsonError, RecursionError) as error:
        raise Unreadable(str(error)) from None
