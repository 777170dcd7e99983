"""The local backend: a plain process of this user. No isolation; its results are marked unprotected.

It is meant for machines without an engine, and for work on tasks and trainers. It shares the job contract with the
other backends: one command, one byte stream that outlives an attached controller, one folder that comes back as a tar.

A sandbox is a folder: ``state.json`` (labels), ``spec.json`` (the command), the pipes ``stdin`` and ``stdout``,
``running.json``, ``exit.json``, ``stderr.log``, ``out/`` and ``tmp/``. So the next controller finds all that a dead one
has left. ``docs/reference/sandbox-controls.md`` lists what this backend cannot do.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.errors import EnvironmentUnavailable, SandboxError
from trace_bench.resources import package_dir
from trace_bench.sandbox import launcher, processes
from trace_bench.sandbox.archive import tar_of
from trace_bench.sandbox.base import (
    CONTROLS,
    Control,
    ExitStatus,
    Host,
    Integrity,
    Sandbox,
    SandboxRequest,
    SandboxState,
    Stream,
    Traits,
)
from trace_bench.sandbox.errors import ControlMissing, NameConflict, SandboxRemoved
from trace_bench.sandbox.labels import CPUSET, UID_BASE, matches, uid_bases
from trace_bench.sandbox.leases import Taken
from trace_bench.sandbox.packed import python_arguments
from trace_bench.sandbox.streams import CHUNK, STDERR_BYTES, PolledStream
from trace_bench.sandbox.uids import BLOCK, DEFAULT_BASE, SLOTS

STATE_DIR_VARIABLE = "TRACE_BENCH_STATE_DIR"
START_SECONDS = 30.0
KILL_SECONDS = 12.0
_REMOVED = "."
"""Prefix of the name of a sandbox whose removal has begun. It can be found, and only be removed."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PARTLY = {
    "memory": "RLIMIT_AS for each process, not for all together",
    "nofile": "RLIMIT_NOFILE, which protects no other process",
    "core": "RLIMIT_CORE, which protects no other process",
    "disk": "RLIMIT_FSIZE for each file, not for all together",
}
LOCAL_BASE = DEFAULT_BASE + SLOTS * BLOCK
"""Above all that engines use."""
_FOLDERS = 1 << 20
"""Number of positions above it for the first slot of a folder of sandboxes."""


class LocalBackend:
    """Runs sandboxes as processes of this user, with this Python. Linux only.

    Args:
        state_dir: folder for the sandboxes; private to this user.
    """

    name = "local"
    traits = Traits(images="none")
    integrity: Integrity = "unprotected"
    capabilities: frozenset[str] = frozenset({"adoption", "owners"})
    cannot: Mapping[str, str] = {
        **{name: _PARTLY.get(name, "a plain process of this user has none") for name in CONTROLS},
        "oom_flag": "a process that runs out of address space ends by itself, and the reason is not observed",
        "quota": "RLIMIT_FSIZE for each file, not for all together",
        "connection": "the stream is two pipes of this machine",
    }

    def __init__(self, state_dir: Path | None = None) -> None:
        self._chosen = state_dir

    @property
    def default_uid_base(self) -> int:
        """Phases get no uids here. The locks of uid blocks only show which controller is alive, so they are apart from
        those of engines, and from those of other folders, whose sandboxes cannot be seen from here."""
        return LOCAL_BASE + BLOCK * (zlib.crc32(os.fsencode(self._root())) % _FOLDERS)

    def hosts(self) -> Sequence[Host]:
        return (Host(cpus=os.cpu_count()),)

    def check(self) -> None:
        if not Path("/proc/self/stat").exists():
            raise EnvironmentUnavailable("the local backend needs Linux; use --backend docker.")
        self._root()

    def create(self, request: SandboxRequest) -> Sandbox:
        if request.require_controls:
            names = ", ".join(sorted(request.require_controls))
            raise ControlMissing(f"the local backend cannot put in force: {names}. Use --backend docker.")
        folder = self._root() / request.name
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError as error:
            raise NameConflict(f"a sandbox called {request.name} is there already ({folder}); remove it.") from error
        try:
            for part in ("out", "tmp"):
                (folder / part).mkdir(mode=0o700)
            for pipe in ("stdin", "stdout"):
                os.mkfifo(folder / pipe, 0o600)
            launcher.write_json(folder / "spec.json", _spec(request, folder))
            own_labels = {**request.labels, UID_BASE: str(request.uid_base)}
            if request.cpuset:
                own_labels[CPUSET] = ",".join(map(str, request.cpuset))
            own_id = uuid.uuid4().hex
            launcher.write_json(folder / "state.json", {"id": own_id, "labels": own_labels})
        except BaseException:
            _remove_tree(folder)
            raise
        return LocalSandbox(folder, own_id, own_labels)

    def find(self, labels: Mapping[str, str]) -> list[Sandbox]:
        found: list[Sandbox] = []
        for folder in sorted(self._root().iterdir()):
            state = _read_json(folder / "state.json") or {}
            own_labels = state.get("labels")
            if isinstance(own_labels, dict) and matches(own_labels, labels):
                found.append(LocalSandbox(folder, str(state.get("id") or folder.name), own_labels))
        return found

    def uid_bases_in_use(self) -> frozenset[int]:
        return uid_bases(sandbox.labels for sandbox in self.find({}))

    def taken(self, host: str) -> Taken:
        """The resources of sandboxes in this folder. Those of other folders are only protected by the locks of their
        controllers."""
        return Taken.by(sandbox.labels for sandbox in self.find({}) if sandbox.status() == "running")

    def describe(self) -> dict[str, Any]:
        return {
            "backend": self.name,
            "integrity": self.integrity,
            "python": sys.version.split()[0],
            "kernel": os.uname().release,
            "architecture": os.uname().machine,
            "cpus": os.cpu_count(),
            "disk_control": "none",
        }

    def _root(self) -> Path:
        chosen = self._chosen or os.environ.get(STATE_DIR_VARIABLE)
        root = Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"trace-bench-local-{os.getuid()}"
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = root.lstat()
        except OSError as error:
            raise EnvironmentUnavailable(
                f"{root} cannot be made ({error.strerror}); set {STATE_DIR_VARIABLE} to a folder of yours."
            ) from error
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise EnvironmentUnavailable(
                f"{root} is not a folder that only you can write; set {STATE_DIR_VARIABLE} to one that is."
            )
        return root


