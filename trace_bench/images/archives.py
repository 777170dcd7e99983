"""Archives that an image needs and that the user downloads: a file is named once, and kept for later builds."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.homes import data_home

IN_BASE = "base"
"""In place of a file: the base image has what the archive holds."""
ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")


@dataclass(frozen=True)
class Archive:
    """A file that was kept. `sha256` is of its content, in hex."""

    path: Path
    sha256: str


def keep(family: str, named: str, sha256: str | None = None) -> Archive:
    """Keep the file `named` for builds of `family`, in place of an earlier one.

    Args:
        named: a file, or `IN_BASE`.
        sha256: what its hash has to be.

    Raises:
        ConfigError: there is no such file, it is no archive, or its hash is another one.
        EnvironmentUnavailable: it cannot be kept.
    """
    source = Path(named).expanduser()
    if named != IN_BASE:
        if not source.is_file():
            raise ConfigError(f"--toolchain {named}: no such file; download the archive, and name it")
        if not source.name.endswith(ENDINGS):
            raise ConfigError(
                f"--toolchain {named}: it must end with {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}; of Lean's releases "
                "take the .zip file, or pack the folder again"
            )
    digest = hashlib.sha256(b"").hexdigest() if named == IN_BASE else _hash(source)
    if sha256 is not None and digest != sha256.lower():
        raise ConfigError(f"--toolchain {named}: its SHA-256 is {digest}, and not {sha256}; download it again")
    folder = _folder(family)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        target = folder / source.name
        if named == IN_BASE:
            target.touch()
        else:
            shutil.copyfile(source, target)
        (folder / "sha256").write_text(digest)
    except OSError as error:
        raise EnvironmentUnavailable(f"{folder}: {named} cannot be kept there: {error.strerror or error}") from error
    return Archive(target, digest)


def kept(family: str) -> Archive | None:
    """The archive that was kept for `family`."""
    folder = _folder(family)
    if not (folder / "sha256").is_file():
        return None
    (path,) = (each for each in folder.iterdir() if each.name != "sha256")
    return Archive(path, (folder / "sha256").read_text())


def _folder(family: str) -> Path:
    return data_home() / "archives" / family


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
