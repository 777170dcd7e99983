"""A tar stream of a folder whose content is not trusted.

No link is followed, and no file is held in memory.
"""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 512
_CHUNK = 64 * 1024


def tar_of(folder: Path, name: str) -> Iterator[bytes]:
    """The tar stream of `folder`, its members called ``name/…``. Sockets, pipes and devices are left out.

    A file that shrinks while it is read is filled up with zeros; one that grows is cut.
    """
    for path, folders, files, descriptor in os.fwalk(folder, follow_symlinks=False):
        inside = Path(name) / Path(path).relative_to(folder)
        yield _header(str(inside), os.fstat(descriptor))
        for file in sorted(files) + sorted(folders):  # of the folders only those that are links; the rest are walked
            try:
                status = os.stat(file, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISLNK(status.st_mode):
                    yield _header(str(inside / file), status, os.readlink(file, dir_fd=descriptor))
                elif stat.S_ISREG(status.st_mode):
                    yield from _file(str(inside / file), file, descriptor)
            except FileNotFoundError:
                continue  # removed since it was listed, as may happen in a sandbox that runs
    yield bytes(2 * _BLOCK)


def _file(name: str, file: str, folder: int) -> Iterator[bytes]:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        yield _header(name, status)
        left = status.st_size
        while left:
            data = os.read(descriptor, min(left, _CHUNK)) or bytes(min(left, _CHUNK))
            left -= len(data)
            yield data
        yield bytes(-status.st_size % _BLOCK)
    finally:
        os.close(descriptor)


def _header(name: str, status: os.stat_result, link: str = "") -> bytes:
    member = tarfile.TarInfo(name)
    member.mode = stat.S_IMODE(status.st_mode)
    member.mtime = int(status.st_mtime)
    member.uid, member.gid = status.st_uid, status.st_gid
    if link:
        member.type, member.linkname = tarfile.SYMTYPE, link
    elif stat.S_ISDIR(status.st_mode):
        member.type = tarfile.DIRTYPE
    else:
        member.size = status.st_size
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
