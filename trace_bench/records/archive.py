"""Unpacks the archive of a run. The archive is untrusted; `trace_bench.records.pack` describes its format."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.names import Names
from trace_bench.artifacts.records import Manifest
from trace_bench.artifacts.tarstream import Source, entries
from trace_bench.artifacts.versions import NewerRun, read_versioned
from trace_bench.artifacts.writers import make_folders, sync_tree
from trace_bench.config.models import is_run_id
from trace_bench.errors import CollectError, ConfigError, EnvironmentUnavailable, HarnessError, TraceBenchError
from trace_bench.records.digest import Hashing, changed_files, checksum_lines, digest_of, hashes, regular_files
from trace_bench.records.guard import IMPORTING, marked_in_use

CHECKSUMS = "checksums.sha256"
CRATE = "ro-crate-metadata.json"
"""A description of the run that archives of earlier versions have, and is not read."""
PIECE = 1 << 20
"""Bytes per read."""
_MAGIC = slice(257, 262)
"""Position of the mark of a tar."""


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits on an archive; sizes in bytes, unpacked."""

    total_bytes: int = 16 << 30
    file_bytes: int = 4 << 30
    files: int = 500_000
    depth: int = 16
    json_bytes: int = 256 << 20
    """Of the manifest, and of the index."""


@dataclass(frozen=True)
class Imported:
    """An unpacked run.

    Attributes:
        already: an equal run existed, and nothing was unpacked.
        changed: files that differ from the run's index, as in `Exported`.
    """

    run: RunLayout
    digest: str
    files: int
    bytes: int
    already: bool = False
    changed: tuple[str, ...] = ()


def extract(archive: Path, target: Path, limits: ArchiveLimits | None = None) -> Imported:
    """Unpack the archive of a run into ``<target>/<run_id>``.

    The folder appears when all files are complete and match their checksums. An audit checks their content.

    Raises:
        ConfigError: it is not the archive of a run, incomplete, hostile or too large; or another run of that id exists.
        NewerRun: a later version of this program wrote the run.
        EnvironmentUnavailable: the disk is full, or cannot store its file names.
    """
    limits = limits or ArchiveLimits()
    shown = archive
    try:
        if not stat.S_ISREG(archive.stat().st_mode):
            raise ConfigError(f"{shown}: it is not a file; name an archive that trace-bench export made")
        file = archive.open("rb")
    except OSError as error:
        raise ConfigError(f"{shown}: {error.strerror}; name an archive that trace-bench export made") from None
    make_folders(target)
    work = Path(tempfile.mkdtemp(prefix=IMPORTING, dir=target))
    try:
        with file, marked_in_use(work):
            unpacked = _Unpacking(work, limits)
            unpacked.take(Source(_chunks(file), limits.total_bytes, max_seconds=7 * 86400.0))
            return _in_place(unpacked, target, limits)
    except CollectError as error:
        raise ConfigError(f"{shown}: {error}; nothing was imported") from error
    except OSError as error:
        if isinstance(error, TraceBenchError):
            raise
        raise _machine(error, target) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _machine(error: OSError, target: Path) -> TraceBenchError:
    where = target
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvironmentUnavailable(f"there is no space left in {where}; free some, then import again")
    return EnvironmentUnavailable(f"{where}: importing failed: {error.strerror or error}")


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """The tar in pieces. A file that is not a tar gets a message of its own, before its headers are parsed."""
    head = file.read(2)
    file.seek(0)
    opened: IO[bytes] | gzip.GzipFile = gzip.GzipFile(fileobj=file) if head == b"\x1f\x8b" else file
    try:
        piece = opened.read(PIECE)
        if piece[_MAGIC] != b"ustar":
            raise CollectError("it is not an archive; name one that trace-bench export made")
        while piece:
            yield piece
            piece = opened.read(PIECE)
    except EOFError:
        raise CollectError("the archive is truncated; download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CollectError(f"it is damaged ({error}): get it again") from None


@dataclass
class _Unpacking:
    """Writes the archive's files below `root`, which no other process uses."""

    root: Path
    limits: ArchiveLimits
    sums: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the written files, by name in the archive."""
    run_id: str = ""
    size: int = 0
    """Bytes of the run's own files."""
    listing: bytes | None = None

    def take(self, source: Source) -> None:
        names, count = Names(), 0
        for entry in entries(source):
            count += 1
            if count > self.limits.files:
                raise CollectError(f"it holds more than {self.limits.files} files and folders (--max-files)")
            if entry.size > self.limits.file_bytes:
                raise CollectError(f"{entry.name} has {entry.size} bytes; {self.limits.file_bytes} is the limit")
            parts = names.parts(entry.name, entry.kind == "folder")
            names.claim(parts)
            if len(parts) > self.limits.depth:
                raise CollectError(f"{entry.name} lies deeper than {self.limits.depth} folders")
            if entry.name == CHECKSUMS and entry.kind == "file":
                self._take_listing(entry.size, source)
                continue
            self._admit(parts, entry.kind == "folder")
            path = self.root.joinpath(*parts)
            try:
                (path if entry.kind == "folder" else path.parent).mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise CollectError(f"{entry.name} lies in a file") from None
            if entry.kind == "file":
                self._take_file(path, "/".join(parts), entry.size, source)
        self._check()

    def _admit(self, parts: tuple[str, ...], is_folder: bool) -> None:
        if parts == (CRATE,) and not is_folder:
            return
        if len(parts) == 1 and not is_folder:
            raise CollectError(f"it holds {parts[0]}, so it is not an archive of trace-bench export")
        if not is_run_id(parts[0]):
            raise CollectError(f"{parts[0]!r} is not the id of a run")
        if self.run_id not in ("", parts[0]):
            raise CollectError("it holds more than one folder, so it is not the archive of one run")
        self.run_id = parts[0]

    def _take_listing(self, size: int, source: Source) -> None:
        if self.listing is not None:
            raise CollectError(f"{CHECKSUMS} occurs twice")
        if size > self.limits.json_bytes:
            raise CollectError(f"{CHECKSUMS} has {size} bytes; {self.limits.json_bytes} is the limit")
        self.listing = source.read(size)

    def _take_file(self, path: Path, name: str, size: int, source: Source) -> None:
        if name in self.sums:
            raise CollectError(f"{name} occurs twice")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, 0o644)
        except (FileExistsError, NotADirectoryError):
            raise CollectError(f"{name} is a file and a folder") from None
        with os.fdopen(fd, "wb") as file:
            written = Hashing(file)
            source.copy(size, written.write)
        self.sums[name] = written.digest.hexdigest()
        self.size += size if name != CRATE else 0

    def _check(self) -> None:
        """Compare with the checksums."""
        if self.listing is None:
            raise CollectError(f"it has no {CHECKSUMS}, so it is not a complete archive of trace-bench export")
        if not self.run_id:
            raise CollectError("it holds no run")
        # Compared as a whole: there is only one correct listing.
        if self.listing != "".join(checksum_lines(self.sums)).encode("utf-8"):
            raise CollectError(_first_difference(self.listing, self.sums))

    def manifest(self) -> Manifest:
        path = RunLayout(self.root / self.run_id).manifest
        if not path.is_file() or path.stat().st_size > self.limits.json_bytes:
            raise CollectError("it has no manifest, or a huge one, so it is not the archive of a run")
        try:
            return read_versioned(Manifest, path)
        except NewerRun as error:
            raise NewerRun(str(error).replace(str(path), path.name)) from None  # the path is temporary
        except HarnessError as error:
            raise CollectError(f"its manifest: {str(error).removeprefix(f'{path}: ')}") from None


