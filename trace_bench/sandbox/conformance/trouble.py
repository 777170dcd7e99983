"""The control stream under load and torn, and sandboxes that another program removes.

The programs inside use the real control stream (`trace_bench.worker.control_stream`), handed in as source, since the
image need not hold it.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from trace_bench.errors import SandboxError
from trace_bench.sandbox.base import ExitStatus, Sandbox, Stream
from trace_bench.sandbox.conformance.lab import ECHO, PATIENCE, SLEEP, Lab, content, needs, raises, read_until
from trace_bench.sandbox.errors import SandboxRemoved
from trace_bench.sandbox.labels import JOB
from trace_bench.worker import control_stream
from trace_bench.worker.control_stream import PADDING, Decoder, Mailbox, Message

LOAD = 120_000
"""Numbered messages each way; as many acknowledgements are on the way beside them."""
TORN = 15_000
CUTS = 8

SPEAKER = """
import select, zlib
source, COUNT, BUSY = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "busy"
exec(compile(source, "control_stream", "exec"), globals())
busy = os.fork() if BUSY else None
if busy == 0:
    while True: sum(range(1000))
os.set_blocking(0, False), os.set_blocking(1, False)
mailbox, decoder, out, digest, ended = Mailbox(), Decoder(), bytearray(), 0, False
out += mailbox.pack_ephemeral("ready")
while not ended or mailbox.pending:
    while mailbox.sent < COUNT and mailbox.pending < 20_000 and len(out) < 1 << 20:
        out += mailbox.pack("tick", {"k": (mailbox.sent + 1) * 7 % 1009})
    if mailbox.received == COUNT and mailbox.sent == COUNT and not ended:
        ended = True
        out += mailbox.pack("end", {"digest": digest})
    reading, writing, _ = select.select([0], [1] if out else [], [], 60)
    if writing:
        try: del out[:os.write(1, out[:65536])]
        except BlockingIOError: pass
    if not reading: continue
    data = os.read(0, 1 << 16)
    if not data: sys.exit(3)
    before = mailbox.received
    for message in decoder.feed(data):
        if message.type == "hello":
            out += PADDING + mailbox.pack_ephemeral("hello", {"received": mailbox.received})
            out += mailbox.resend(message.header["received"])
        elif message.type == "ack": mailbox.acknowledged(message.header["received"])
        elif mailbox.accept(message): digest = zlib.crc32(b"%d" % message.header["k"], digest)
    if mailbox.received != before: out += mailbox.ack()
os.set_blocking(1, True)
if busy: os.kill(busy, 9)
"""


class Speaker:
    """Our end: sends `count` numbered messages and takes as many, over one stream after another.

    Raises of its methods:
        AssertionError: a number is missing or comes twice. SandboxError: the stream broke.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._mailbox = Mailbox()
        self._lock = threading.Lock()
        self.sent_digest = self.got_digest = 0
        self.their_digest: int | None = None

    @property
    def expected_digest(self) -> int:
        digest = 0
        for number in range(1, self._count + 1):
            digest = zlib.crc32(b"%d" % (number * 7 % 1009), digest)
        return digest

    def say_all(self, stream: Stream) -> None:
        """To be run beside `listen`."""
        while self._mailbox.sent < self._count:
            with self._lock:
                until = min(self._mailbox.sent + 200, self._count)
                data = b"".join(self._next() for _ in range(self._mailbox.sent, until))
            stream.write(data)

    def _next(self) -> bytes:
        return self._mailbox.pack("tock", {"k": (self._mailbox.sent + 1) * 7 % 1009})

    def hello(self, stream: Stream) -> None:
        """To be said on a stream that is not the first one."""
        fields = {"received": self._mailbox.received}
        stream.write(PADDING + self._mailbox.pack_ephemeral("hello", fields))

    def listen(self, stream: Stream, most: int | None = None) -> bool:
        """Take what comes: until the end (True), or `most` reads."""
        decoder, reads = Decoder(), 0
        while most is None or reads < most:
            data = stream.read(PATIENCE)
            assert data is not None, f"nothing came within {PATIENCE:g} s, after {self._mailbox.received} messages"
            if not data:
                raise SandboxError("the stream ended")
            reads += 1
            before = self._mailbox.received
            for message in decoder.feed(data):
                self._take(message, stream)
            if self._mailbox.received != before:
                stream.write(self._mailbox.ack())
            if self.their_digest is not None:
                return True
        return False

    def _take(self, message: Message, stream: Stream) -> None:
        if message.type == "ack":
            with self._lock:
                self._mailbox.acknowledged(int(message.header["received"]))
        elif message.type == "hello":
            with self._lock:
                data = self._mailbox.resend(int(message.header["received"]))
            stream.write(data)
        elif message.type == "ready" or not self._mailbox.accept(message):
            return
        elif message.type == "end":
            self.their_digest = int(message.header["digest"])
        else:
            self.got_digest = zlib.crc32(b"%d" % int(message.header["k"]), self.got_digest)

    def check(self) -> None:
        assert self._mailbox.received == self._count + 1, "every number came, and the end after them"
        assert self.got_digest == self.expected_digest, "each once, in order, from the sandbox"
        assert self.their_digest == self.expected_digest, "each once, in order, to the sandbox"


