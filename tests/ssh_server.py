"""An ssh server on loopback, with a port and keys of its own, in front of one of `tests.engines`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engines import OtherEngine

PACKAGES = ("openssh-server", "libwrap0")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trace-bench" / "sshd"


@dataclass(frozen=True)
class SshServer:
    """A running server.

    Attributes:
        url: as in ``docker.hosts``.
        path: a ``PATH`` whose ``ssh`` has the client's key and knows the server's.
    """

    url: str
    path: str
    process: subprocess.Popen[bytes]


@contextmanager
def ssh_server(engine: OtherEngine) -> Iterator[SshServer]:
    """A server whose ``docker`` is of `engine`. Skips, with the reason, where there can be none."""
    sshd, libraries = _sshd()
    with tempfile.TemporaryDirectory(prefix="tb-ssh-", dir="/tmp") as top, socket.socket() as probe:
        folder = Path(top)
        for name in ("host", "client"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/client.pub\n"
            f"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            f"SetEnv DOCKER_HOST={engine.url} PATH={os.environ['PATH']}\n"
        )
        (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
        (folder / "ssh_config").write_text(
            f"Host *\nIdentityFile {folder}/client\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
        )
        (folder / "bin").mkdir()
        ours = folder / "bin" / "ssh"
        ours.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
        ours.chmod(0o755)
        # The user that sshd is to run as is there, for it alone.
        (folder / "passwd").write_text(Path("/etc/passwd").read_text() + "sshd:x:65000:65534::/run/sshd:/bin/false\n")
        script = 'mount --bind "$1/passwd" /etc/passwd && mkdir -p /run/sshd && exec "$2" -D -e -f "$1/sshd_config"'
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                ["unshare", "--mount", "--", "sh", "-c", script, "sh", folder, sshd],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "LD_LIBRARY_PATH": libraries},
            )  # fmt: skip
        try:
            _wait_for(port, process, folder / "log")
            path = f"{folder / 'bin'}:{os.environ['PATH']}"
            yield SshServer(f"ssh://root@127.0.0.1:{port}", path, process)
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.skip(f"sshd does not run here: {log.read_text(errors='replace').strip()[-300:]}")


def _sshd() -> tuple[str, str]:
    """Path of sshd, and of libraries that it needs besides the system's; unpacked Debian packages where it is not
    installed. The system stays as it is."""
    for program in ("ssh", "ssh-keygen", "unshare"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing")
    if os.geteuid() != 0:
        pytest.skip("starting an ssh server for this user needs root")
    if found := shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin"):
        return found, ""
    root = CACHE / "root"
    if not (root / "usr/sbin/sshd").is_file():
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            pytest.skip("sshd is missing")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as fresh:
            done = subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=fresh, capture_output=True, text=True)
            if done.returncode != 0:
                pytest.skip(f"sshd is missing, and its package cannot be had: {done.stderr.strip()[-300:]}")
            for package in Path(fresh).glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", package, Path(fresh, "root")], check=True)
            shutil.rmtree(root, ignore_errors=True)
            Path(fresh, "root").rename(root)
    libraries = (*root.glob("lib/*-linux-gnu"), *root.glob("usr/lib/*-linux-gnu"))
    return str(root / "usr/sbin/sshd"), ":".join(map(str, libraries))
