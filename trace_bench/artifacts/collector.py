"""Takes in what a sandbox hands back. It is hostile until it has been through here.

`collect` reads the archive of the volume as a stream, under limits, into a temporary folder beside its place;
checks every file of the job contract against its model; and only then moves the folder into place, in one
step. Secrets that this process knows are masked on the way. A violation is a `CollectError` with one sentence, and what
was read so far is kept under ``evidence/``. See ``docs/design/collector.md``.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from trace_bench.artifacts import layout
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.names import Names
from trace_bench.artifacts.outputs import Event, HistoryLine, States, WorkerResult
from trace_bench.artifacts.tarstream import Source, entries
from trace_bench.artifacts.writers import is_torn, sync_tree, write_bytes, write_json
from trace_bench.errors import BrokenArchive, CollectError, EnvironmentUnavailable, HarnessError, TraceBenchError
from trace_bench.secrets import known

M = TypeVar("M", bound=BaseModel)
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A text of JSON. One without an end takes the rest, so that it is not searched again."""
ROOT = "out"
"""The folder that all entries of an archive lie in. It is named by the engine: nothing in a sandbox can replace it."""


@dataclass(frozen=True)
class CollectLimits:
    """Limits on the volume of a sandbox; all sizes in bytes."""

    total_bytes: int = 512 << 20
    """Of the whole stream, headers and padding included."""
    file_bytes: int = 128 << 20
    files: int = 10_000
    """Files and folders."""
    depth: int = 12
    """Folders above a file, counted from the volume."""
    name_bytes: int = 255
    path_bytes: int = 1024
    json_bytes: int = 32 << 20
    """Of ``result.json`` and ``states.json`` each."""
    json_values: int = 1_000_000
    """In each of them; parsed, a value takes some hundred bytes."""
    line_bytes: int = 4 << 20
    lines: int = 1_000_000
    """Of each ``.jsonl``."""
    seconds: float = 600.0
    evidence_bytes: int = 16 << 20


@dataclass(frozen=True)
class Collected:
    """The checked files of a sandbox's volume.

    Attributes:
        root: the folder that holds it.
        files: path relative to `root`, with slashes, to size in bytes.
        result: None if the sandbox ended before it wrote one.
        states: likewise.
        events: number of lines of ``events.jsonl``; each of them fits its schema.
        history: the same for ``state_history.jsonl``.
        torn: unfinished last lines that were cut off (a killed sandbox leaves them).
        ignored: unfinished files at the top that were passed over.
        stream_bytes: length of the archive.
    """

    root: Path
    files: Mapping[str, int]
    result: WorkerResult | None
    states: States | None
    events: int
    history: int
    torn: int
    ignored: tuple[str, ...]
    stream_bytes: int
    seconds: float


def collect(chunks: Iterator[bytes], dest: Path, limits: CollectLimits | None = None) -> Collected:
    """Collect the archive `chunks` of a sandbox's ``/out`` into `dest`.

    Args:
        chunks: a tar whose entries all begin with ``out``, as the engine's archive call gives it.
        dest: must not exist; its parent is created.

    Raises:
        CollectError: a limit, a forbidden entry, or a schema is violated.
        BrokenArchive: the stream broke, or is no archive that an engine writes.
        EnvironmentUnavailable: this machine's disk is full.
        HarnessError: `dest` exists.
    """
    limits = limits or CollectLimits()
    if dest.exists():
        raise HarnessError(f"{dest} exists already; every attempt is collected into a folder of its own")
    dest.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    source = Source(iter(chunks), limits.total_bytes, limits.seconds)
    work = Path(tempfile.mkdtemp(prefix=f".{dest.name}.collecting-", dir=dest.parent))
    intake = _Intake(work / "files", limits)
    try:
        try:
            intake.take(source)
            collected = _check(intake, limits, source, dest, started)
            sync_tree(intake.root)  # what has its place is whole, after a power cut too
            intake.root.rename(dest)
            return collected
        except OSError as error:
            if isinstance(error, TraceBenchError):  # the backend's own, which may be a ConnectionError too
                raise
            raise _translate(error, dest) from error
    except CollectError as error:
        kept = _keep_evidence(intake, source, dest.parent, str(error))
        raise type(error)(f"{error}. What was read is kept in {kept}.") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