@contextlib.contextmanager
def speaking(lab: Lab, count: int, *, busy: bool) -> Iterator[tuple[Sandbox, Stream]]:
    source = Path(control_stream.__file__).read_text(encoding="utf-8")
    command = (*lab.request(SPEAKER).command, source, str(count), "busy" if busy else "idle")
    with lab.running("", command=command) as (sandbox, stream):
        yield sandbox, stream


def frames_keep_their_order_both_ways_while_the_sandbox_is_busy(lab: Lab) -> None:
    speaker = Speaker(LOAD)
    with speaking(lab, LOAD, busy=True) as (sandbox, stream):
        writer = threading.Thread(target=speaker.say_all, args=(stream,))
        writer.start()
        assert speaker.listen(stream)
        writer.join(PATIENCE)
        assert not writer.is_alive()
        speaker.check()
        ended = sandbox.wait(PATIENCE)
        assert ended is not None and ended.code == 0


@needs("connection")
def cut_connection_loses_and_doubles_nothing(lab: Lab) -> None:
    """Cut again and again, while both sides send. The next stream continues by the numbers."""
    chance, speaker = random.Random(1), Speaker(TORN)
    with speaking(lab, TORN, busy=False) as (sandbox, first):
        stream: Stream = first
        for turn in range(CUTS + 1):
            if turn:
                speaker.hello(stream)
            writer = threading.Thread(target=_say_until_cut, args=(speaker, stream))
            writer.start()
            try:
                if speaker.listen(stream, None if turn == CUTS else chance.randrange(1, 12)):
                    break
                with contextlib.suppress(SandboxError):
                    stream.write(Mailbox(sent=1 << 20).pack("torn", blob=bytes(1000))[: chance.randrange(1, 1000)])
                cut(stream)
                with contextlib.suppress(SandboxError):  # a broken stream says so, or ends
                    while data := stream.read(PATIENCE):
                        assert data, "a stream that is cut comes to an end"
                    assert data == b"", "a stream that is cut comes to an end"
            finally:
                writer.join(PATIENCE)
                assert not writer.is_alive(), "a writer to a stream that is cut gets an error"
                if not speaker.their_digest:
                    stream.close()
            assert sandbox.status() == "running", "the sandbox runs on"
            stream = sandbox.attach()
        stream.close()
        speaker.check()
        ended = sandbox.wait(PATIENCE)
        assert ended is not None and ended.code == 0


