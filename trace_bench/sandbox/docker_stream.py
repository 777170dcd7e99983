"""The attached stream of a container.

The SDK's ``attach_socket`` returns the socket below a buffered reader. Output that arrived together with the header of
the answer stays in that reader and is lost, so the stream of a running container would be torn from its first byte on.
`attach` takes those bytes out of the reader.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import docker

from trace_bench.sandbox.errors import EngineGone
from trace_bench.sandbox.streams import CHUNK, PolledStream
from trace_bench.worker.frames import FrameFormat, FrameReader

CONNECT_SECONDS = 30.0
STDERR = 2
_FRAMES = FrameFormat(struct.Struct(">BxxxI"), 2**32 - 1)
"""The engine's frames: number of the stream, length of the payload."""
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass
class Connection:
    """An upgraded connection, whose socket does not block.

    Attributes:
        leftover: bytes of the stream that came together with the header.
        response: the SDK's answer, which owns the connection.
        turn: held for each call of `sock`. A TLS connection has one state for reading and writing: without the lock, a
            reader takes what a writer left there for the end of the stream.
    """

    sock: socket.socket
    leftover: bytes = b""
    response: Any = None
    turn: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        if self.response is not None:
            self.response.close()
        self.sock.close()


def attach(client: docker.APIClient, container: str, timeout: float) -> Connection:
    """Attach to stdin, stdout and stderr of `container`.

    Raises:
        docker.errors.APIError, requests.RequestException: as other calls of the SDK.
    """
    response: Any = client.post(
        f"{client.base_url}/v{client.api_version}/containers/{container}/attach",
        params={"stream": 1, "stdin": 1, "stdout": 1, "stderr": 1},
        headers={"Connection": "Upgrade", "Upgrade": "tcp"},
        stream=True,
        timeout=(CONNECT_SECONDS, timeout),
    )
    client._raise_for_status(response)  # type: ignore[attr-defined]
    reader = response.raw._fp.fp
    sock: socket.socket = reader.raw._sock
    sock.setblocking(False)
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        _keep_alive(sock)
    leftover = b""
    with contextlib.suppress(*_NOT_NOW):
        leftover = reader.peek()
    return Connection(sock, leftover, response)


def _keep_alive(sock: socket.socket) -> None:
    """Have the kernel find out within a minute or so that the other machine is gone, also while no data flows."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if (option := getattr(socket, name, None)) is not None:  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


class DockerStream(PolledStream):
    """The attached stream. Its stderr is dropped: the engine's log keeps it."""

    def __init__(self, connection: Connection, host: str = "") -> None:
        super().__init__()
        self._host = host
        self._connection = connection
        self.closed = False
        self._frames = FrameReader(_FRAMES)

    def fileno(self) -> int:
        return self._connection.sock.fileno()

    _write_fileno = fileno

    def close(self) -> None:
        self.closed = True
        self._connection.close()

    def _receive(self) -> list[bytes] | None:
        if self._connection.leftover:
            data, self._connection.leftover = self._connection.leftover, b""
        else:
            with self._turn("the Docker engine broke off the stream of a sandbox"):
                data = self._connection.sock.recv(CHUNK)
        return [payload for kind, payload in self._frames.feed(data) if kind != STDERR] if data else None

    def _send(self, data: memoryview) -> int:
        with self._turn("the sandbox takes no more input; it has ended or is gone"):
            return self._connection.sock.send(data[:CHUNK])

    @contextlib.contextmanager
    def _turn(self, failure: str) -> Iterator[None]:
        try:
            with self._connection.turn:
                yield
        except _NOT_NOW as error:
            raise BlockingIOError from error
        except OSError as error:
            raise EngineGone(f"{failure}: {error}.", host=self._host) from error
