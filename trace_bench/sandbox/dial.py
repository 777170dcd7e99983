"""A raw two-way stream to the engine, for attach.

Not through the SDK's ``attach_socket``: it hands out the socket below a buffered reader, so that output which arrives
together with the answer's header is lost, and the stream of a running container is torn from its first byte on.
"""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from dataclasses import dataclass, field
from typing import IO
from urllib.parse import urlencode, urlsplit

from trace_bench.errors import SandboxError
from trace_bench.sandbox.errors import EngineGone, SandboxGone

HEADER_BYTES = 64 * 1024
CONNECT = 30.0
"""Seconds to reach another machine."""
_SSH_OPTIONS = ("ConnectTimeout=30", "ServerAliveInterval=15", "ServerAliveCountMax=4")
"""A machine that is gone is noticed within a minute."""
HANDSHAKES = 6
"""Connections to one ssh server that may be under way: it drops some from the eleventh on (``MaxStartups``)."""
_HANDSHAKE = 60.0
"""Seconds after which one counts as made."""
_handshakes: dict[str, threading.BoundedSemaphore] = {}
_making = threading.Lock()


class Handshake:
    """A place among the connections to an ssh server that are under way; waits for one. Nobody says when one is made:
    its first answer does."""

    def __init__(self, url: str) -> None:
        with _making:
            self._places = _handshakes.setdefault(url, threading.BoundedSemaphore(HANDSHAKES))
        self._held = self._places.acquire(timeout=_HANDSHAKE)

    def over(self) -> None:
        """Give the place to others; twice does no harm."""
        held, self._held = self._held, False
        if held:
            self._places.release()


@dataclass(frozen=True)
class Endpoint:
    """Where the engine listens, in the docker client's own notation: ``unix://``, ``tcp://``, ``https://``, ``ssh://``.

    Attributes:
        host: name of the `trace_bench.sandbox.base.Host` that it is of.
    """

    url: str
    tls: ssl.SSLContext | None = None
    host: str = ""


@dataclass
class Connection:
    """An upgraded connection.

    Attributes:
        leftover: bytes that came together with the header and belong to the stream.
        turn: held for each call of `sock`, which does not block. A TLS connection has one state for reading and
            writing: without the lock, a reader takes what a writer left there for the end of the stream.
    """

    sock: socket.socket
    leftover: bytes
    helper: subprocess.Popen[bytes] | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        self.sock.close()
        if self.helper is not None:
            self.helper.terminate()
            self.helper.wait()


def attach(endpoint: Endpoint, api_version: str, container: str, timeout: float) -> Connection:
    """Attach to stdin, stdout and stderr of `container`. The socket comes back non-blocking.

    Raises:
        EngineGone: nothing listens there. SandboxGone: no such container. SandboxError: the engine refuses.
    """
    query = urlencode({"stream": 1, "stdin": 1, "stdout": 1, "stderr": 1})
    request = (
        f"POST /v{api_version}/containers/{container}/attach?{query} HTTP/1.1\r\n"
        "Host: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"
    )
    handshake = Handshake(endpoint.url) if endpoint.url.startswith("ssh:") else None
    try:
        return _attached(endpoint, request, container, timeout)
    finally:
        if handshake is not None:
            handshake.over()


def _attached(endpoint: Endpoint, request: str, container: str, timeout: float) -> Connection:
    try:
        sock, helper = _dial(endpoint, timeout)
    except OSError as error:
        gone = f"the Docker engine at {endpoint.url} does not answer: {error}."
        raise EngineGone(gone, host=endpoint.host) from error
    connection = Connection(sock, b"", helper)
    try:
        sock.sendall(request.encode())
        status, body = _read_header(sock, timeout)
        if status not in (101, 200):
            raise _refusal(status, body, container)
        connection.leftover = body
        sock.setblocking(False)
    except BaseException as error:
        connection.close()
        if isinstance(error, OSError) and not isinstance(error, SandboxError):
            gone = f"the Docker engine at {endpoint.url} broke off the attach: {error}."
            raise EngineGone(gone, host=endpoint.host) from error
        raise
    return connection


def _dial(endpoint: Endpoint, timeout: float) -> tuple[socket.socket, subprocess.Popen[bytes] | None]:
    parts = urlsplit(endpoint.url.replace("http+unix:", "unix:", 1))
    if parts.scheme == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout)
        try:
            sock.connect(parts.path or "/" + parts.netloc)
        except BaseException:
            sock.close()
            raise
        return sock, None
    if parts.scheme == "ssh":
        return dial_ssh(endpoint.url)
    host = parts.hostname or "localhost"
    sock = socket.create_connection(
        (host, parts.port or (2376 if endpoint.tls else 2375)), timeout=min(timeout, CONNECT)
    )
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(sock)
        if endpoint.tls is not None:
            sock = endpoint.tls.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
    return sock, None


def _keep_alive(sock: socket.socket) -> None:
    """Find out within a minute or so that the other machine is gone, also while nobody has anything to say."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if (option := getattr(socket, name, None)) is not None:  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def dial_ssh(url: str, errors: IO[bytes] | int = subprocess.DEVNULL) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """As the docker client does: ``docker system dial-stdio`` at the other end of an ssh, which complains to `errors`.

    It asks nobody for a password: it has no terminal.
    """
    parts = urlsplit(url)
    port = ["-p", str(parts.port)] if parts.port else []
    user = ["-l", parts.username] if parts.username else []
    options = [f"-o{option}" for option in _SSH_OPTIONS]
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


def _read_header(sock: socket.socket, timeout: float) -> tuple[int, bytes]:
    """Status code, and whatever came after the header."""
    end = time.monotonic() + timeout
    data = bytearray()
    while b"\r\n\r\n" not in data:
        if len(data) > HEADER_BYTES or time.monotonic() > end:
            raise SandboxError("the Docker engine's answer to attach has no end; is that really an engine?")
        sock.settimeout(max(0.001, end - time.monotonic()))
        chunk = sock.recv(4096)
        if not chunk:
            raise ConnectionResetError("end of the connection")
        data += chunk
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split()
    if len(words) < 2 or not words[1].isdigit():
        raise SandboxError("the Docker engine's answer to attach is no HTTP; is that really an engine?")
    return int(words[1]), body


def _refusal(status: int, body: bytes, container: str) -> SandboxError:
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = body.decode("utf-8", errors="replace").strip() or f"status {status}"
    if status == 404:
        return SandboxGone(f"sandbox {container[:12]} is no longer there: {message}.")
    return SandboxError(f"the Docker engine does not attach to sandbox {container[:12]}: {message}.")
