"""A connection that breaks is made again, and the conversation goes on by its numbers: nothing lost, nothing twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.execution.peer import PATIENCE, Peer, Waiting
from tests.execution.test_answers import scope_of, session_of
from trace_bench.errors import SandboxError
from trace_bench.execution.session import (
    RECONNECTIONS_WITHOUT_NEWS,
    SLACK,
    Listener,
    SandboxGone,
    SandboxSilent,
    Session,
    longest_silence,
)
from trace_bench.gateway.stub import StubProvider
from trace_bench.sandbox.base import Stream
from trace_bench.sandbox.errors import EngineGone, SandboxRemoved


class Heard(Listener):
    def __init__(self) -> None:
        self.events: list[Any] = []

    def event(self, line: Mapping[str, Any]) -> None:
        self.events.append(line["event"])


class Mended:
    """A session over a peer whose connection breaks and comes back."""

    def __init__(self, peer: Peer, session: Session) -> None:
        self.peer, self.session, self.listener = peer, session, Heard()
        self.attached = threading.Semaphore(0)
        self.answer: Stream | SandboxError | None = peer.stream
        session.listener = self.listener
        session.connection.reattach = self._reattach

    def _reattach(self) -> Stream | None:
        if isinstance(self.answer, SandboxError):
            raise self.answer
        if self.answer is None:
            return None
        stream = self.peer.attached()
        self.attached.release()
        return stream

    def break_off(self, last: bytes = b"") -> None:
        """Hang up after some bytes, and go on over the connection that the session makes."""
        self.peer.hang_up(last)
        assert self.attached.acquire(timeout=PATIENCE), "it attaches again"
        self.peer.answer_hello()


def test_what_was_torn_comes_again_and_nothing_comes_twice(tmp_path: Path) -> None:
    peer = Peer()
    with scope_of(StubProvider(), tmp_path) as scope, ThreadPoolExecutor(1) as pool:
        mended = Mended(peer, session_of(scope, peer))
        ended = pool.submit(mended.session.run)
        peer.receive("job")
        for number in range(20):
            if number % 5 == 4:
                # Half of the message has gone out when the connection breaks.
                mended.break_off(peer.mailbox.pack("event", {"event": {"event": f"e{number}"}})[: 7 * number])
            else:
                peer.send("event", {"event": {"event": f"e{number}"}})
        peer.done()
        assert ended.result(PATIENCE) == {}
    assert mended.listener.events == [f"e{number}" for number in range(20)]
    assert mended.session.connection.reconnections == 4


def test_an_answer_that_was_on_the_way_arrives_and_is_paid_once(tmp_path: Path) -> None:
    provider, peer = Waiting(), Peer()
    with scope_of(provider, tmp_path) as scope, ThreadPoolExecutor(1) as pool:
        mended = Mended(peer, session_of(scope, peer))
        ended = pool.submit(mended.session.run)
        call = peer.ask()
        provider.wait_for(1)
        mended.break_off()
        provider.release()
        answer = peer.receive("llm.response")
        assert (answer.header["id"], answer.header["status"]) == (call, 200)
        peer.done()
        assert ended.result(PATIENCE) == {}
    assert provider.asked == ["a question"]
    assert len((tmp_path / "llm.jsonl").read_text().splitlines()) == 1


def test_a_job_that_was_not_handed_over_is_handed_over_again(tmp_path: Path) -> None:
    peer = Peer()
    with scope_of(StubProvider(), tmp_path) as scope, ThreadPoolExecutor(1) as pool:
        mended = Mended(peer, session_of(scope, peer))
        ended = pool.submit(mended.session.run)
        mended.break_off()  # whatever was written went with the connection
        peer.receive("job")
        peer.done()
        assert ended.result(PATIENCE) == {}


@pytest.mark.parametrize("answer", [None, SandboxRemoved("it is no longer there")])
def test_a_stream_that_ends_with_its_sandbox_is_the_end(tmp_path: Path, answer: SandboxError | None) -> None:
    peer = Peer()
    with scope_of(StubProvider(), tmp_path) as scope, ThreadPoolExecutor(1) as pool:
        mended = Mended(peer, session_of(scope, peer))
        mended.answer = answer
        ended = pool.submit(mended.session.run)
        peer.receive("job")
        peer.hang_up()
        with pytest.raises(SandboxGone, match="ended before the job was done"):
            ended.result(PATIENCE)


def test_an_engine_that_is_gone_is_told_as_such(tmp_path: Path) -> None:
    peer = Peer()
    with scope_of(StubProvider(), tmp_path) as scope, ThreadPoolExecutor(1) as pool:
        mended = Mended(peer, session_of(scope, peer))
        mended.answer = EngineGone("it restarts")
        ended = pool.submit(mended.session.run)
        peer.receive("job")
        peer.hang_up()
        with pytest.raises(EngineGone, match="it restarts"):
            ended.result(PATIENCE)


def test_a_sandbox_that_stands_still_is_given_up_once_the_engine_has_answered(tmp_path: Path) -> None:
    peer, asked = Peer(), list[float]()
    with scope_of(StubProvider(), tmp_path) as scope, ThreadPoolExecutor(1) as pool:
        session = session_of(scope, peer, lease=0.8)
        session.silence, session.on_silence = 0.5, lambda: asked.append(time.monotonic())
        ended = pool.submit(session.run)
        peer.receive("job")
        peer.send("event", {"event": {"t": 0, "event": "job.start"}})
        spoke = time.monotonic()
        with pytest.raises(SandboxSilent, match="has sent nothing for 0 s while its engine answers: it is frozen"):
            ended.result(PATIENCE)
        assert len(asked) == 1 and 0.4 < asked[0] - spoke < time.monotonic() - spoke < PATIENCE / 3
    session.connection.stream.close()


def test_an_engine_that_stood_still_costs_no_sandbox(tmp_path: Path) -> None:
    """It passes on what it kept, once it answers again."""
    peer = Peer()
    asked = threading.Event()

    def answers_late() -> None:
        peer.send("event", {"event": {"t": 0, "event": "phase.start"}})
        asked.set()

    with scope_of(StubProvider(), tmp_path) as scope, ThreadPoolExecutor(1) as pool:
        session = session_of(scope, peer, lease=0.8)
        session.silence, session.on_silence = 0.5, answers_late
        ended = pool.submit(session.run)
        peer.receive("job")
        peer.send("event", {"event": {"t": 0, "event": "job.start"}})
        assert asked.wait(PATIENCE)
        peer.done()
        assert ended.result(PATIENCE) == {}
    session.connection.stream.close()


@pytest.mark.parametrize(("job_timeout", "seconds"), [(None, 60.0), (600.0, 60.0), (45.0, 45.0), (1.0, 30.0)])
def test_the_silence_that_is_allowed_follows_lease_and_job_timeout(job_timeout: float | None, seconds: float) -> None:
    assert longest_silence(60.0, job_timeout) == seconds + SLACK


def test_a_stream_that_breaks_again_and_again_is_given_up(tmp_path: Path) -> None:
    peer = Peer()
    with scope_of(StubProvider(), tmp_path) as scope, ThreadPoolExecutor(1) as pool:
        mended = Mended(peer, session_of(scope, peer))
        ended = pool.submit(mended.session.run)
        peer.receive("job")
        peer.hang_up()
        for _ in range(RECONNECTIONS_WITHOUT_NEWS):
            assert mended.attached.acquire(timeout=PATIENCE)
            peer.hang_up()
        with pytest.raises(SandboxError, match=f"broke {RECONNECTIONS_WITHOUT_NEWS + 1} times"):
            ended.result(PATIENCE)
    assert mended.session.connection.reconnections == RECONNECTIONS_WITHOUT_NEWS
