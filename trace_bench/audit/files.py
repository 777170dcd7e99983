"""Checks every file of a run against the index and its schema, and searches it for secrets."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping

from pydantic import ValidationError

from trace_bench.artifacts import schema
from trace_bench.artifacts.derived import FilesIndex
from trace_bench.artifacts.jsonio import JsonError, explain, loads
from trace_bench.artifacts.layout import RunLayout, schema_of
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Folder, Unreadable, kind_of, parse_state
from trace_bench.audit.secrets import Scanner
from trace_bench.records.digest import run_digest

HASHES, LINKS, SCHEMAS, SECRETS, UNLISTED = (
    "files.hashes", "files.links", "files.schemas", "secrets.none", "files.unlisted"
)  # fmt: skip
MAX_HASHED = 64 << 30
"""Bytes of a file. A sparse file can claim more than a disk holds."""
_BLOCK = 1 << 20


class Inventory:
    """The check of all files of a run, one after another.

    Args:
        why_not: why the index does not match the files; empty if it must match.
    """

    def __init__(
        self, folder: Folder, layout: RunLayout, findings: Findings, environ: Mapping[str, str], why_not: str
    ) -> None:
        self._folder = folder
        self._findings = findings
        self._scanner = Scanner(environ)
        self._at_index = findings.in_file(layout.relative(layout.files_index))
        self._never_listed = {self._at_index.file, layout.relative(layout.cancel)}
        self._listed: dict[str, tuple[int, str, str | None]] = {}
        self._hashes: dict[str, str] = {}
        index = self._read_index()
        self._why_not = why_not or ("" if index is not None else "the run has no index")
        if self._why_not:
            for claim in (HASHES, UNLISTED):
                findings.unknown(claim, self._why_not)
        for entry in index.files if index is not None else ():
            if entry.path in self._listed:
                self._at_index.wrong(HASHES, entry.path, "listed twice", "listed once")
            self._listed[entry.path] = (entry.size, entry.sha256, entry.schema_name)

    def _read_index(self) -> FilesIndex | None:
        try:
            return self._folder.model(FilesIndex, self._at_index.file)
        except Unreadable as error:
            self._at_index.wrong(SCHEMAS, found=str(error), expected="files_index")
            return None

    def take(self, path: str, status: os.stat_result | None, *, is_read: bool = False) -> None:
        """Check one file, or what is in its place.

        Args:
            is_read: its schema was checked.
        """
        at = self._findings.in_file(path)
        listed = self._listed.pop(path, None)
        if status is None or not stat.S_ISREG(status.st_mode):
            at.check(False, LINKS, "", kind_of(status), "a file")
            return
        at.checked(LINKS)
        size, sha256 = self._hash(at, status)
        if path not in self._never_listed:
            self._hashes[path] = sha256 or ""
        if not self._why_not:
            self._compare(at, size, sha256, listed)
        if not is_read:
            self._check_schema(at)

    def finish(self) -> str:
        """Report the files that are listed and missing. Returns the digest of the run."""
        if not self._why_not:
            for path, (size, _, _) in self._listed.items():
                self._findings.in_file(path).wrong(HASHES, found=None, expected=f"{size} bytes")
        return run_digest(self._hashes)

    def _compare(self, at: Findings, size: int, sha256: str | None, listed: tuple[int, str, str | None] | None) -> None:
        at.checked(UNLISTED)
        if listed is None:
            if at.file not in self._never_listed:
                at.wrong(UNLISTED, found=f"{size} bytes")
        elif at.equal(HASHES, "size", size, listed[0]):
            at.equal(HASHES, "sha256", sha256, listed[1])
            name = schema_of(at.file)
            if listed[2] is not None or name is not None:
                self._at_index.equal(SCHEMAS, f"{at.file}: schema_name", listed[2], name)

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

    def _check_schema(self, at: Findings) -> None:
        name = schema_of(at.file)
        if name is None:
            return
        at.checked(SCHEMAS)
        key = ""
        try:
            if at.file.endswith(".jsonl"):
                for number, raw in enumerate(self._folder.lines(at.file), start=1):
                    key = f"line {number}"
                    _check_fits(name, raw)
                    key = ""
            elif (data := self._folder.data(at.file)) is not None:
                if at.file.endswith(".yaml"):
                    parse_state(data)
                else:
                    _check_fits(name, data)
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
