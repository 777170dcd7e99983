"""Any bytes on the control stream: the reader finds messages or none, and a conversation ends with a result or with one
of its own errors. Nothing grows beyond its limit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.execution.test_hostile_stream import MESSAGES, ODD, frames_of
from trace_bench.artifacts.contract import ModelRef
from trace_bench.errors import SandboxError
from trace_bench.execution.session import Connection, Session
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.worker.control_stream import CHUNK, MAGIC, Decoder, Message, encode

HUGE = (*ODD, 10**4299, 2**63, 2**53, -1, 1.0)
kinds = st.sampled_from([*MESSAGES, "job", "done", "stop", "llm.response", "nobody knows"])


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message of the job contract, or one that looks like one."""
    kind = draw(kinds)
    fields = dict(MESSAGES.get(kind, {"result": {}}))
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from([*fields, "type", "n", "result", "extra"]))
        fields[name] = draw(st.sampled_from(HUGE))
    if draw(st.booleans()):
        fields.setdefault("n", draw(st.integers(1, 5)))
    return frames_of({"type": kind, **fields})


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Messages, damaged here and there."""
    pieces = draw(st.lists(messages() | st.binary(max_size=40) | st.just(MAGIC), max_size=8))
    data = bytearray(b"".join(pieces))
    for at, new in draw(st.lists(st.tuples(st.integers(0, 10**5), st.binary(min_size=1, max_size=4)), max_size=3)):
        place = at % (len(data) + 1)
        data[place : place + len(new)] = new
    return bytes(data)


class Recorded:
    """A stream that says `data` in pieces of `size` bytes, then ends; it takes whatever it is told."""

    def __init__(self, data: bytes, size: int) -> None:
        self._pieces = iter([*(data[i : i + size] for i in range(0, len(data), size)), b""])

    def read(self, timeout: float) -> bytes | None:
        return next(self._pieces)

    def write(self, data: bytes) -> None:
        assert len(data) < 10 << 20

    def fileno(self) -> int:
        raise NotImplementedError

    def close(self) -> None: ...


def converse(data: bytes, size: int, *, adopt: bool) -> None:
    """As a controller that starts a job, or picks one up."""
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway({"stub": StubProvider()})
        with gateway.open("0123456789ab", 1, ModelRef(id="stub"), Path(folder, "llm.jsonl")) as scope:
            session = Session(
                Connection(Recorded(data, size), 60.0), handler=scope, job={}, task=b"", test_seed=1
            )  # fmt: skip
            try:
                result = session.run(adopt=adopt)
                assert isinstance(result, dict)
            except SandboxError as error:
                assert str(error).isprintable()
            session.answers.wait(5.0, hurry=lambda: False)


def check(data: bytes, size: int, *, adopt: bool) -> None:
    decoder = Decoder()
    found: list[Message] = []
    for start in range(0, len(data), size):
        found += decoder.feed(data[start : start + size])
    assert all(isinstance(message.header, dict) for message in found)
    converse(data, size, adopt=adopt)


@settings(suppress_health_check=list(HealthCheck))
@given(streams(), st.sampled_from([1, 7, 1000, 1 << 20]), st.booleans())
def test_any_stream_ends_in_a_result_or_in_an_error_of_its_own(data: bytes, size: int, adopt: bool) -> None:
    check(data, max(size, len(data) // 2000 + 1), adopt=adopt)


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@given(streams(), st.sampled_from([7, 1000, 1 << 20]), st.booleans())
def test_thousands_of_streams(data: bytes, size: int, adopt: bool) -> None:
    check(data, max(size, len(data) // 2000 + 1), adopt=adopt)


@pytest.mark.parametrize("received", [10**4300 - 1, 2**64, -1, True])
@pytest.mark.parametrize("adopt", [True, False])
def test_a_number_that_cannot_be_ends_the_conversation(received: Any, adopt: bool) -> None:
    for field in ("received", "forgotten"):
        hello = {"type": "hello", "received": 0, "forgotten": 0, field: received}
        ended = {"type": "event", "event": {"t": 0.0, "event": "train.end"}}  # it is answered, with the next number
        converse(frames_of(hello) + frames_of(ended), 1 << 20, adopt=adopt)


def held(decoder: Decoder) -> int:
    """Bytes that a reader keeps for later."""
    return len(decoder._buffer) + len(decoder._body)


def test_a_reader_keeps_no_more_than_one_message_of_the_largest_size() -> None:
    def endless() -> Iterator[bytes]:
        """A message that never ends, garbage, beginnings of frames, lengths that are lies."""
        part = encode(Message({}, bytes(CHUNK * 3)))
        yield from [part[: CHUNK + 11]] * 200
        yield from [b"\xf5TB" * 10_000] * 50
        yield from [part[:11] * 1000] * 50
        yield from [MAGIC + b"\xff" * 8] * 1000

    decoder = Decoder(limit=1 << 20)
    most = 0
    for piece in endless():
        assert list(decoder.feed(piece)) == []
        most = max(most, held(decoder))
    assert most <= (1 << 20) + 4 * CHUNK
    assert decoder.skipped > 5 << 20
