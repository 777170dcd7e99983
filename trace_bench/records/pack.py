"""Packs a run into one file to send. Equal runs give equal bytes.

The archive is a tar, or a tar under gzip, of plain files: the run's folder ``<run_id>/…``, and last
``checksums.sha256`` beside it, which ``sha256sum -c`` reads.
`trace_bench.records.archive` unpacks it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import make_folders
from trace_bench.config.models import is_run_id
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.records.archive import CHECKSUMS
from trace_bench.records.digest import Hashing, changed_files, checksum_lines, digest_of, other_entries, regular_files
from trace_bench.records.runs import run_id_of


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
    paths = sorted(files - private, key=os.fsencode)
    found: dict[str, str] = {}
    size = 0
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    make_folders(target.parent)
    try:
        with temporary.open("wb") as raw:
            hashing = Hashing(raw)
            with _packed(hashing, gzipped=target.name.endswith((".gz", ".tgz"))) as tar:
                for path in paths:
                    found[path], taken = _add_file(tar, run.root / path, f"{run_id}/{path}")
                    size += taken
                sums = {f"{run_id}/{path}": digest for path, digest in found.items()}
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
        (*sorted(private & files), *other_entries(run.root)),
    )


@contextlib.contextmanager
def _packed(raw: Any, *, gzipped: bool) -> Iterator[tarfile.TarFile]:
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
