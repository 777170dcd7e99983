"""A run as one file that can be sent, of equal bytes for equal runs.

The archive is a tar, or a tar under gzip, of plain files: the run's folder ``<run_id>/…``, maybe
``ro-crate-metadata.json`` beside it, and at the end ``checksums.sha256`` with a line of ``sha256sum -c`` for each of
them. `trace_bench.records.archive` reads it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import make_folders
from trace_bench.config.models import is_run_id
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.records.archive import CHECKSUMS
from trace_bench.records.digest import changed_files, checksum_lines, digest_of, regular_files
from trace_bench.records.runs import run_id_of


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        sha256: of the archive.
        digest: of the run (`trace_bench.records.digest`).
        changed: files of the run's index that are gone, other than it says, or not in it.
        left_out: what is no plain file, or stays here.
    """

    path: Path
    sha256: str
    digest: str
    files: int
    bytes: int
    changed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def pack(run: RunLayout, target: Path, *, beside: Mapping[str, bytes] | None = None) -> Exported:
    """Write the archive of `run`; gzip if the name of `target` ends so. Equal runs give equal bytes under one zlib.

    What stays here: the salt and a wish to cancel, what is unfinished, and whatever is no plain file.

    Args:
        beside: further files at the top of the archive, by name.

    Raises:
        ConfigError: its id is none.
        EnvironmentUnavailable: a file changes while it is read.
        HarnessError: the run's index is damaged.
    """
    run_id = run_id_of(run)
    if not is_run_id(run_id):
        raise ConfigError(f"{run.root}: {run_id!r} is no name of a run; see its manifest")
    stays = {run.relative(run.salt), run.relative(run.cancel)}
    paths = sorted((p for p in regular_files(run.root) if p not in stays), key=os.fsencode)
    found: dict[str, str] = {}
    size = 0
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    make_folders(target.parent)
    try:
        with temporary.open("wb") as raw:
            hashing = _Hashing(raw)
            with _packed(hashing, gzipped=_is_gzip(target.name)) as tar:
                for path in paths:
                    found[path], taken = _add_file(tar, run.root / path, f"{run_id}/{path}")
                    size += taken
                sums = {f"{run_id}/{path}": digest for path, digest in found.items()}
                for name, data in sorted((beside or {}).items()):
                    _add(tar, name, io.BytesIO(data), len(data))
                    sums[name] = hashlib.sha256(data).hexdigest()
                listing = "".join(checksum_lines(sums)).encode("utf-8")
                _add(tar, CHECKSUMS, io.BytesIO(listing), len(listing))
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return Exported(
        target,
        hashing.digest.hexdigest(),
        digest_of(run, found),
        len(found),
        size,
        changed_files(run, found),
        tuple(sorted(stays & set(regular_files(run.root)))) + _others(run.root),
    )


def _is_gzip(name: str) -> bool:
    return name.endswith((".gz", ".tgz"))


@contextlib.contextmanager
def _packed(raw: Any, *, gzipped: bool) -> Iterator[tarfile.TarFile]:
    # GNU's format: names and sizes of any length without further headers.
    with contextlib.ExitStack() as stack:
        # No name and no time in the header: they are no part of the run.
        out = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0)) if gzipped else raw
        yield stack.enter_context(tarfile.open(mode="w", fileobj=out, format=tarfile.GNU_FORMAT))


def _add_file(tar: tarfile.TarFile, path: Path, name: str) -> tuple[str, int]:
    """Its SHA-256 and size."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        hashing = _Hashing(file)
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


class _Hashing:
    """Passes bytes on, either way, and hashes them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()


def _others(root: Path) -> tuple[str, ...]:
    """What below `root` is neither a plain file nor a folder."""
    found, folders = [], [""]
    while folders:  # not os.walk, which may be led too deep
        folder = folders.pop()
        with os.scandir(root / folder) as items:
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}{item.name}/")
                elif not item.is_file(follow_symlinks=False):
                    found.append(f"{folder}{item.name}")
    return tuple(sorted(found))
