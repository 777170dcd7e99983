"""A hash of the files that scores depend on: the task's, and the code of worker and suites.

Nothing in a sandbox can write to them. That they are the same after scoring as before is checked all the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parents[1]


def digest(task_dir: Path, package: Path = _PACKAGE) -> dict[str, Any]:
    """``{"files", "sha256"}`` over the sorted paths and the contents of all files of the task, and of the modules of
    `package` that score. What cannot be read counts as changed.
    """
    import hashlib

    task = sorted(path for path in task_dir.rglob("*") if path.is_symlink() or path.is_file())
    own = sorted(path for name in ("worker", "suites") for path in (package / name).rglob("*.py"))
    total = hashlib.sha256()
    for top, paths in ((task_dir, task), (package, own)):
        for path in paths:
            name = str(path.relative_to(top)).encode("utf-8", "surrogateescape")
            total.update(b"%d %s" % (len(name), name))
            try:
                content = path.read_bytes()
            except OSError as error:
                content = f"unreadable ({error.errno})".encode()
            total.update(hashlib.sha256(content).digest())
    return {"files": len(task) + len(own), "sha256": total.hexdigest()}
