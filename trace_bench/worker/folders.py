"""Folders of a job inside the sandbox: the task's, unpacked, and one that a phase may write to."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

HELD_OUT = "data/test"
"""Of a task's folder: files that only the score phase may see."""


def let_in(folder: Path, phases: bool) -> None:
    """Open a folder of the task to the phases, or keep it to the supervisor. Does nothing if there is none."""
    if folder.is_dir():
        folder.chmod(0o750 if phases else 0o700)


def unpack(task: bytes, folder: Path, group: int | None = None) -> None:
    """Make `folder` and unpack the task's folders and plain files into it. An empty `task` has none.

    Args:
        group: who may read it besides its owner; None: everybody. Candidates must not: the evaluator is there, and the
            programs that ship with the task.

    (`tarfile`'s own filters are missing from Python before 3.11.4.)

    Raises:
        ValueError: a member lies outside `folder`.
    """
    _make_readable(folder, group)
    if not task:
        return
    with tarfile.open(fileobj=io.BytesIO(task)) as tar:
        for member in tar:
            path = folder / member.name
            if ".." in path.parts or member.name.startswith("/"):
                raise ValueError(f"the task's archive has a member outside the task: {member.name}")
            if member.isdir():
                _make_readable(path, group)
            elif member.isfile():
                _make_readable(path.parent, group)
                source = tar.extractfile(member)
                assert source is not None
                path.write_bytes(source.read())
                _let_read(path, group)


def _make_readable(folder: Path, group: int | None) -> None:
    if not folder.exists():
        if folder.parent != folder:
            _make_readable(folder.parent, group)
        folder.mkdir()
        _let_read(folder, group)


def _let_read(path: Path, group: int | None) -> None:
    mode = 0o750 if path.is_dir() else 0o640
    if group is None:
        mode |= 0o005 if path.is_dir() else 0o004
    else:
        os.chown(path, -1, group)
    path.chmod(mode)


def make_folder_of(path: Path, uid: int | None) -> None:
    """Make `path` a folder of `uid`; of the caller if that is None."""
    path.mkdir(exist_ok=True)
    if uid is not None:
        os.chown(path, uid, uid)


def tree_bytes(top: Path, enough: int) -> int:
    """Bytes of all files below `top`, links not followed; stops counting beyond `enough`."""
    total = 0
    stack = [str(top)]
    while stack and total <= enough:
        try:
            entries = list(os.scandir(stack.pop()))
        except FileNotFoundError:
            continue
        except OSError:
            # A folder that is hidden from the watcher counts as full.
            return enough + 1
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                stack.append(entry.path)
            else:
                try:
                    total += max(4096, entry.stat(follow_symlinks=False).st_size)
                except FileNotFoundError:
                    continue
                except OSError:
                    # It may be listed but not entered.
                    return enough + 1
    return total