@dataclass
class _Intake:
    """Writes entries below `root`, whose parent no other user can enter. Files and folders have the modes of the
    user's umask."""

    root: Path
    limits: CollectLimits
    files: dict[str, int] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    _folders: set[tuple[str, ...]] = field(default_factory=set)
    _count: int = 0

    def __post_init__(self) -> None:
        self._names = Names(self.limits.path_bytes, self.limits.name_bytes)

    def take(self, source: Source) -> None:
        self.root.mkdir()
        for entry in entries(source, root=ROOT):
            self._count += 1
            if self._count > self.limits.files:
                raise CollectError(f"the archive holds more than {self.limits.files} files and folders")
            parts = self._parts(entry.name, entry.kind == "folder")
            if entry.kind == "folder":
                if parts in self._folders:
                    raise (CollectError if parts else BrokenArchive)(f"the folder {entry.name} occurs twice")
                if parts:
                    self._admit(parts, is_folder=True)
                    self._names.claim(parts)
                    self._make_folders(parts)
                self._folders.add(parts)
                continue
            if entry.size > self.limits.file_bytes:
                raise CollectError(f"{entry.name} has {entry.size} bytes; {self.limits.file_bytes} is the limit")
            self._take_file(parts, entry.size, source)

    def _parts(self, name: str, is_folder: bool) -> tuple[str, ...]:
        """The components of a name below ``out``, after every check on names."""
        parts = self._names.parts(name, is_folder)
        if parts[0] != ROOT:
            raise BrokenArchive(f"the name {name} does not lie in the volume '{ROOT}'")
        below = parts[1:]
        if len(below) - 1 > self.limits.depth:
            raise CollectError(f"{name} lies deeper than {self.limits.depth} folders")
        if not is_folder and not below:
            raise BrokenArchive(f"the volume '{ROOT}' is a file")
        return below

    def _admit(self, parts: tuple[str, ...], is_folder: bool) -> None:
        """Refuse what the job contract does not name."""
        top, alone = parts[0], len(parts) == 1
        if top == layout.EXTRA and (is_folder or not alone):
            return
        if alone and not is_folder and (top in layout.OUT_FILES or layout.is_unfinished(top)):
            return
        kind = "folder" if is_folder else "file"
        raise CollectError(f"{'/'.join(parts)} is no {kind} of the job contract")

    def _make_folders(self, parts: tuple[str, ...]) -> None:
        for end in range(1, len(parts) + 1):
            folder = self.root.joinpath(*parts[:end])
            if "/".join(parts[:end]) in self.files:
                raise CollectError(f"{'/'.join(parts[:end])} is a file and a folder")
            if not folder.is_dir():
                folder.mkdir()

    def _take_file(self, parts: tuple[str, ...], size: int, source: Source) -> None:
        path = "/".join(parts)
        self._admit(parts, is_folder=False)
        self._names.claim(parts)
        if path in self.files or path in self.ignored:
            raise CollectError(f"{path} occurs twice")
        if layout.is_unfinished(parts[0]):
            self.ignored.append(path)
            source.copy(size, lambda _: None)
            return
        self._make_folders(parts[:-1])
        target = self.root.joinpath(*parts)
        if target.is_dir():
            raise CollectError(f"{path} is a file and a folder")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(target, flags, 0o666), "wb", buffering=0) as file:
            masker, write = known.data_masker(), _whole_writes(file.fileno())
            source.copy(size, lambda data: write(masker.feed(data)))
            write(masker.rest())
            self.files[path] = os.fstat(file.fileno()).st_size


def _whole_writes(fd: int) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        while data:
            data = data[os.write(fd, data) :]

    return write


def _check(intake: _Intake, limits: CollectLimits, source: Source, dest: Path, started: float) -> Collected:
    """Validate the files of the job contract."""
    root, files = intake.root, intake.files
    result = _document(root / layout.RESULT, WorkerResult, limits)
    states = _document(root / layout.STATES, States, limits)
    _refuse_contradictions(result, states)
    events, torn_events = _lines(root / layout.EVENTS, Event, limits)
    history, torn_history = _lines(root / layout.HISTORY, HistoryLine, limits)
    for name in (layout.EVENTS, layout.HISTORY):
        if name in files:
            files[name] = (root / name).stat().st_size
    return Collected(
        root=dest,
        files=dict(sorted(files.items())),
        result=result,
        states=states,
        events=events,
        history=history,
        torn=torn_events + torn_history,
        ignored=tuple(intake.ignored),
        stream_bytes=source.taken,
        seconds=time.monotonic() - started,
    )


