"""What a power cut would leave of the files that this process writes.

Names and contents are on the disk once they were flushed (``fsync`` of the folder, ``fsync`` of the file), and not
before: a file that was renamed into place and not flushed may be there, empty or full of zeros, or not be there at all.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

CHANGES = ("fsync", "replace", "rename", "unlink", "mkdir")


class File(NamedTuple):
    """A file as it is on the disk; `changed` is the time of its last change, in ns."""

    content: bytes = b""
    changed: int = 0


Image = Mapping[str, File | None]
"""By path below the watched folder; None for a folder."""


class Disk:
    """Watches `folder`, which counts as flushed when watching begins.

    Attributes:
        before_step: called before every change, with its name and what it changes.
        steps: all changes so far, in order.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.steps: list[tuple[str, str]] = []
        self.before_step: Callable[[], None] = lambda: None
        self._names: dict[int, dict[str, int]] = {}
        self._contents: dict[int, File] = {}
        self._held: dict[int, int] = {}
        self._lock = threading.RLock()
        for root, _, files in os.walk(folder):
            self._flushed(Path(root))
            for name in files:
                self._flushed(Path(root, name))
        for name in CHANGES:
            patch.setattr(os, name, self._watched(name, getattr(os, name)))

    def close(self) -> None:
        for held in self._held.values():
            os.close(held)

    def image(self, kind: Literal["least", "names"]) -> Image:
        """What is left after a power cut now.

        Args:
            kind: ``least``: nothing that was not flushed. ``names``: all names as they are, but of each file only what
                was flushed, and zeros for the rest.
        """
        with self._lock:
            found: dict[str, File | None] = {}
            self._walk(self.folder, self.folder.stat().st_ino, "", kind, found)
            return found

    def _walk(self, place: Path | None, inode: int, path: str, kind: str, found: dict[str, File | None]) -> None:
        if kind == "names":
            assert place is not None
            for item in os.scandir(place):
                status = item.stat(follow_symlinks=False)
                below = f"{path}{item.name}"
                if stat.S_ISDIR(status.st_mode):
                    found[below] = None
                    self._walk(Path(item), status.st_ino, below + "/", kind, found)
                else:
                    content = self._contents.get(status.st_ino, File()).content.ljust(status.st_size, b"\0")
                    found[below] = File(content, status.st_mtime_ns)
            return
        for name, child in self._names.get(inode, {}).items():
            below = f"{path}{name}"
            if child < 0:
                found[below] = None
                self._walk(None, -child, below + "/", kind, found)
            else:
                found[below] = self._contents.get(child, File())

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def change(target: Any, *args: Any, **kwargs: Any) -> Any:
            path = _path(target, kwargs.get("dir_fd"))
            if not (path + "/").startswith(f"{self.folder}/") or (name == "mkdir" and Path(path).exists()):
                return real(target, *args, **kwargs)
            with self._lock:
                self.before_step()
                shown = _path(args[0], None) if name in ("replace", "rename") else path
                self.steps.append((name, os.path.relpath(shown, self.folder)))
                done = real(target, *args, **kwargs)
                if name == "fsync":
                    self._flushed(Path(f"/proc/self/fd/{target}"))
                return done

        return change

    def _flushed(self, path: Path) -> None:
        status = path.stat()
        if status.st_ino not in self._held:  # nobody else may get its number
            self._held[status.st_ino] = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not stat.S_ISDIR(status.st_mode):
            self._contents[status.st_ino] = File(path.read_bytes(), status.st_mtime_ns)
            return
        names = {}
        for item in os.scandir(path):
            inode = item.inode()
            names[item.name] = -inode if item.is_dir(follow_symlinks=False) else inode
            if inode not in self._held:
                self._held[inode] = os.open(path / item.name, os.O_PATH | os.O_CLOEXEC)
        self._names[status.st_ino] = names


def restore(image: Image, folder: Path) -> None:
    """Make `folder` what the power cut left."""
    folder.mkdir(parents=True)
    for path, file in image.items():
        if file is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(file.content)
            os.utime(folder / path, ns=(file.changed, file.changed))


def _path(target: Any, dir_fd: int | None) -> str:
    if isinstance(target, int):
        return str(Path(f"/proc/self/fd/{target}").readlink())
    path = os.fspath(target) if dir_fd is None else str(Path(f"/proc/self/fd/{dir_fd}").readlink() / target)
    return os.path.normpath(path)
