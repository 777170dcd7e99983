"""The stream's own parts, on a socket pair: framing, deadline, buffers."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import make_certificates
from trace_bench.errors import SandboxError
from trace_bench.sandbox.docker_stream import Connection, DockerStream
from trace_bench.sandbox.errors import StreamTimeout


@pytest.fixture
def pair() -> Iterator[tuple[DockerStream, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    stream = DockerStream(Connection(ours, b""))
    yield stream, theirs
    stream.close()
    theirs.close()


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">BxxxI", kind, len(data)) + data


def test_frames_are_put_together_however_they_are_cut(pair: tuple[DockerStream, socket.socket]) -> None:
    stream, engine = pair
    numbers = random.Random(0)
    pieces = [(numbers.choice((1, 2)), numbers.randbytes(numbers.choice((0, 1, 7, 8, 9, 3000)))) for _ in range(200)]
    data = b"".join(frame(kind, piece) for kind, piece in pieces)

    def send() -> None:
        at = 0
        while at < len(data):
            size = numbers.choice((1, 2, 7, 8, 9, 500))
            engine.sendall(data[at : at + size])
            at += size
        engine.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=send)
    thread.start()
    got = b""
    while piece := stream.read(10):
        got += piece
    thread.join()
    assert piece == b""
    assert got == b"".join(piece for kind, piece in pieces if kind == 1)


def test_what_came_with_the_engines_answer_is_read_first() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    whole = frame(1, b"early late")
    stream = DockerStream(Connection(ours, whole[:11]))
    theirs.sendall(whole[11:])
    got = stream.read(5) or b""
    got += stream.read(5) or b"" if len(got) < 10 else b""
    assert got == b"early late"
    stream.close()
    theirs.close()


def test_write_to_a_sandbox_that_takes_nothing_times_out(pair: tuple[DockerStream, socket.socket]) -> None:
    stream, _ = pair
    stream._deadline = 0.3
    began = time.monotonic()
    with pytest.raises(StreamTimeout, match=r"did not take [0-9]+ bytes within 0.3 s"):
        stream.write(bytes(4 << 20))
    assert 0.25 < time.monotonic() - began < 5


def test_write_after_the_end_is_an_error(pair: tuple[DockerStream, socket.socket]) -> None:
    stream, engine = pair
    engine.shutdown(socket.SHUT_WR)
    assert stream.read(5) == b""
    with pytest.raises(SandboxError, match="has ended"):
        stream.write(b"x")


def test_broken_connection_is_a_sandbox_error(pair: tuple[DockerStream, socket.socket]) -> None:
    stream, engine = pair
    engine.close()
    with pytest.raises(SandboxError):
        for _ in range(10):
            stream.write(bytes(1 << 20))


def test_reader_blocked_in_another_thread_does_not_hold_a_writer_up(pair: tuple[DockerStream, socket.socket]) -> None:
    stream, engine = pair
    got: list[bytes | None] = []
    reader = threading.Thread(target=lambda: got.append(stream.read(10)))
    reader.start()
    time.sleep(0.1)
    stream.write(b"question")
    assert engine.recv(100) == b"question"
    engine.sendall(frame(1, b"answer"))
    reader.join(5)
    assert got == [b"answer"]


def test_a_stream_over_tls_carries_both_directions_at_once(tmp_path: Path) -> None:
    """OpenSSL does not allow two threads in one connection: a reader took the state that a writer left for the end."""
    make_certificates(folder := tmp_path / "tls")
    ours, theirs = socket.socketpair()
    accepts = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepts.load_cert_chain(folder / "server.pem", folder / "server-key.pem")
    dials = ssl.create_default_context(cafile=folder / "ca.pem")
    message, count = bytes(300), 25_000

    def peer() -> None:
        with accepts.wrap_socket(theirs, server_side=True) as engine:
            left = len(message) * count
            while left and (data := engine.recv(4096)):
                left -= len(data)
                engine.sendall(frame(1, data))

    engine = threading.Thread(target=peer)
    engine.start()
    connection = dials.wrap_socket(ours, server_hostname="127.0.0.1")
    connection.setblocking(False)
    stream = DockerStream(Connection(connection, b""))

    def write() -> None:
        for _ in range(count):
            stream.write(message)

    writer = threading.Thread(target=write)
    writer.start()
    got = 0
    while got < len(message) * count:
        piece = stream.read(20)
        assert piece, f"the stream ended, or stood still, after {got} bytes of {len(message) * count}"
        got += len(piece)
    writer.join()
    engine.join()
    stream.close()
