"""Starts the program ``harbor``: when it is needed, or ahead, since it imports for longer than a short trial takes.

A process that was started ahead has a private folder and waits for a line of JSON, with its arguments and variables. It
serves one trial. When its standard input is closed without a line, it removes the folder and ends.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_STARTER = """
import json, os, shutil, sys
import litellm
from harbor.cli.main import app
with __import__("contextlib").suppress(ImportError):
    import harbor.agents.terminus_2.terminus_2, harbor.environments.docker.docker
line = sys.stdin.readline()
if not line:
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    sys.exit(0)
given = json.loads(line)
os.environ.update(given["variables"])
sys.argv = ["harbor", *given["words"]]
sys.exit(app())
"""


@dataclass(frozen=True)
class Started:
    """A private folder, and how the program is begun in it.

    Attributes:
        place: has the folders ``home``, ``tmp``, ``agent`` and ``jobs``.
        begin: begins the program with words and a whole environment; raises OSError.
    """

    place: Path
    begin: Callable[[Sequence[str], Mapping[str, str]], subprocess.Popen[bytes]]


@dataclass(frozen=True)
class Harbor:
    """How the program is called.

    Attributes:
        command: the program, and its arguments before ``run``.
    """

    command: Sequence[str]

    @contextmanager
    def opened(self, folder: Path | None) -> Iterator[Started]:
        """The program in a private folder below `folder`, by default that for temporary files. It is removed."""
        place = private_folder(folder)
        try:
            yield Started(place, lambda words, environment: self.begin(place, words, environment))
        finally:
            remove(place)

    def begin(self, place: Path, words: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start the program now."""
        return _begun([*self.command, *words], place, environment, subprocess.DEVNULL)


@dataclass(frozen=True)
class HarborAhead(Harbor):
    """A program of which a process is always started ahead. Safe to use from many threads.

    Attributes:
        environment: of such a process, by its private folder.
    """

    environment: Callable[[Path], Mapping[str, str]] = lambda place: {}
    _waiting: list[tuple[Path, subprocess.Popen[bytes]]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self) -> None:
        """Start a process ahead, unless one waits; nothing happens if it cannot be."""
        python = interpreter_of(Path(self.command[0]))
        with self._lock:
            if python is None or any(process.poll() is None for _, process in self._waiting):
                return
            place = private_folder(None)
            try:
                command = [str(python), "-c", _STARTER, str(place)]
                process = _begun(command, place, self.environment(place), subprocess.PIPE)
            except OSError:
                remove(place)
                return
            self._waiting.append((place, process))

    @contextmanager
    def opened(self, folder: Path | None) -> Iterator[Started]:
        with self._lock:
            place, process = self._waiting.pop() if self._waiting else (None, None)
        self.prepare()
        if place is None or process is None or process.poll() is not None:
            if place is not None:
                remove(place)
            with super().opened(folder) as started:
                yield started
            return
        try:
            yield Started(place, lambda words, environment: _told(process, words, environment))
        finally:
            _ended(process)
            remove(place)

    def close(self) -> None:
        """End what was started ahead."""
        with self._lock:
            waiting, self._waiting[:] = list(self._waiting), []
        for place, process in waiting:
            _ended(process)
            remove(place)


def interpreter_of(program: Path) -> Path | None:
    """The Python that the script `program` names in its first line; None if that is no Python."""
    try:
        with program.open("rb") as file:
            first = file.readline(4096).decode("utf-8", "replace").strip()
    except OSError:
        return None
    found = Path(first.removeprefix("#!").strip())
    return found if first.startswith("#!/") and found.name.startswith("python") and found.is_file() else None


def private_folder(parent: Path | None) -> Path:
    """A new folder that only this user can look into."""
    place = Path(tempfile.mkdtemp(prefix="trace-bench-trial-", dir=parent)).resolve()
    for name in ("home", "tmp", "agent", "jobs"):
        (place / name).mkdir()
    return place


def remove(place: Path) -> None:
    """Remove a private folder. Files of a container that was killed may be root's, and stay if this user is not."""
    shutil.rmtree(place, ignore_errors=True)


def _begun(command: Sequence[str], place: Path, environment: Mapping[str, str], stdin: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, cwd=place / "home", env=dict(environment), stdin=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def _told(
    process: subprocess.Popen[bytes], words: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    assert process.stdin is not None
    with process.stdin as pipe:
        pipe.write(json.dumps({"words": list(words), "variables": dict(environment)}).encode() + b"\n")
    return process


def _ended(process: subprocess.Popen[bytes]) -> None:
    """End a process that has had no line, and let go of its pipes."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