def _first_difference(listing: bytes, sums: Mapping[str, str]) -> str:
    """The first difference between the checksums of an archive and its files."""
    listed: dict[str, str] = {}
    for line in listing.decode("utf-8", "replace").splitlines():
        digest, blanks, name = line.partition("  ")
        if not blanks or name in listed:
            return f"its {CHECKSUMS} is damaged: get it again"
        listed[name] = digest
    for name in sorted(listed.keys() | sums.keys()):
        if name not in sums:
            return f"{name} is missing: get it again"
        if name not in listed:
            return f"{name} is not among its checksums"
        if listed[name] != sums[name]:
            return f"{name} does not match its checksum: get it again"
    return f"its {CHECKSUMS} is damaged: get it again"


def _in_place(unpacked: _Unpacking, target: Path, limits: ArchiveLimits) -> Imported:
    manifest = unpacked.manifest()
    run_id = unpacked.run_id
    if manifest.run_id != run_id:
        raise CollectError(f"its folder is {run_id}, and its manifest is of {manifest.run_id}")
    made = RunLayout(unpacked.root / run_id)
    own = {name.partition("/")[2]: digest for name, digest in unpacked.sums.items() if name != CRATE}
    if made.files_index.is_file() and made.files_index.stat().st_size > limits.json_bytes:
        raise CollectError(f"its index is larger than {limits.json_bytes} bytes")
    run = RunLayout(target / run_id)
    result = Imported(run, digest_of(made, own), len(own), unpacked.size, changed=_changed(made, own))
    if os.path.lexists(run.root):
        if _is_equal(run, own):
            return Imported(run, result.digest, result.files, result.bytes, True, result.changed)
        raise ConfigError(
            f"{run.root}: it exists, and differs from the one in the archive; import it elsewhere with --runs-dir"
        )
    sync_tree(made.root)
    made.root.rename(run.root)
    return result


def _changed(run: RunLayout, own: Mapping[str, str]) -> tuple[str, ...]:
    try:
        return changed_files(run, own)
    except TraceBenchError:
        return (run.relative(run.files_index),)


def _is_equal(run: RunLayout, own: Mapping[str, str]) -> bool:
    if run.root.is_symlink() or not run.root.is_dir():
        return False
    paths = set(regular_files(run.root))
    return paths == own.keys() and hashes(run.root, paths) == own
