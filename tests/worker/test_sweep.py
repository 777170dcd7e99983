"""Who counts as alive, and how folders are emptied. Killing by uid is tested in containers (tests/integration)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from trace_bench.worker.sweep import empty, living

HEADLESS = """
import ctypes, os, threading, time
threading.Thread(target=lambda: time.sleep(60)).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""


def test_a_process_whose_first_thread_has_ended_is_alive_while_another_runs() -> None:
    process = subprocess.Popen([sys.executable, "-c", HEADLESS])
    try:
        deadline = time.monotonic() + 10
        while Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert process.pid in living([os.getuid()])
    finally:
        process.kill()
        process.wait()


def test_a_zombie_is_not_alive() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    deadline = time.monotonic() + 10
    while pid in living([os.getuid()]):
        assert time.monotonic() < deadline
    os.waitpid(pid, 0)


def test_a_folder_is_emptied_however_deep_it_is(tmp_path: Path) -> None:
    before = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(2000):
            os.mkdir("d")  # noqa: PTH102 - paths of this depth are too long
            os.chdir("d")
        Path("file").write_text("x")
    finally:
        os.chdir(before)
    (tmp_path / "link").symlink_to("/etc")
    closed = tmp_path / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "file").touch()
    (closed / "inner").chmod(0)
    closed.chmod(0)
    empty(tmp_path)
    assert list(tmp_path.iterdir()) == [] and Path("/etc/passwd").exists()
