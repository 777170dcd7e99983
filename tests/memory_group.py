"""A memory control group of a test's own, in which the kernel really kills for want of memory. Needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")

# The others are killed before it is: what `command` starts has a higher score. When they have gone it ends.
_GLUTTON = """
import sys, time
from pathlib import Path
tasks, kept = Path(sys.argv[1]), []
while set(tasks.read_text().split()) - {str(__import__("os").getpid())}:
    kept.append(bytearray(b"x" * (1 << 20)))
"""


class MemoryGroup:
    """Processes that may use `limit` bytes together."""

    def __init__(self, folder: Path, tasks: str, limit: int) -> None:
        self.folder = folder
        self.tasks = folder / tasks
        name = "memory.limit_in_bytes" if tasks == "tasks" else "memory.max"
        (folder / name).write_text(str(limit))
        with contextlib.suppress(OSError):
            (folder / "memory.swap.max").write_text("0")

    def command(self, *command: str) -> list[str]:
        """`command`, started in the group, where it is the first to be killed."""
        script = 'echo $$ > "$0" && echo 800 > /proc/self/oom_score_adj && exec "$@"'
        return ["sh", "-c", script, str(self.tasks), *command]

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """What this process starts meanwhile belongs to the group, with all memory that it ever takes."""
        before = _own_group(self.tasks.name)
        self.tasks.write_text(str(os.getpid()))
        try:
            yield
        finally:
            before.write_text(str(os.getpid()))

    def use_up(self, timeout: float = 60.0) -> None:
        """Take memory until the kernel has killed all others of the group."""
        glutton = [sys.executable, "-c", _GLUTTON, str(self.tasks)]
        command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.tasks), *glutton]
        deadline = time.monotonic() + timeout
        while subprocess.run(command, timeout=timeout).returncode != 0:
            # It was killed too, while another was still on its way out.
            assert time.monotonic() < deadline, "the group's other processes outlive its memory"

    def remove(self) -> None:
        deadline = time.monotonic() + 10
        while self.folder.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            time.sleep(0.05)


def _own_group(tasks: str) -> Path:
    """Where this process is a member."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return ROOT / "memory" / path.lstrip("/") / tasks
    return ROOT / path.lstrip("/") / tasks


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[MemoryGroup]:
    """Skips where no group can be made."""
    old = (ROOT / "memory" / "memory.limit_in_bytes").exists()
    folder = (ROOT / "memory" if old else ROOT) / f"trace-bench-test-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
        group = MemoryGroup(folder, "tasks" if old else "cgroup.procs", limit)
    except OSError as error:
        with contextlib.suppress(OSError):
            folder.rmdir()
        pytest.skip(f"no memory control group can be made here: {error}")
    try:
        yield group
    finally:
        group.remove()