class LocalSandbox:
    """A folder, and the process that its launcher started. The next attempt of a job reuses the name, not the id."""

    def __init__(self, folder: Path, own_id: str, own_labels: Mapping[str, str]) -> None:
        self._folder = folder
        self.id = own_id
        self.name = folder.name
        self.host = ""
        self.labels: Mapping[str, str] = dict(own_labels)
        self._launcher: subprocess.Popen[bytes] | None = None

    def attach(self) -> Stream:
        self._check_there()
        return LocalStream(self._folder, self.status)

    def start(self) -> None:
        self._check_there()
        command = [sys.executable, *python_arguments(processes, launcher), str(self._folder)]
        self._launcher = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={},
            start_new_session=True,
        )
        end = time.monotonic() + START_SECONDS
        while not (self._folder / "running.json").exists():
            if self._launcher.poll() is not None or time.monotonic() > end:
                self.kill()
                assert self._launcher.stderr is not None
                words = self._launcher.stderr.read().decode(errors="replace").strip().splitlines()
                raise SandboxError(f"sandbox {self.name} did not start: {words[-1] if words else 'no reason given'}.")
            time.sleep(0.002)

    def controls(self) -> list[Control]:
        return [Control(name, wanted, False, _PARTLY.get(name, "none")) for name, wanted in CONTROLS.items()]

    def status(self) -> SandboxState:
        if not self._is_there():
            return "removed"
        if (self._folder / "exit.json").exists():
            return "exited"
        if not (self._folder / "running.json").exists():
            return "created"
        return "running" if self._pid() is not None else "exited"

    def wait(self, timeout: float) -> ExitStatus | None:
        end = time.monotonic() + timeout
        while True:
            state = self.status()
            if state == "exited":
                return self._exit_status()
            if state == "removed":
                self._check_there()
            left = end - time.monotonic()
            if left <= 0:
                return None
            self._wait_once(left)

    def kill(self) -> None:
        pid = self._pid()
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)  # the launcher sweeps: it is the parent of orphans
        end = time.monotonic() + KILL_SECONDS
        while self._pid() is not None:
            if time.monotonic() > end:  # the launcher was stopped
                processes.kill_all([*processes.descendants(pid), pid])
            self._wait_once(0.05)

    def last_words(self) -> str:
        self._check_there()
        return _tail(self._folder / "stderr.log")

    def collect(self) -> Iterator[bytes]:
        self._check_there()
        return self._still_there(tar_of(self._folder / "out", "out"))

    def _still_there(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """`pieces`, the last of them only if the folder is still there. Otherwise files that were removed with it would
        be missing without an error."""
        held = b""
        for piece in pieces:
            if held:
                yield held
            held = piece
        self._check_there()
        yield held

    def remove(self) -> None:
        self.kill()
        # Renamed first: a sandbox that is half removed must not be taken for a whole one.
        doomed = self._folder.with_name(f"{_REMOVED}{self.name.removeprefix(_REMOVED)}-{secrets.token_hex(4)}"[:250])
        with contextlib.suppress(FileNotFoundError):
            self._folder.rename(doomed)
            _remove_tree(doomed)

    def _pid(self) -> int | None:
        """The launcher's pid if it is alive."""
        if self._launcher is not None:
            return self._launcher.pid if self._launcher.poll() is None else None
        running = _read_json(self._folder / "running.json")
        if running is None:
            return None
        pid = int(running["pid"])
        return pid if launcher.start_time(pid) == running["start"] else None

    def _wait_once(self, seconds: float) -> None:
        """Wait until the launcher has ended, at most `seconds`, or a moment if it has not started."""
        pid = self._pid()
        if pid is None:
            time.sleep(min(seconds, 0.02))
            return
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(seconds * 1000)
        finally:
            os.close(descriptor)

    def _exit_status(self) -> ExitStatus:
        found = _read_json(self._folder / "exit.json")
        if found is None:
            return ExitStatus(None, False, "its launcher was killed from outside")
        return ExitStatus(int(found["code"]), False, str(found["error"]))

    def _is_there(self) -> bool:
        return self._folder.exists() and not self.name.startswith(_REMOVED)

    def _check_there(self) -> None:
        if not self._is_there():
            raise SandboxRemoved(f"sandbox {self.name} was removed: {self._folder} does not exist.")


class LocalStream(PolledStream):
    """The two pipes."""

    def __init__(self, folder: Path, status: Callable[[], SandboxState]) -> None:
        super().__init__()
        self._status = status
        self._in = os.open(folder / "stdout", os.O_RDONLY | os.O_NONBLOCK)
        try:
            # For reading too: before the start no process holds the other end.
            self._out = os.open(folder / "stdin", os.O_RDWR | os.O_NONBLOCK)
        except BaseException:
            os.close(self._in)
            raise
        self._closed = False

    def fileno(self) -> int:
        return self._in

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self._in)
            os.close(self._out)

    def _write_fileno(self) -> int:
        return self._out

    def _receive(self) -> list[bytes] | None:
        data = os.read(self._in, CHUNK)
        if data:
            return [data]
        if self._status() in ("exited", "removed"):
            return None
        raise BlockingIOError(errno.EAGAIN, "the launcher has not opened the pipe yet")

    def _send(self, data: memoryview) -> int:
        if self._status() in ("exited", "removed"):
            raise SandboxError("the sandbox takes no more input: its process has ended.")
        return os.write(self._out, data[:CHUNK])