def _document(path: Path, model: type[M], limits: CollectLimits) -> M | None:
    if not path.is_file():
        return None
    if (size := path.stat().st_size) > limits.json_bytes:
        raise CollectError(f"{path.name} has {size} bytes; {limits.json_bytes} is the limit")
    data = path.read_bytes()
    if len(data) > limits.json_values and _has_more_values(data, limits.json_values):
        raise CollectError(f"{path.name} holds more than {limits.json_values} values")
    try:
        return read_model(model, data)
    except JsonError as error:
        raise CollectError(f"{path.name}: {error}") from None


def _has_more_values(data: bytes, most: int) -> bool:
    """Whether a JSON text has more commas and openings outside its strings than `most`, or thrice as many strings: so
    many values, about."""
    separators = texts = place = 0
    for text in _TEXT.finditer(data):
        separators += _separators(data, place, text.start())
        texts, place = texts + 1, text.end()
        if separators > most or texts > 3 * most:
            return True
    return separators + _separators(data, place, len(data)) > most


def _separators(data: bytes, start: int, end: int) -> int:
    return data.count(b",", start, end) + data.count(b"[", start, end) + data.count(b"{", start, end)


def _refuse_contradictions(result: WorkerResult | None, states: States | None) -> None:
    """Refuse files that contradict each other, as no supervisor writes them."""
    if result is None:
        return
    if result.status == "ok" and result.failure is not None:
        raise CollectError(f"{layout.RESULT}: it is ok and has a failure")
    if result.status == "failed" and result.failure is None:
        raise CollectError(f"{layout.RESULT}: it has failed without a failure")
    if result.status == "ok" and states is not None:
        for kind in ("best", "final"):
            state = getattr(states, kind)
            if state is not None and state.keys() != states.initial.keys():
                raise CollectError(f"{layout.STATES}: the {kind} state has other parameters than the initial one")


def _lines(path: Path, model: type[BaseModel], limits: CollectLimits) -> tuple[int, int]:
    """Check a JSONL file line by line; returns how many lines it has and how many torn ones were cut off."""
    if not path.is_file():
        return 0, 0
    count = whole = 0
    with path.open("r+b") as file:
        while raw := file.readline(limits.line_bytes + 1):
            if len(raw) > limits.line_bytes:
                raise CollectError(f"{path.name}, line {count + 1}: it is longer than {limits.line_bytes} bytes")
            try:
                read_model(model, raw)
            except JsonError as error:
                if not is_torn(raw + file.read()):
                    raise CollectError(f"{path.name}, line {count + 1}: {error}") from None
                file.truncate(whole)
                return count, 1
            count += 1
            whole += len(raw)
            if count > limits.lines:
                raise CollectError(f"{path.name} has more than {limits.lines} lines")
    return count, 0


def _translate(error: OSError, dest: Path) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvironmentUnavailable(f"there is no space left for {dest}; free some, then run again to resume")
    if error.errno in (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL):
        return CollectError(f"this machine's file system cannot hold a file of the archive ({error.strerror})")
    return HarnessError(f"{dest}: collecting failed: {error.strerror or error}")


def _keep_evidence(intake: _Intake, source: Source, parent: Path, message: str) -> Path:
    """Move what was read to a fresh ``evidence`` folder, cut to the limit."""
    evidence = parent / "evidence"
    number = 1
    while evidence.exists():
        number += 1
        evidence = parent / f"evidence-{number}"
    evidence.mkdir()
    write_json(evidence / "error.json", {"message": message, "stream_bytes_read": source.taken})
    write_bytes(evidence / "stream.head", bytes(source.head))
    left = intake.limits.evidence_bytes
    for folder, _, names in os.walk(intake.root):
        for name in sorted(names):
            path = Path(folder, name)
            size = path.stat().st_size
            if size > left:
                os.truncate(path, left)
            left -= min(size, left)
    if intake.root.is_dir():
        intake.root.rename(evidence / "files")
    return evidence
