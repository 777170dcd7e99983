"""Packs a run into one file, and unpacks such a file, which is untrusted.

The archive is a tar, or a tar under gzip, of plain files: the run's folder ``<run_id>/…``, and last
``checksums.sha256`` beside it, which ``sha256sum -c`` reads. `trace_bench.artifacts.tarstream` reads it, and says why
`tarfile` does not.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import shutil
import stat
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from trace_bench.artifacts.folder_lock import IMPORTING, marked_in_use
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.names import Names
from trace_bench.artifacts.records import Manifest
from trace_bench.artifacts.tarstream import Entry, Source, entries
from trace_bench.artifacts.versions import NewerRun, read_versioned
from trace_bench.artifacts.writers import make_folders, sync_tree
from trace_bench.config.models import is_run_id
from trace_bench.errors import CollectError, ConfigError, EnvironmentUnavailable, HarnessError, TraceBenchError
from trace_bench.records.digest import (
    Hashing,
    changed_files,
    checksum_lines,
    digest_of,
    hashes,
    other_entries,
    regular_files,
)
from trace_bench.records.runs import run_id_of

CHECKSUMS = "checksums.sha256"


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits on an archive; sizes in bytes, unpacked."""

    total_bytes: int = 16 << 30
    file_bytes: int = 4 << 30
    files: int = 500_000
    depth: int = 16
    json_bytes: int = 256 << 20
    """Size of the manifest, the index and the checksums, which are read into memory."""


@dataclass(frozen=True)
class Exported:
    """A written archive.

    Attributes:
        sha256: the hash of the archive.
        digest: the digest of the run (`trace_bench.records.digest`).
        changed: files that differ from the run's index: missing, changed, or not listed.
        left_out: private files, and everything that is not a plain file.
    """

    path: Path
    sha256: str
    digest: str
    files: int
    bytes: int
    changed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


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


# ----------------------------------------------------------------------------------------------------------- packing


def pack(run: RunLayout, target: Path) -> Exported:
    """Write the archive of `run`; under gzip if the name of `target` ends in ``.gz`` or ``.tgz``.

    Left out are the salt, a request to cancel, unfinished files, and everything that is not a plain file. Equal runs
    give equal bytes under one version of zlib.

    Raises:
        ConfigError: the run has no valid id.
        EnvironmentUnavailable: a file changes while it is read.
        HarnessError: the run's index is damaged.
    """
    run_id = run_id_of(run)
    if not is_run_id(run_id):
        raise ConfigError(f"{run.root}: {run_id!r} is not the id of a run; see its manifest")
    private = {run.relative(run.salt), run.relative(run.cancel)}
    files = set(regular_files(run.root))
    sums: dict[str, str] = {}
    size = 0
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    make_folders(target.parent)
    try:
        with temporary.open("wb") as raw:
            hashing = Hashing(raw)
            with _writer(hashing, gzipped=target.name.endswith((".gz", ".tgz"))) as tar:
                for path in sorted(files - private, key=os.fsencode):
                    sums[path], taken = _add_file(tar, run.root / path, f"{run_id}/{path}")
                    size += taken
                listing = "".join(checksum_lines({f"{run_id}/{path}": sums[path] for path in sums})).encode("utf-8")
                _add(tar, CHECKSUMS, io.BytesIO(listing), len(listing))
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    changed = changed_files(run, sums)
    left_out = (*sorted(private & files), *other_entries(run.root))
    return Exported(target, hashing.digest.hexdigest(), digest_of(run, sums), len(sums), size, changed, left_out)


@contextlib.contextmanager
def _writer(raw: Any, *, gzipped: bool) -> Iterator[tarfile.TarFile]:
    # GNU's format: names and sizes of any length without additional headers.
    with contextlib.ExitStack() as stack:
        # No name and no time in the header, as these are not a part of the run.
        out = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0)) if gzipped else raw
        yield stack.enter_context(tarfile.open(mode="w", fileobj=out, format=tarfile.GNU_FORMAT))


