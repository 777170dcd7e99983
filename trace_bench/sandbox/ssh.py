"""An engine behind ``ssh://``, through the ssh program that the user has set up; the SDK would need paramiko for it."""

from __future__ import annotations

import http.client
import subprocess
import tempfile
from typing import IO, Any

import requests
import requests.adapters
import urllib3.connection
import urllib3.connectionpool

from trace_bench.artifacts.jsonio import printable
from trace_bench.sandbox.dial import Handshake, dial_ssh

PLACEHOLDER = "http://engine-over-ssh.invalid:80"
"""What the SDK is told; no such host is ever looked up."""


class SshAdapter(requests.adapters.HTTPAdapter):
    """Sends every request through one ``ssh … docker system dial-stdio`` per pooled connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: _Pool | None = None
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> _Pool:
        if self._pool is None:
            self._pool = _Pool(self._url)
        return self._pool

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        super().close()


class _Pool(urllib3.connectionpool.HTTPConnectionPool):
    def __init__(self, url: str) -> None:
        super().__init__("engine-over-ssh.invalid", maxsize=4)
        self._url = url

    def _new_conn(self) -> _Connection:
        return _Connection(self._url)


class _Connection(urllib3.connection.HTTPConnection):
    def __init__(self, url: str) -> None:
        super().__init__("engine-over-ssh.invalid")
        self._url = url
        self._helper: subprocess.Popen[bytes] | None = None
        self._complaints: IO[bytes] | None = None
        self._said = ""
        self._handshake: Handshake | None = None

    def connect(self) -> None:
        self._said = ""
        self._handshake = Handshake(self._url)
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `close` does
        self.sock, self._helper = dial_ssh(self._url, self._complaints)
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
        # All that the socket says is that the other end hung up. Why, ssh or the docker there has said.
        raise ConnectionError(printable(f"ssh says: {self._said}", 300)) if self._said else lost

    def _connected(self) -> None:
        if self._handshake is not None:
            self._handshake.over()
            self._handshake = None

    def close(self) -> None:
        super().close()
        self._connected()
        if self._helper is not None:
            self._helper.terminate()
            self._helper.wait()
            self._helper = None
        if self._complaints is not None:
            self._complaints.seek(0)
            said = self._complaints.read(4096).decode("utf-8", errors="replace").strip().splitlines()
            self._said = said[-1] if said else ""
            self._complaints.close()
            self._complaints = None
