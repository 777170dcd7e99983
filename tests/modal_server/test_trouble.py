"""Trouble on demand is what the client then meets."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time

import modal
import pytest
from modal.exception import (
    AlreadyExistsError,
    InternalError,
    NotFoundError,
    PermissionDeniedError,
    ResourceExhaustedError,
    ServiceError,
)

from tests.modal_server.conftest import Account, image
from tests.modal_server.server import ModalServer
from tests.modal_server.trouble import Break, Delay, LoseReply, Refuse, Starts, refusal

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("status", "error", "tries"),
    [
        ("UNAVAILABLE", ServiceError, 4),
        ("INTERNAL", InternalError, 4),
        ("RESOURCE_EXHAUSTED", ResourceExhaustedError, 1),
        ("PERMISSION_DENIED", PermissionDeniedError, 1),
    ],
)
def test_a_refused_creation_is_tried_again_as_the_client_does(
    account: Account, status: str, error: type[Exception], tries: int
) -> None:
    rule = account.server.trouble.add(rpc="SandboxCreateV2", do=Refuse(status), times=None)
    before = len(account.server.sandboxes())
    with pytest.raises(error):
        account.create("true")
    assert rule.hits == tries and len(account.server.sandboxes()) == before


def test_a_creation_whose_reply_is_lost_leaves_one_sandbox_that_its_name_finds(account: Account) -> None:
    account.server.trouble.add(rpc="SandboxCreateV2", do=LoseReply())
    with pytest.raises(AlreadyExistsError):  # the client's second try meets the first one's sandbox
        account.create("sleep", "60", name="lost", tags={"lost": "reply"})
    found = modal.Sandbox.from_name("tests", "lost", client=account.client)
    assert account.listed(lost="reply") == [found.object_id]
    found.terminate()


def test_without_a_name_a_lost_reply_leaves_two_sandboxes(account: Account) -> None:
    account.server.trouble.add(rpc="SandboxCreateV2", do=LoseReply())
    account.create("sleep", "60", tags={"lost": "nameless"})
    found = account.listed(lost="nameless")
    assert len(found) == 2
    for id in found:
        modal.Sandbox.from_id(id, client=account.client).terminate()


def test_an_idempotent_server_answers_a_second_try_with_the_first_ones_sandbox() -> None:
    with ModalServer(idempotent=True) as server, server.client() as client:
        account = Account(server, client, modal.App.lookup("tests", create_if_missing=True, client=client))
        rule = server.trouble.add(rpc="SandboxCreateV2", do=LoseReply())
        made = account.create("sleep", "60", name="once")
        assert rule.hits == 1 and account.listed() == [made.object_id]
        assert account.create("sleep", "60").object_id != made.object_id


def test_a_rule_waits_for_its_turn_and_its_request(account: Account) -> None:
    rule = account.server.trouble.add(
        rpc="SandboxCreateV2",
        do=Refuse("PERMISSION_DENIED"),
        after=1,
        when=lambda request: request.definition.entrypoint_args[0] == "false",
    )
    account.create("true")
    account.create("false")
    with pytest.raises(PermissionDeniedError):
        account.create("false")
    account.create("false")
    assert (rule.seen, rule.hits) == (3, 1)


def test_a_sandbox_that_vanishes_is_not_found(account: Account) -> None:
    sandbox = account.create("sleep", "60", name="gone", tags={"will": "vanish"})
    command = sandbox.exec("sleep", "60")
    account.server.vanish(sandbox.object_id)
    with pytest.raises(NotFoundError):
        sandbox.poll()
    with pytest.raises(NotFoundError):
        command.poll()
    assert account.listed(will="vanish") == []
    with pytest.raises(NotFoundError):
        modal.Sandbox.from_name("tests", "gone", client=account.client)


def test_a_stream_that_breaks_in_the_middle_is_taken_up_where_it_broke(account: Account) -> None:
    rule = account.server.trouble.add(rpc="TaskExecStdioRead", do=Break(after_bytes=1), times=3)
    sandbox = account.create("sleep", "60")
    command = sandbox.exec("sh", "-c", "for i in 1 2 3 4 5; do echo line $i; sleep 0.05; done")
    assert command.stdout.read() == "".join(f"line {number}\n" for number in range(1, 6))
    assert rule.hits == 3
    sandbox.terminate()


def test_a_copy_that_breaks_in_the_middle_goes_on_where_it_broke(account: Account) -> None:
    rule = account.server.trouble.add(rpc="TaskExecStdinWriteStream", do=Break(after_bytes=1 << 20), times=2)
    sandbox = account.create("sleep", "60")
    data = bytes(range(256)) * (20 << 10)
    sandbox.filesystem.write_bytes(data, "/out/copy")
    assert sandbox.filesystem.read_bytes("/out/copy") == data and rule.hits == 2
    assert account.server.calls.count("TaskExecStdinStatus") >= 2
    sandbox.terminate()


def test_a_slow_answer_is_slow(account: Account) -> None:
    account.server.trouble.add(rpc="SandboxListV2", do=Delay(0.3))
    started = time.monotonic()
    account.listed(no="such")
    assert time.monotonic() - started >= 0.3


def test_more_creations_than_the_rate_are_refused_and_wait_if_told_to(account: Account) -> None:
    account.server.starts.per_second = 3
    try:
        with pytest.raises(ResourceExhaustedError, match="more than 3 creations a second"):
            for _ in range(4):
                account.create("true")
        account.server.starts.retry_after = 0.5
        started = time.monotonic()
        for _ in range(4):
            account.create("true")
        assert time.monotonic() - started >= 0.5
    finally:
        account.server.starts.per_second = None


def test_start_times_follow_their_distribution_and_some_starts_fail() -> None:
    starts = Starts(p50=0.6, p99=8.0, failures=0.02, seed=1)
    drawn = [starts.draw() for _ in range(20_000)]
    seconds = sorted(seconds for seconds, _ in drawn)
    assert statistics.median(seconds) == pytest.approx(0.6, rel=0.05)
    assert seconds[int(0.99 * len(seconds))] == pytest.approx(8.0, rel=0.15)
    assert sum(fails for _, fails in drawn) / len(drawn) == pytest.approx(0.02, rel=0.25)
    again = Starts(p50=0.6, p99=8.0, failures=0.02, seed=1)
    assert [again.draw() for _ in range(10)] == drawn[:10]


def test_a_server_that_ends_while_a_sandbox_starts_leaves_nothing_of_it() -> None:
    with ModalServer() as server, server.client() as client:
        app = modal.App.lookup("tests", create_if_missing=True, client=client)
        built = image()
        modal.Sandbox.create("true", app=app, image=built, client=client)
        server.starts.p50, server.starts.p99 = 2.0, 2.01  # a client that closes gives its calls half a second
        late = threading.Thread(target=_created, args=(app, built, client))
        late.start()
        while len(server.sandboxes()) < 2:
            time.sleep(0.01)
    late.join()
    assert not server.running() and not server.state.exists()


def _created(app: modal.App, built: modal.Image, client: modal.Client) -> None:
    with contextlib.suppress(Exception):  # whatever a client meets whose server goes
        modal.Sandbox.create("sleep", "63", app=app, image=built, client=client)


def test_a_failing_start_is_an_internal_error_and_leaves_nothing(account: Account) -> None:
    account.server.starts.failures = 1.0
    try:
        with pytest.raises(InternalError):
            account.create("true", tags={"starts": "never"})
    finally:
        account.server.starts.failures = 0.0
    assert account.listed(starts="never") == []


def test_a_rule_can_be_written_as_json(account: Account) -> None:
    rule = account.server.trouble.add_text(
        '{"rpc": "SandboxListV2", "do": {"refuse": {"status": "NOT_FOUND", "message": "so it goes"}}}'
    )
    with pytest.raises(NotFoundError, match="so it goes"):
        account.listed()
    assert rule.hits == 1
    assert refusal("UNAVAILABLE", "words").message == "words"