def _add_file(tar: tarfile.TarFile, path: Path, name: str) -> tuple[str, int]:
    """Add a file to the archive; returns its SHA-256 and size."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        hashing = Hashing(file)
        try:
            _add(tar, name, hashing, size)
        except OSError as error:
            if error.errno is not None:
                raise
            raise EnvironmentUnavailable(f"{path}: it became shorter while it was read; try again") from None
        return hashing.digest.hexdigest(), size


def _add(tar: tarfile.TarFile, name: str, file: Any, size: int) -> None:
    entry = tarfile.TarInfo(name)  # a plain file of 1970, mode 0644, of uid 0
    entry.size = size
    tar.addfile(entry, file)


# --------------------------------------------------------------------------------------------------------- unpacking


def extract(archive: Path, target: Path, limits: ArchiveLimits | None = None) -> Imported:
    """Unpack the archive of a run into ``<target>/<run_id>``.

    The folder appears when all files are complete and match their checksums. An audit checks their content.

    Raises:
        ConfigError: it is not the archive of a run, incomplete, hostile or too large; or another run of that id exists.
        NewerRun: a later version of this program wrote the run.
        EnvironmentUnavailable: the disk is full, or cannot store its file names.
    """
    limits = limits or ArchiveLimits()
    try:
        if not stat.S_ISREG(archive.stat().st_mode):
            raise ConfigError(f"{archive}: it is not a file; name an archive that trace-bench export made")
        file = archive.open("rb")
    except OSError as error:
        raise ConfigError(f"{archive}: {error.strerror}; name an archive that trace-bench export made") from None
    make_folders(target)
    work = Path(tempfile.mkdtemp(prefix=IMPORTING, dir=target))
    try:
        with file, marked_in_use(work):
            source = Source(_chunks(file), limits.total_bytes, max_seconds=7 * 86400.0)
            return _in_place(work, _unpack(source, work, limits), target, limits)
    except CollectError as error:
        raise ConfigError(f"{archive}: {error}; nothing was imported") from error
    except OSError as error:
        if isinstance(error, TraceBenchError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            reason = f"there is no space left in {target}; free some, then import again"
        else:
            reason = f"{target}: importing failed: {error.strerror or error}"
        raise EnvironmentUnavailable(reason) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the tar in pieces. A file that is not a tar gets a message of its own, before its headers are parsed."""
    head = file.read(2)
    file.seek(0)
    opened: IO[bytes] | gzip.GzipFile = gzip.GzipFile(fileobj=file) if head == b"\x1f\x8b" else file
    try:
        piece = opened.read(1 << 20)
        if piece[257:262] != b"ustar":
            raise CollectError("it is not an archive; name one that trace-bench export made")
        while piece:
            yield piece
            piece = opened.read(1 << 20)
    except EOFError:
        raise CollectError("the archive is truncated; download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CollectError(f"it is damaged ({error}); download it again") from None


def _unpack(source: Source, work: Path, limits: ArchiveLimits) -> dict[str, str]:
    """Write the files of an archive below `work`, which no other process uses; returns their SHA-256 by name."""
    names, sums, run_id, listing = Names(), dict[str, str](), "", None
    for number, entry in enumerate(entries(source), start=1):
        parts = _checked_parts(entry, number, names, limits)
        if entry.name == CHECKSUMS and entry.kind == "file":
            if listing is not None:
                raise CollectError(f"{CHECKSUMS} occurs twice")
            listing = source.read(entry.size)
            continue
        if len(parts) == 1 and entry.kind == "file":
            raise CollectError(f"it holds {entry.name}, so it is not an archive of trace-bench export")
        if not is_run_id(parts[0]):
            raise CollectError(f"{parts[0]!r} is not the id of a run")
        run_id = run_id or parts[0]
        if parts[0] != run_id:
            raise CollectError("it holds more than one folder, so it is not the archive of one run")
        path = work.joinpath(*parts)
        try:
            if entry.kind == "folder":
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                hashing = Hashing(file)
                source.copy(entry.size, hashing.write)
        except (FileExistsError, NotADirectoryError):
            raise CollectError(f"{entry.name} occurs twice, or lies in a file") from None
        sums["/".join(parts)] = hashing.digest.hexdigest()
    if listing is None:
        raise CollectError(f"it has no {CHECKSUMS}, so it is not a complete archive of trace-bench export")
    _compare(listing, sums)
    return sums


def _checked_parts(entry: Entry, number: int, names: Names, limits: ArchiveLimits) -> tuple[str, ...]:
    """Return the components of the name of entry `number`, after its name and size were checked."""
    if number > limits.files:
        raise CollectError(f"it holds more than {limits.files} files and folders (--max-files)")
    limit = limits.json_bytes if entry.name == CHECKSUMS else limits.file_bytes
    if entry.size > limit:
        raise CollectError(f"{entry.name} has {entry.size} bytes; {limit} is the limit")
    parts = names.parts(entry.name, entry.kind == "folder")
    names.claim(parts)
    if len(parts) > limits.depth:
        raise CollectError(f"{entry.name} lies deeper than {limits.depth} folders")
    return parts


def _compare(listing: bytes, sums: Mapping[str, str]) -> None:
    """Compare the checksums of an archive with those of its files. There is only one correct listing."""
    expected = "".join(checksum_lines(sums)).encode("utf-8")
    if listing != expected:
        lines = set(listing.splitlines()) ^ set(expected.splitlines())
        name = min((line.partition(b"  ")[2].decode("utf-8", "replace") for line in lines), default="")
        raise CollectError(
            f"{CHECKSUMS} does not fit {name[:200] or 'the files'}: a file is missing, changed or not listed; "
            "download it again"
        )


def _in_place(work: Path, sums: Mapping[str, str], target: Path, limits: ArchiveLimits) -> Imported:
    """Move the unpacked run below `target`, unless an equal run is there."""
    if not sums:
        raise CollectError("it holds no run")
    run_id = next(iter(sums)).partition("/")[0]
    made, run = RunLayout(work / run_id), RunLayout(target / run_id)
    for path in (made.manifest, made.files_index):
        if path.is_file() and path.stat().st_size > limits.json_bytes:
            raise CollectError(f"{path.name} has more than {limits.json_bytes} bytes")
    try:
        manifest = read_versioned(Manifest, made.manifest)
    except FileNotFoundError:
        raise CollectError("it has no manifest, so it is not the archive of a run") from None
    except NewerRun as error:
        raise NewerRun(str(error).replace(str(made.manifest), made.manifest.name)) from None  # the path is temporary
    except HarnessError as error:
        raise CollectError(f"its manifest: {str(error).removeprefix(f'{made.manifest}: ')}") from None
    if manifest.run_id != run_id:
        raise CollectError(f"its folder is {run_id}, and its manifest is of {manifest.run_id}")
    own = {name.partition("/")[2]: digest for name, digest in sums.items()}
    try:
        changed = changed_files(made, own)
    except TraceBenchError:  # of a damaged index
        changed = (made.relative(made.files_index),)
    size = sum((made.root / path).stat().st_size for path in own)
    already = os.path.lexists(run.root)
    if not already:
        sync_tree(made.root)
        made.root.rename(run.root)
    elif run.root.is_symlink() or not run.root.is_dir() or hashes(run.root, regular_files(run.root)) != own:
        raise ConfigError(
            f"{run.root}: it exists, and differs from the one in the archive; import it elsewhere with --runs-dir"
        )
    return Imported(run, digest_of(run, own), len(own), size, already, changed)
