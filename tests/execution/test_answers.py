"""LLM calls are answered beside the session: nothing else of the job waits for them, and none is paid for nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.execution.peer import PATIENCE, Peer, Waiting, reply, text_of
from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.contract import Budget, ModelRef
from trace_bench.cancellation import Cancellation
from trace_bench.errors import HarnessError, Interrupted, ProtocolError, SandboxError
from trace_bench.execution import answers
from trace_bench.execution.answers import Answers
from trace_bench.execution.session import Connection, Session
from trace_bench.gateway.base import LlmRequest, Provider, ProviderReply, ProviderRequest
from trace_bench.gateway.meter import RunMeter
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.gateway.stub import StubProvider

MODEL = ModelRef(id="stub")


@contextmanager
def scope_of(provider: Provider, folder: Path, attempt: int = 1) -> Iterator[Scope]:
    with Gateway({"stub": provider}).open("0" * 12, 1, MODEL, folder / "llm.jsonl", attempt=attempt) as scope:
        yield scope


def session_of(
    scope: Scope, peer: Peer, lease: float = 60.0, stop_wanted: Callable[[], str | None] = lambda: None
) -> Session:
    connection = Connection(peer.stream, lease)
    return Session(connection, scope, job={}, task=b"", test_seed=1, stop=Cancellation(stop_wanted))


@contextmanager
def running(session: Session) -> Iterator[Future[dict[str, Any]]]:
    """The session on a thread; the stream is closed afterwards, as the controller does."""
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(session.run)
        finally:
            if isinstance(session.handler._calls.provider, Waiting):
                session.handler._calls.provider.release()
    session.connection.stream.close()


def cassette(folder: Path) -> list[LlmCall]:
    return [LlmCall.model_validate(json.loads(line)) for line in (folder / "llm.jsonl").read_text().splitlines()]


def no_thread_of_calls() -> None:
    deadline = time.monotonic() + PATIENCE
    while left := [thread.name for thread in threading.enumerate() if thread.name.startswith("llm-")]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def test_heartbeats_and_events_go_on_while_a_call_is_under_way(tmp_path: Path) -> None:
    provider, peer = Waiting(), Peer()
    with scope_of(provider, tmp_path) as scope, running(session_of(scope, peer, lease=0.4)) as ended:
        call = peer.ask()
        provider.wait_for(1)
        for _ in range(8):  # twice the lease
            peer.receive("heartbeat")
            peer.send("event", {"event": {"event": "still.here"}})
        peer.send("event", {"event": {"event": "train.end"}})
        peer.receive("heldout")
        provider.release()
        answer = peer.receive("llm.response")
        assert (answer.header["id"], answer.header["status"]) == (call, 200)
        peer.done()
        assert ended.result(PATIENCE) == {}


def test_nothing_counts_as_scoring_before_training_has_ended(tmp_path: Path) -> None:
    """A supervisor that was taken over has no way around the budget of its job."""
    provider, peer = Waiting(), Peer()
    provider.release()
    with scope_of(provider, tmp_path) as scope, running(session_of(scope, peer)) as ended:
        for _ in range(2):
            peer.ask(phase="score")
            peer.receive("llm.response")
            peer.send("event", {"event": {"event": "train.end"}})
            peer.receive("heldout")
        peer.done()
        ended.result(PATIENCE)
    assert [call.phase for call in cassette(tmp_path)] == ["train", "score"]


def test_answers_go_out_in_the_order_in_which_they_come(tmp_path: Path) -> None:
    provider, peer = Waiting(), Peer()
    with scope_of(provider, tmp_path) as scope, running(session_of(scope, peer)) as ended:
        calls = {text: peer.ask(text) for text in ("first", "second", "third")}
        provider.wait_for(3)
        for text in ("third", "first", "second"):
            provider.release(text)
            answer = peer.receive("llm.response")
            assert answer.header["id"] == calls[text]
            assert json.loads(answer.blob)["choices"][0]["message"]["content"] == f"to {text}"
        peer.done()
        ended.result(PATIENCE)
    assert [call.request_id for call in cassette(tmp_path)] == [calls["third"], calls["first"], calls["second"]]


def test_many_large_answers_at_once_do_not_interleave(tmp_path: Path) -> None:
    """Each is larger than a socket takes at once; `Peer.receive` insists on the order of the numbers."""
    provider, peer = Waiting(lambda request: reply(text_of(request) + "x" * 300_000)), Peer()
    with scope_of(provider, tmp_path) as scope, running(session_of(scope, peer, lease=0.4)) as ended:
        calls = {peer.ask(f"{n:02d}"): n for n in range(24)}
        provider.wait_for(24)
        provider.release()
        got = {}
        for _ in calls:
            answer = peer.receive("llm.response")
            got[answer.header["id"]] = int(json.loads(answer.blob)["choices"][0]["message"]["content"][3:5])
        peer.done()
        ended.result(PATIENCE)
    assert got == calls


def test_no_more_threads_than_allowed_and_none_that_stays(tmp_path: Path) -> None:
    provider, peer = Waiting(), Peer()
    with scope_of(provider, tmp_path) as scope, running(session_of(scope, peer)) as ended:
        calls = [peer.ask(f"{n}") for n in range(3 * answers.MOST_THREADS)]
        provider.wait_for(answers.MOST_THREADS)
        mine = [thread for thread in threading.enumerate() if thread.name.startswith("llm-")]
        assert len(mine) == len(provider.asked) == answers.MOST_THREADS
        assert all(thread.daemon for thread in mine), "one that hangs must not keep the process from ending"
        provider.release()
        assert {peer.receive("llm.response").header["id"] for _ in calls} == set(calls)
        peer.done()
        ended.result(PATIENCE)
    no_thread_of_calls()


def test_a_quick_provider_is_asked_on_the_thread_of_the_session(tmp_path: Path) -> None:
    class Noted(StubProvider):
        def complete(self, request: ProviderRequest) -> ProviderReply:
            threads.append(threading.current_thread().name)
            return super().complete(request)

    threads: list[str] = []
    peer = Peer()
    with scope_of(Noted(), tmp_path) as scope, running(session_of(scope, peer)) as ended:
        assert scope.quick
        peer.ask()
        peer.receive("llm.response")
        peer.done()
        ended.result(PATIENCE)
    assert len(threads) == 1 and not threads[0].startswith("llm-")


def test_no_session_stands_still_because_of_what_other_jobs_spend(tmp_path: Path) -> None:
    """A call that waits for what a shared budget has left after those of others must not hold up the heartbeat."""
    slow, peer = Waiting(), Peer()
    gateway = Gateway({"stub": StubProvider(), "slow": slow}, run_meter=RunMeter(Budget(tokens=1000)))
    with (
        gateway.open("1" * 12, 1, ModelRef(id="slow"), tmp_path / "other.jsonl") as other,
        gateway.open("0" * 12, 1, MODEL, tmp_path / "llm.jsonl") as scope,
        ThreadPoolExecutor(1) as pool,
        running(session_of(scope, peer, lease=0.4)) as ended,
    ):
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5000}
        under_way = pool.submit(
            other.handle, LlmRequest("1", "POST", "/v1/chat/completions", {}, json.dumps(body).encode())
        )
        slow.wait_for(1)
        call = peer.ask()
        for _ in range(8):  # twice the lease
            peer.receive("heartbeat")
            peer.send("event", {"event": {"event": "still.here"}})
        slow.release()
        assert peer.receive("llm.response").header["id"] == call
        assert under_way.result(PATIENCE).status == 200
        peer.done()
        ended.result(PATIENCE)


def test_calls_that_wait_for_room_in_a_budget_when_a_session_ends_are_never_made(tmp_path: Path) -> None:
    provider = Waiting()
    gateway = Gateway({"stub": provider})

    def call(number: int) -> LlmRequest:
        body = {"messages": [{"role": "user", "content": f"{number}"}], "max_tokens": 5000}
        return LlmRequest(f"{number}", "POST", "/v1/chat/completions", {}, json.dumps(body).encode())

    with gateway.open("0" * 12, 1, MODEL, tmp_path / "llm.jsonl", Budget(tokens=1000)) as scope:
        asked = Answers(scope, lambda request, response: None)
        for number in range(5):
            asked.ask(call(number))
        provider.wait_for(1)
        deadline = time.monotonic() + PATIENCE
        while asked._under_way < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        asked.refuse_new_calls()
        provider.release()
        assert asked.wait(PATIENCE) == 0
    assert len(provider.asked) == len(cassette(tmp_path)) == 1
    no_thread_of_calls()


def test_an_answer_that_comes_after_the_stream_broke_is_kept_and_not_paid_again(tmp_path: Path) -> None:
    provider, peer = Waiting(), Peer()
    with scope_of(provider, tmp_path) as scope:
        session = session_of(scope, peer)
        with running(session) as ended:
            peer.ask("dear", slot="step=0")
            provider.wait_for(1)
            peer.hang_up(peer.mailbox.pack("event", {"event": {}})[:7])
            with pytest.raises(SandboxError):
                ended.result(PATIENCE)
            assert not (tmp_path / "llm.jsonl").read_text(), "the answer is still on its way"
            provider.release()
            assert session.answers.wait(PATIENCE) == 0
            assert scope.usage().calls == 1
    assert [call.status for call in cassette(tmp_path)] == [200]
    peer = Peer()
    with scope_of(provider, tmp_path, attempt=2) as scope, running(session_of(scope, peer)) as ended:
        peer.ask("dear", slot="step=0")
        assert peer.receive("llm.response").header["status"] == 200
        peer.done()
        ended.result(PATIENCE)
    assert provider.asked == ["dear"]


def test_a_kill_waits_for_calls_under_way_for_a_moment_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "AFTER_A_KILL", 0.2)
    provider, peer, wish = Waiting(), Peer(), []
    with scope_of(provider, tmp_path) as scope:
        session = session_of(scope, peer, stop_wanted=lambda: wish[0] if wish else None)
        with running(session) as ended:
            peer.ask()
            provider.wait_for(1)
            wish.append("kill")
            with pytest.raises(Interrupted):
                ended.result(PATIENCE)
            assert session.answers.wait(10 * PATIENCE, hurry=lambda: True) == 1, "it is given up, and counted"
    no_thread_of_calls()


def test_calls_that_wait_when_a_session_ends_are_never_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_THREADS", 1)
    provider, peer = Waiting(), Peer()
    with scope_of(provider, tmp_path) as scope:
        session = session_of(scope, peer)
        with running(session) as ended:
            peer.ask("one")
            peer.ask("two")
            provider.wait_for(1)
            peer.done()
            ended.result(PATIENCE)
            provider.release()
            assert session.answers.wait(PATIENCE) == 0
    assert provider.asked == ["one"] and len(cassette(tmp_path)) == 1


def test_what_breaks_a_thread_ends_the_session(tmp_path: Path) -> None:
    def broken(request: ProviderRequest) -> ProviderReply:
        raise HarnessError("a defect of ours")

    provider, peer = Waiting(broken), Peer()
    provider.release()
    with scope_of(provider, tmp_path) as scope, running(session_of(scope, peer)) as ended:
        peer.ask()
        with pytest.raises(HarnessError, match="a defect of ours"):
            ended.result(PATIENCE)
    no_thread_of_calls()


def test_a_sandbox_that_asks_without_end_is_told_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_WAITING_BYTES", 1000)
    provider = Waiting()
    with scope_of(provider, tmp_path) as scope:
        asked = Answers(scope, lambda request, response: None)
        with pytest.raises(ProtocolError, match="more LLM calls under way"):
            for n in range(answers.MOST_THREADS + 10):
                asked.ask(LlmRequest(str(n), "POST", "/v1/chat/completions", {}, b"x" * 500))
        asked.refuse_new_calls()
        provider.release()
        assert asked.wait(PATIENCE) == 0


def test_headers_and_paths_count_towards_what_a_sandbox_may_have_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST_WAITING_BYTES", 1000)
    with scope_of(Waiting(), tmp_path) as scope:
        asked = Answers(scope, lambda request, response: None)
        with pytest.raises(ProtocolError, match="more LLM calls under way"):
            asked.ask(LlmRequest("1", "POST", "/v1/x", {"x-trace-bench-variables": "x" * 2000}, b""))
        asked.refuse_new_calls()
