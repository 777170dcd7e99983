"""Further Docker engines on this machine, which stand in for other machines.

Each is the installed dockerd with a data root, sockets, and namespaces of its own: its network cannot meet the first
engine's, and all that it started goes with it, as when a machine loses its power. They have no bridge, for jobs run
without a network anyway. One starts in half a second.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 30.0
"""Seconds that an engine has to start, or to end."""
NEEDED = ("dockerd", "containerd", "runc", "unshare", "docker-init", "docker")

LAUNCH = """
import os, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"])
command = sys.argv[1:]
if command[0].isdigit():
    os.dup2(int(command.pop(0)), 3, inheritable=True)
    os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execvp(command[0], command)
"""
"""Hands a listening socket over as systemd does."""


@dataclass
class OtherEngine:
    """One engine. It has no images.

    Attributes:
        listening: a listening socket of this machine's network on which it answers over TLS, by the certificates in
            the folder ``tls``.
        settings: further ones of its ``daemon.json``.
    """

    name: str
    folder: Path
    listening: socket.socket | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return f"unix://{self.folder}/s"

    @property
    def tcp_url(self) -> str:
        assert self.listening is not None
        return f"tcp://127.0.0.1:{self.listening.getsockname()[1]}"

    @property
    def tls(self) -> Path:
        """The folder with ``ca.pem``, ``cert.pem`` and ``key.pem``."""
        return self.folder / "tls"

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it, again or for the first time, and wait until it answers."""
        self.folder.mkdir(exist_ok=True)
        for name in ("exec", "pid", "s"):  # as after a start of the machine
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).unlink(missing_ok=True)
        # Newer ones have an identity below their data root, these one per machine.
        settings = {"deprecated-key-path": f"{self.folder}/key.json"} if _major() < 23 else {}
        (self.folder / "daemon.json").write_text(json.dumps({**settings, **self.settings}))
        command = [
            "dockerd", "--config-file", f"{self.folder}/daemon.json", "--host", self.url,
            "--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec",
            "--pidfile", f"{self.folder}/pid", "--bridge", "none", "--iptables=false", "--ip6tables=false",
            "--ip-forward=false", "--ip-masq=false", "--userland-proxy=false",
        ]  # fmt: skip
        fds: tuple[int, ...] = ()
        if self.listening is not None:
            # The engine's own network has no way in.
            fds = (self.listening.fileno(),)
            command += ["--host", "fd://", "--tlsverify", f"--tlscacert={self.tls}/ca.pem",
                        f"--tlscert={self.tls}/server.pem", f"--tlskey={self.tls}/server-key.pem"]  # fmt: skip
        enter = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*enter, "docker-init", "--", sys.executable, "-c", LAUNCH, *map(str, fds), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=fds, start_new_session=True,
            )  # fmt: skip
        _wait_for(self._answers, f"engine {self.name} does not start; see {self.folder}/log")

    def stop(self) -> None:
        """End it in order: its containers are ended first."""
        if self._process is None:
            return
        for child in _children(self._process.pid):
            os.kill(child, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self.vanish()

    def vanish(self) -> None:
        """End it with all that it runs, at once."""
        if self._process is not None:
            family = _children(self._process.pid)
            self._process.kill()
            self._process.wait()
            self._process = None
            # Its namespace is empty once the first process there has ended.
            _wait_for(lambda: not any(map(_lives, family)), f"engine {self.name} does not end")

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It takes connections, and answers none: as a machine that hangs."""
        assert self._process is not None
        family = [pid for child in _children(self._process.pid) for pid in _children(child)]
        for pid in family:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in family:
                os.kill(pid, signal.SIGCONT)

    def docker(self, *arguments: str, **options: Any) -> str:
        """What ``docker`` says on it."""
        done = subprocess.run(
            ["docker", "-H", self.url, *arguments], capture_output=True, text=True, timeout=120, check=False, **options
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def load(self, *images: str) -> None:
        """Copy images of the usual engine to it."""
        with subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE) as save:
            self.docker("load", "-q", stdin=save.stdout)
        assert save.returncode == 0

    def containers(self) -> list[str]:
        return self.docker("ps", "-aq").split()

    def volumes(self) -> list[str]:
        return self.docker("volume", "ls", "-q").split()

    def _answers(self) -> bool:
        if not self.is_up:
            pytest.skip(f"engine {self.name} does not run here: {_last_line(self.folder / 'log')}")
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(1)
                probe.connect(f"{self.folder}/s")
                probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b"200 OK" in probe.recv(100)
        except OSError:
            return False


@contextmanager
def engines(count: int, *, tls: int = 0, settings: Mapping[str, Any] | None = None) -> Iterator[list[OtherEngine]]:
    """`count` engines, of which the first `tls` answer over TLS too. Skips, with the reason, where there can be none.

    What they leave is removed with them.
    """
    if os.geteuid() != 0:
        pytest.skip("no engine: starting one needs root")
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        pytest.skip(f"no engine: {missing[0]} is missing")
    with tempfile.TemporaryDirectory(prefix="tb-engines-", dir="/tmp") as top, ExitStack() as stack:
        found = [OtherEngine(f"engine-{i}", Path(top, str(i)), settings=settings or {}) for i in range(count)]
        for engine in found[:tls]:
            engine.listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            engine.folder.mkdir()
            make_certificates(engine.tls)
        for engine in found:
            stack.callback(engine.stop)
            engine.start()
        yield found


def make_certificates(folder: Path) -> None:
    """A CA, and certificates by it for a server at 127.0.0.1 and for a client."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is missing, which makes the certificates")
    script = Path(__file__).resolve().parent.parent / "scripts" / "engine-certificates"
    subprocess.run([script, folder, "127.0.0.1", "2"], check=True, capture_output=True)


def _major() -> int:
    """Of the installed engine's version."""
    said = subprocess.run(["dockerd", "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.partition("version ")[2].partition(".")[0])


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it says nothing"


def _wait_for(condition: Any, otherwise: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)
