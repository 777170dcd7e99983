"""The filesystem helper that the client runs in a sandbox: ``modal-sandbox-fs-tools`` with one JSON command.

Standard library alone and no other module of this package: a container runs its source by ``python3 -c``.
Data goes over stdin and stdout; an error is one JSON object on stderr and exit status 1.
"""

# Paths are strings: they are another root's.
# ruff: noqa: PTH102, PTH103, PTH106, PTH108, PTH112, PTH115, PTH116, PTH118, PTH119, PTH120, PTH208
from __future__ import annotations

import errno
import grp
import json
import os
import pwd
import select
import shutil
import stat
import sys
import time
from typing import Any

CHUNK = 1 << 20
LARGEST = 5 << 30
"""Bytes of the largest file that is read; a bound of this program's choice."""
KINDS = {
    errno.ENOENT: "NotFound",
    errno.EISDIR: "IsDirectory",
    errno.ENOTDIR: "NotDirectory",
    errno.EACCES: "PermissionDenied",
    errno.EPERM: "PermissionDenied",
    errno.EROFS: "PermissionDenied",
    errno.EEXIST: "PathAlreadyExists",
    errno.ENOTEMPTY: "DirectoryNotEmpty",
    errno.EFBIG: "FileTooLarge",
}


def run(command: str, root: str = "") -> int:
    """Do `command` on the descriptors 0, 1 and 2; `root` goes before every path. Returns the exit status."""
    try:
        ((name, arguments),) = json.loads(command).items()
        path = root + arguments.pop("path")
        _OPERATIONS[name](path, root, **arguments)
    except OSError as error:
        kind = KINDS.get(error.errno or 0, "Other")
        return _failed(kind, error.strerror or str(error))
    except (KeyError, TypeError, ValueError) as error:
        return _failed("InvalidCommand", f"not a command: {error}")
    return 0


def _failed(kind: str, message: str) -> int:
    _write(2, json.dumps({"error_kind": kind, "message": message, "detail": ""}).encode())
    return 1


def _read_file(path: str, root: str) -> None:
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = os.fstat(source)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if status.st_size > LARGEST:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        while chunk := os.read(source, CHUNK):
            _write(1, chunk)
    finally:
        os.close(source)


def _write_file(path: str, root: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from error
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        while chunk := os.read(0, CHUNK):
            _write(target, chunk)
    finally:
        os.close(target)


def _list_files(path: str, root: str) -> None:
    entries = [_described(os.path.join(path, name), root) for name in sorted(os.listdir(path))]
    _write(1, json.dumps(entries).encode())


def _stat(path: str, root: str) -> None:
    _write(1, json.dumps(_described(path, root)).encode())


def _make_directory(path: str, root: str, parents: bool = True) -> None:
    if not parents:
        os.mkdir(path)
        return
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        if os.path.isdir(path):
            return
        raise


def _remove(path: str, root: str, recursive: bool = False) -> None:
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        os.unlink(path)
    elif recursive:
        shutil.rmtree(path)
    else:
        os.rmdir(path)


def _watch(
    path: str, root: str, recursive: bool = False, filter: list[str] | None = None, timeout_secs: float | None = None
) -> None:
    """Tells of changes by looking ten times a second; ends with stdin or after `timeout_secs`."""
    end = time.monotonic() + (timeout_secs if timeout_secs is not None else float("inf"))
    seen = _snapshot(path, recursive)
    while time.monotonic() < end:
        readable, _, _ = select.select([0], [], [], 0.1)
        if readable and not os.read(0, CHUNK):
            return
        now = _snapshot(path, recursive)
        for kind, names in (
            ("Create", now.keys() - seen.keys()),
            ("Remove", seen.keys() - now.keys()),
            ("Modify", {name for name in now.keys() & seen.keys() if now[name] != seen[name]}),
        ):
            for name in sorted(names):
                if filter is None or kind in filter:
                    _write(1, json.dumps({"event_type": kind, "paths": [name[len(root) :]]}).encode() + b"\n")
        seen = now


def _snapshot(path: str, recursive: bool) -> dict[str, tuple[int, int]]:
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        return {path: (status.st_mtime_ns, status.st_size)}
    found: dict[str, tuple[int, int]] = {}
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            full = os.path.join(folder, name)
            try:
                status = os.lstat(full)
            except FileNotFoundError:
                continue
            found[full] = (0, 0) if stat.S_ISDIR(status.st_mode) else (status.st_mtime_ns, status.st_size)
        if not recursive:
            break
    return found


def _described(path: str, root: str) -> dict[str, Any]:
    status = os.lstat(path)
    kind = {stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}.get(stat.S_IFMT(status.st_mode), "file")
    return {
        "name": os.path.basename(path),
        "path": path[len(root) :],
        "type": kind,
        "size": status.st_size,
        "mode": stat.S_IMODE(status.st_mode),
        "permissions": stat.filemode(status.st_mode),
        "owner": _name(lambda: pwd.getpwuid(status.st_uid).pw_name, status.st_uid),
        "group": _name(lambda: grp.getgrgid(status.st_gid).gr_name, status.st_gid),
        "modified_time": status.st_mtime,
        "symlink_target": os.readlink(path) if kind == "symlink" else None,
    }


def _name(look_up: Any, number: int) -> str:
    try:
        return str(look_up())
    except KeyError:
        return str(number)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


_OPERATIONS: dict[str, Any] = {
    "ReadFile": _read_file,
    "WriteFile": _write_file,
    "ListFiles": _list_files,
    "MakeDirectory": _make_directory,
    "Remove": _remove,
    "Stat": _stat,
    "Watch": _watch,
}

if __name__ == "__main__":
    sys.exit(run(sys.argv[1]))
