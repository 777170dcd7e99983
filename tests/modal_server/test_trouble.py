"""Trouble on demand is what the client then meets."""

from __future__ import annotations

import statistics
import time

import modal
import pytest
from modal.exception import AlreadyExistsError, InternalError, NotFoundError, ResourceExhaustedError

from tests.modal_server.conftest import Account
from tests.modal_server.trouble import Break, Delay, LoseReply, Refuse, Starts


def test_a_rule_waits_for_its_turn_and_its_request(account: Account) -> None:
    rule = account.server.trouble.add(
        rpc="SandboxCreateV2",
        do=Refuse("RESOURCE_EXHAUSTED"),
        after=1,
        when=lambda request: request.definition.entrypoint_args[0] == "false",
    )
    account.create("true")
    account.create("false")
    with pytest.raises(ResourceExhaustedError):
        account.create("false")
    account.create("false")
    assert (rule.seen, rule.hits) == (3, 1)


def test_a_creation_whose_reply_is_lost_leaves_one_sandbox_that_its_name_finds(account: Account) -> None:
    account.server.trouble.add(rpc="SandboxCreateV2", do=LoseReply())
    with pytest.raises(AlreadyExistsError):  # the client's second try meets the first one's sandbox
        account.create("sleep", "60", name="lost", tags={"lost": "reply"})
    found = modal.Sandbox.from_name("tests", "lost", client=account.client)
    assert account.listed(lost="reply") == [found.object_id]
    account.server.vanish(found.object_id)
    with pytest.raises(NotFoundError):
        found.poll()
    assert account.listed(lost="reply") == []


def test_a_stream_that_breaks_is_taken_up_where_it_broke_and_a_delayed_call_waits(account: Account) -> None:
    rule = account.server.trouble.add(rpc="TaskExecStdioRead", do=Break(after_bytes=1), times=2)
    delay = account.server.trouble.add(rpc="SandboxListV2", do=Delay(0.3))
    sandbox = account.create("sleep", "60")
    command = sandbox.exec("sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.05; done")
    assert command.stdout.read() == "".join(f"line {number}\n" for number in range(1, 4))
    started = time.monotonic()
    account.listed(no="such")
    assert time.monotonic() - started >= 0.3
    assert (rule.hits, delay.hits) == (2, 1)
    sandbox.terminate()


def test_more_creations_than_the_rate_are_refused_and_a_failing_start_leaves_nothing(account: Account) -> None:
    starts = account.server.starts
    try:
        starts.per_second = 3
        with pytest.raises(ResourceExhaustedError, match="more than 3 creations a second"):
            for _ in range(4):
                account.create("true")
        starts.per_second, starts.failures = None, 1.0
        with pytest.raises(InternalError):
            account.create("true", tags={"starts": "never"})
    finally:
        starts.per_second, starts.failures = None, 0.0
    assert account.listed(starts="never") == []


def test_start_times_follow_their_distribution() -> None:
    starts = Starts(p50=0.6, p99=8.0, failures=0.02, seed=1)
    drawn = [starts.draw() for _ in range(20_000)]
    seconds = sorted(seconds for seconds, _ in drawn)
    assert statistics.median(seconds) == pytest.approx(0.6, rel=0.05)
    assert seconds[int(0.99 * len(seconds))] == pytest.approx(8.0, rel=0.15)
    assert sum(fails for _, fails in drawn) / len(drawn) == pytest.approx(0.02, rel=0.25)
