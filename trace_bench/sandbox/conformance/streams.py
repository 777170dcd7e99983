"""Checks of the control stream's byte stream."""

from __future__ import annotations

import secrets
import threading
import time

from trace_bench.errors import SandboxError
from trace_bench.sandbox.conformance.lab import (
    ECHO,
    PATIENCE,
    SLEEP,
    Lab,
    needs,
    raises,
    read_all,
    read_bytes,
    read_until,
)


def stream_carries_all_bytes_exactly(lab: Lab) -> None:
    _assert_echoed(lab, bytes(range(256)) * 3 + "Grüße, 世界 🚀\r\n\x00\x04\x1a".encode() + b"\x10\x11\xff\xfe")


def stream_carries_a_megabyte_both_ways(lab: Lab) -> None:
    _assert_echoed(lab, secrets.token_bytes(1 << 20))


def writer_takes_in_what_arrives_so_that_full_pipes_do_not_block(lab: Lab) -> None:
    _assert_echoed(lab, secrets.token_bytes(12 << 20))


def _assert_echoed(lab: Lab, data: bytes) -> None:
    """In one thread: a writer that did not read the echo would never return."""
    with lab.running(ECHO) as (_, stream):
        assert read_until(stream, b"ready\n") == b"ready\n"
        stream.write(data)
        assert read_bytes(stream, len(data)) == data


def one_thread_reads_while_another_writes(lab: Lab) -> None:
    pieces = [secrets.token_bytes(size) for size in (1, 100_000, 3, 900_000) * 4]
    with lab.running(ECHO) as (_, stream):
        read_until(stream, b"ready\n")

        def write() -> None:
            for piece in pieces:
                stream.write(piece)

        writer = threading.Thread(target=write)
        writer.start()
        assert read_bytes(stream, sum(map(len, pieces))) == b"".join(pieces)
        writer.join(10)
        assert not writer.is_alive()


def read_returns_none_when_nothing_comes(lab: Lab) -> None:
    with lab.running(SLEEP) as (_, stream):
        read_until(stream, b"ready\n")
        began = time.monotonic()
        assert stream.read(0.3) is None
        assert 0.25 <= time.monotonic() - began < 5


def stdout_ends_with_the_command(lab: Lab) -> None:
    with lab.running("say('last')\n") as (_, stream):
        assert read_all(stream) == b"last\n"
        assert stream.read(0) == b""


def output_before_the_end_is_complete(lab: Lab) -> None:
    # In pieces: a write may take less than it was given.
    out, _, ended = lab.finished("for _ in range(3000): say('x' * 999)\nos.write(1, b'end')\n")
    assert ended.code == 0
    assert out == (b"x" * 999 + b"\n") * 3000 + b"end"


def stderr_is_kept_apart(lab: Lab) -> None:
    out, errors, _ = lab.finished("os.write(2, 'schlimm ß\\n'.encode())\nsay('fine')\ntime.sleep(0.2)\n")
    assert out == b"fine\n"
    assert errors == "schlimm ß\n"


def stderr_is_bounded(lab: Lab) -> None:
    _, errors, _ = lab.finished("for i in range(3000): os.write(2, b'%06d' % i + b'x' * 94)\nos.write(2, b'end')\n")
    assert errors.endswith("end")
    assert len(errors) <= 64 * 1024


def stderr_is_kept_while_no_stream_is_attached(lab: Lab) -> None:
    with lab.created("os.write(2, b'went wrong\\n')\nsys.exit(3)\n") as sandbox:
        sandbox.start()
        ended = sandbox.wait(PATIENCE)
        assert ended is not None and ended.code == 3
        assert sandbox.last_words() == "went wrong\n"


@needs("adoption")
def stream_can_be_detached_and_attached_again(lab: Lab) -> None:
    with lab.running(ECHO) as (sandbox, stream):
        read_until(stream, b"ready\n")
        stream.close()
        assert sandbox.wait(0.3) is None
        for word in (b"second\n", b"third\n"):
            again = sandbox.attach()
            again.write(word)
            assert read_until(again, word) == word
            again.close()


def attaching_to_a_busy_stream_tears_no_lines(lab: Lab) -> None:
    """Numbered lines flow without end: whatever point one attaches at, each whole line must be well-formed."""
    code = "i = 0\nwhile True:\n    i += 1\n    os.write(1, b'%012d\\n' % i)\n    if i % 50 == 0: time.sleep(0.001)\n"
    with lab.running(code) as (sandbox, stream):
        read_bytes(stream, 10_000)
        stream.close()
        for _ in range(5):
            again = sandbox.attach()
            lines = read_bytes(again, 50_000).split(b"\n")[1:-1]
            again.close()
            numbers = [int(line) for line in lines if len(line) == 12]
            assert len(numbers) == len(lines) > 1000
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def writing_after_the_end_is_an_error(lab: Lab) -> None:
    with lab.running("") as (sandbox, stream):
        assert sandbox.wait(PATIENCE) is not None
        read_all(stream)
        with raises(SandboxError):
            for _ in range(50):
                stream.write(b"x" * 65536)
