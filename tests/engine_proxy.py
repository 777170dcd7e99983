"""A proxy in front of the real Docker engine that changes some of its answers, as the engine of another host would give
them. Everything else is the real engine's."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ENGINE = "/var/run/docker.sock"
INFO = r"/info$"
INSPECT = r"/containers/[0-9a-f]{64}/json$"
START = r"/containers/[0-9a-f]{64}/start$"
ATTACH = r"/containers/[0-9a-f]{64}/attach$"
ARCHIVE = r"/containers/[0-9a-f]{64}/archive$"
CREATE = r"/containers/create$"
LIST = r"/containers/json$"

Change = Callable[[dict[str, Any]], None]
"""Changes an answer in place."""


class EngineProxy:
    """Answers on a Unix socket. Each connection carries one request, so that each is seen.

    Args:
        folder: where its socket lies.

    Attributes:
        changes: by a pattern of paths, what is done to the engine's answers.
        refusals: by a pattern of paths, the status and the message with which the proxy answers, without the engine.
        asked: the paths that were asked for, in order.
        written: bytes that came in for standard inputs of containers.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "engine.sock"
        self.changes: dict[str, Change] = {}
        self.refusals: dict[str, tuple[int, str]] = {}
        self.asked: list[str] = []
        self.written = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.socket(socket.AF_UNIX) as engine:
            head, rest = _head(client)
            path = head.split(b" ", 2)[1].decode().partition("?")[0]
            self.asked.append(path)
            for pattern, (status, message) in self.refusals.items():
                if re.search(pattern, path):
                    client.sendall(_answer(status, {"message": message}))
                    return
            change = next((found for pattern, found in self.changes.items() if re.search(pattern, path)), None)
            upgrade = b"\r\nupgrade:" in head.lower()
            if not upgrade:
                head = re.sub(rb"\r\nConnection: [^\r]*", b"", head, flags=re.I) + b"\r\nConnection: close"
            engine.connect(ENGINE)
            engine.sendall(head + b"\r\n\r\n" + rest)
            count = self._count if upgrade else None
            threading.Thread(target=_copy, args=(client, engine, count), daemon=True).start()
            if change is None:
                _copy(engine, client)
            else:
                client.sendall(_changed(engine, change))
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)  # ends the other direction

    def _count(self, size: int) -> None:
        self.written += size


@contextmanager
def engine_proxy(folder: Path) -> Iterator[EngineProxy]:
    """A proxy, which ends with the block."""
    proxy = EngineProxy(folder)
    try:
        yield proxy
    finally:
        proxy.close()


def with_apparmor(proxy: EngineProxy, profile: str = "docker-default") -> None:
    """Let the engine answer as that of a host with AppArmor does: it names the profile of a container only once it has
    started it.

    Args:
        profile: what it names then.
    """

    def info(answer: dict[str, Any]) -> None:
        answer["SecurityOptions"] = ["name=apparmor", *answer["SecurityOptions"]]

    def inspect(answer: dict[str, Any]) -> None:
        answer["AppArmorProfile"] = "" if answer["State"]["Status"] == "created" else profile

    proxy.changes |= {INFO: info, INSPECT: inspect}


NO_PARSER = (
    "AppArmor enabled on system but the docker-default profile could not be loaded: running '/sbin/apparmor_parser "
    "apparmor_parser -Kr /var/lib/docker/tmp/docker-default3084917528' failed with output: \nerror: "
    'exec: "apparmor_parser": executable file not found in $PATH'
)
"""What engine 20.10 said to each start on a host with AppArmor and without its parser, word for word."""


def without_apparmor_parser(proxy: EngineProxy) -> None:
    """Let the engine start nothing, as that of a host with AppArmor and without ``apparmor_parser``."""
    with_apparmor(proxy)
    proxy.refusals[START] = (500, NO_PARSER)


def _head(client: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = client.recv(65536)
        if not chunk:
            raise ConnectionResetError("no request")
        data += chunk
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _changed(engine: socket.socket, change: Change) -> bytes:
    response = http.client.HTTPResponse(engine)
    response.begin()
    answer = json.loads(response.read())
    if response.status in (200, 201):
        change(answer)
    return _answer(response.status, answer)


def _answer(status: int, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} {http.client.responses[status]}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data


def _copy(source: socket.socket, target: socket.socket, count: Callable[[int], None] | None = None) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            if count is not None:
                count(len(data))
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