def _say_until_cut(speaker: Speaker, stream: Stream) -> None:
    with contextlib.suppress(SandboxError, OSError):
        speaker.say_all(stream)


def cut(stream: Stream) -> None:
    """Break the connection below `stream`, as a network or an engine that restarts does."""
    with socket.socket(fileno=os.dup(stream.fileno())) as below:
        below.shutdown(socket.SHUT_RDWR)


GONE = "is no longer there"


def removed_sandbox_is_reported_by_every_call(lab: Lab) -> None:
    """Removed behind our back, in each of its states: a typed error or a documented answer, never a hang."""
    for state in ("created", "running", "exited"):
        with lab.created(ECHO if state == "running" else "") as sandbox:
            stream = sandbox.attach()
            try:
                if state != "created":
                    sandbox.start()
                if state == "exited":
                    assert sandbox.wait(PATIENCE) is not None
                if state == "running":
                    read_until(stream, b"ready\n")
                assert sandbox.status() == state
                _twin(lab, sandbox).remove()
                _says_that_it_is_gone(lab, sandbox)
                _comes_to_an_end(stream)
                with raises(SandboxError):
                    for _ in range(200):
                        stream.write(b"x" * 65536)
            finally:
                stream.close()


def _twin(lab: Lab, sandbox: Sandbox) -> Sandbox:
    (twin,) = lab.backend.find({JOB: sandbox.labels[JOB]})
    return twin


def _says_that_it_is_gone(lab: Lab, sandbox: Sandbox) -> None:
    assert sandbox.status() == "removed"
    actions: tuple[Callable[[], object], ...] = (
        sandbox.attach, sandbox.start, lambda: sandbox.wait(0), lambda: sandbox.wait(1), sandbox.last_words,
        lambda: b"".join(sandbox.collect()),
    )  # fmt: skip
    for action in actions:
        with raises(SandboxRemoved):
            action()
    with contextlib.suppress(SandboxRemoved):  # what was in force when it was made may be known still
        assert all(control.detail for control in sandbox.controls())
    sandbox.kill()
    sandbox.remove()
    assert lab.backend.find({JOB: sandbox.labels[JOB]}) == []


def _comes_to_an_end(stream: Stream) -> None:
    with contextlib.suppress(SandboxError):
        while (data := stream.read(PATIENCE)) != b"":
            assert data is not None, "a stream without a sandbox comes to an end"


def wait_ends_when_the_sandbox_is_removed(lab: Lab) -> None:
    with lab.running(SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        answers: list[object] = []

        def wait() -> None:
            try:
                answers.append(sandbox.wait(120))
            except SandboxRemoved as error:
                answers.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        _twin(lab, sandbox).remove()
        waiter.join(PATIENCE)
        assert not waiter.is_alive()
        (answer,) = answers
        assert isinstance(answer, SandboxRemoved) or (isinstance(answer, ExitStatus) and answer.code in (137, None)), (
            answer
        )


SIZE = 24 << 20


def removal_during_collect_is_noticed(lab: Lab) -> None:
    """Either all of it came, or an error says that it did not."""
    code = f"for i in range(3): put(str(i), bytes([i]) * ({SIZE} // 3))\nsay('ready')\ntime.sleep(600)\n"
    with lab.running(code) as (sandbox, stream):
        read_until(stream, b"ready\n")
        pieces = sandbox.collect()
        got = [next(pieces)]
        # In a thread: an engine may make the removal wait for the collection.
        remover = threading.Thread(target=_twin(lab, sandbox).remove)
        remover.start()
        remover.join(1.0)
        try:
            got += pieces
        except SandboxError:
            return
        finally:
            remover.join(PATIENCE)
            assert not remover.is_alive()
        whole = _Archived(b"".join(got))
        assert all(content(whole, str(i)) == bytes([i]) * (SIZE // 3) for i in range(3))


class _Archived:
    """What a collection has brought."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def collect(self) -> Iterator[bytes]:
        yield self._data
