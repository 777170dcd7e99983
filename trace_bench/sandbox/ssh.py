"""An engine behind ``ssh://``, through the ssh program that the user has set up.

The SDK would need paramiko to reach such an engine, even to start that program.
"""

from __future__ import annotations

import http.client
import socket
import subprocess
import tempfile
import threading
from typing import IO, Any
from urllib.parse import urlsplit

import requests
import requests.adapters
import urllib3.connection
import urllib3.connectionpool

from trace_bench.display.text import quoted

PLACEHOLDER = "http://engine-over-ssh.invalid:80"
"""Base address for the SDK. No such host is ever looked up."""
OPTIONS = ("ConnectTimeout=30", "ServerAliveInterval=15", "ServerAliveCountMax=4")
"""A machine that is gone is noticed within a minute."""
HANDSHAKES = 6
"""Connections to one ssh server that may be under way: it drops some from the eleventh on (``MaxStartups``)."""
HANDSHAKE_SECONDS = 60.0
"""Seconds after which a connection counts as made."""


class SshAdapter(requests.adapters.HTTPAdapter):
    """Sends every request through one ``ssh … docker system dial-stdio`` per pooled connection.

    Args:
        handshakes: limits the connections to the server that are under way; for all threads of an engine.
    """

    def __init__(self, url: str, handshakes: threading.Semaphore) -> None:
        self._url = url
        self._handshakes = handshakes
        self._pool: _Pool | None = None
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> _Pool:
        if self._pool is None:
            self._pool = _Pool(self._url, self._handshakes)
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        super().close()


class _Pool(urllib3.connectionpool.HTTPConnectionPool):
    def __init__(self, url: str, handshakes: threading.Semaphore) -> None:
        super().__init__("engine-over-ssh.invalid", maxsize=4)
        self._url = url
        self._handshakes = handshakes

    def _new_conn(self) -> _Connection:
        return _Connection(self._url, self._handshakes)


class _Connection(urllib3.connection.HTTPConnection):
    def __init__(self, url: str, handshakes: threading.Semaphore) -> None:
        super().__init__("engine-over-ssh.invalid")
        self._url = url
        self._handshakes = handshakes
        self._helper: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None
        self._complaint = ""
        self._under_way = False

    def connect(self) -> None:
        self._complaint = ""
        self._under_way = self._handshakes.acquire(timeout=HANDSHAKE_SECONDS)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `close` does
        self.sock, self._helper = _dial(self._url, self._complaints)
        timeout = self.timeout
        self.sock.settimeout(timeout if isinstance(timeout, (int, float)) else None)

    def getresponse(self) -> Any:
        try:
            answer = super().getresponse()  # which closes the connection if it breaks
        except (ConnectionError, http.client.HTTPException) as error:
            lost = error
        else:
            self._connected()
            return answer
        # The socket only shows that the other end hung up. The reason is what ssh, or docker there, has written.
        raise ConnectionError(quoted(f"ssh says: {self._complaint}", 300)) if self._complaint else lost

    def _connected(self) -> None:
        """Let another connection begin. ssh does not report that one is made; the first answer shows it."""
        if self._under_way:
            self._under_way = False
            self._handshakes.release()

    def close(self) -> None:
        super().close()
        self._connected()
        if self._helper is not None:
            self._helper.terminate()
            self._helper.wait()
            self._helper = None
        if self._complaints is not None:
            self._complaints.seek(0)
            lines = self._complaints.read(4096).decode("utf-8", errors="replace").strip().splitlines()
            self._complaint = lines[-1] if lines else ""
            self._complaints.close()
            self._complaints = None


def _dial(url: str, errors: IO[bytes]) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """As the docker client does: ``docker system dial-stdio`` at the other end of an ssh, whose stderr is `errors`.

    ssh has no terminal, so it asks for no password.
    """
    parts = urlsplit(url)
    port = ["-p", str(parts.port)] if parts.port else []
    user = ["-l", parts.username] if parts.username else []
    options = [f"-o{option}" for option in OPTIONS]
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            helper = subprocess.Popen(
                ["ssh", *options, *user, *port, "--", parts.hostname or "", "docker system dial-stdio"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=errors,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    return ours, helper