def _spec(request: SandboxRequest, folder: Path) -> dict[str, Any]:
    resources = request.resources
    tmp = str(folder / "tmp")
    env = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": tmp,
        "TMPDIR": tmp,
        "PYTHONHASHSEED": "0",
        **dict.fromkeys(_THREADS, "1"),
    }
    if named := os.environ.get("OPENTRACE"):  # images hold the copy; here the train phase imports it where it is
        env["OPENTRACE"] = str(Path(named).expanduser().absolute())
    return {
        "command": [*_command(request.command), "--local", "--out", str(folder / "out"), "--tmp", tmp],
        "env": env,
        "cwd": tmp,
        "rlimits": {
            "RLIMIT_AS": resources.memory_bytes,
            "RLIMIT_FSIZE": max(resources.disk_bytes, resources.tmp_bytes),
            "RLIMIT_NOFILE": resources.nofile,
            "RLIMIT_CORE": 0,
        },
        "cores": list(request.cpuset),
    }


def _command(command: tuple[str, ...]) -> list[str]:
    """`command` for this Python. ``-I`` sees no PYTHONPATH, so ``-m`` becomes code that first imports this package."""
    words = list(command)
    if words[0] in ("python3", "python"):
        words[0] = sys.executable
        if "-m" in words:
            at = words.index("-m")
            parent = str(package_dir().parent)
            code = (
                f"import runpy, sys; sys.path.insert(0, {parent!r}); import trace_bench; sys.path.remove({parent!r}); "
                "sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
            )
            words[at : at + 1] = ["-c", code]
    found = shutil.which(words[0])
    if found is None:
        raise SandboxError(f"this machine has no command {words[0]!r}; install it, or use --backend docker.")
    return [found, *words[1:]]


def _read_json(path: Path) -> dict[str, Any] | None:
    """The content of `path`; None if it is missing or no JSON object, as after a controller died making the folder."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _tail(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - STDERR_BYTES))
        return file.read(STDERR_BYTES).decode("utf-8", errors="replace")


def _remove_tree(folder: Path) -> None:
    """Remove `folder`, whatever the rights of its folders. No process runs in it that could put links into it."""
    for path, names, _ in os.walk(folder):
        for name in names:
            child = Path(path, name)
            if not child.is_symlink():
                child.chmod(0o700)
    if folder.exists():
        shutil.rmtree(folder)
