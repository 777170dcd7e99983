"""Build contexts: tar archives whose bytes depend on contents alone."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from trace_bench.images.recipe import Family, worker_sources
from trace_bench.images.wheels import Pin, requirements_text


def write_context(files: Mapping[str, Path | bytes], into: IO[bytes]) -> None:
    """Write `files` (``{path in the context: file or content}``) as a tar: sorted, times 0, owner 0, mode
    0644.

    Times and modes of the host would end up in the image's layers and make two builds of one recipe differ.
    """
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder in sorted({p.as_posix() for name in files for p in Path(name).parents if p.name}):
            archive.addfile(_member(folder, 0o755, tarfile.DIRTYPE, 0))
        for name in sorted(files):
            source = files[name]
            if isinstance(source, bytes):
                archive.addfile(_member(name, 0o644, tarfile.REGTYPE, len(source)), io.BytesIO(source))
            else:
                with source.open("rb") as content:
                    archive.addfile(_member(name, 0o644, tarfile.REGTYPE, source.stat().st_size), content)


def dependencies_context(
    family: Family, pins: list[Pin], wheels: list[Path], packages: list[Path], archive: Path | None = None
) -> dict[str, Path | bytes]:
    """The context of the family's Dockerfile: itself, a wheelhouse of `pins`, Debian packages, and an archive."""
    files: dict[str, Path | bytes] = {"Dockerfile": family.dockerfile}
    files["wheelhouse/requirements.txt"] = requirements_text(pins).encode()
    files |= {f"wheelhouse/{wheel.name}": wheel for wheel in wheels}
    if family.debian is not None:
        files |= {"debian/.keep": b"", **{f"debian/{package.name}": package for package in packages}}
    if archive is not None:
        files[f"archive/{archive.name}"] = archive
    return files


def worker_context(family: Family) -> dict[str, Path | bytes]:
    """The context of ``worker.Dockerfile``: itself, the sources that run inside a sandbox, and those of plug-ins."""
    files: dict[str, Path | bytes] = {"Dockerfile": family.worker_dockerfile, "plugins/.keep": b""}
    files |= {f"worker/trace_bench/{name}": path for name, path in worker_sources().items()}
    for plugin in family.plugins:
        files |= {f"plugins/{name}": path for name, path in plugin.files.items()}
    return files


def _member(name: str, mode: int, kind: bytes, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.type, member.size = mode, kind, size
    return member
