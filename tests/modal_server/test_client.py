"""The unmodified client goes through everything that it is used for, with processes as sandboxes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import modal
import pytest
from modal.exception import AuthError, NotFoundError
from modal_proto import api_pb2

from tests.modal_server.conftest import Account
from tests.modal_server.rpc import REDACTED
from tests.modal_server.walk import walk


def test_the_client_goes_through_everything(account: Account, family: str) -> None:
    walk(account, f"walk-{family}")
    called = {call.rpc for call in account.server.calls()}
    assert ("SandboxCreateV2" if family == "v2" else "SandboxCreate") in called


def test_a_write_that_comes_twice_counts_once_and_a_gap_is_refused(account: Account) -> None:
    sandbox = account.create("cat")
    sandbox.stdin.write("abc")
    sandbox.stdin.drain()
    writer = _writer(sandbox)
    writer._offset = 0  # as after a reply that was lost
    sandbox.stdin.write("abcdef")
    sandbox.stdin.drain()
    writer._offset = 100
    sandbox.stdin.write("z")
    with pytest.raises(ValueError, match="data at 100 after 6 bytes"):
        sandbox.stdin.drain()
    writer._buffer.clear()
    writer._offset = 6
    sandbox.stdin.write_eof()
    sandbox.stdin.drain()
    sandbox.wait()
    assert sandbox.stdout.read() == "abcdef"


def _writer(sandbox: modal.Sandbox) -> Any:
    """The client's own writer, behind the wrapper that makes it callable without a loop."""
    inner: Any = next(value for value in vars(sandbox.stdin).values() if hasattr(value, "_impl"))
    return inner._impl


def test_secrets_reach_the_sandbox_and_not_the_record(account: Account, family: str) -> None:
    secret = modal.Secret.from_dict({"KEY": "hidden-one"})
    sandbox = account.create("sh", "-c", "echo $KEY $MORE; read x", secrets=[secret], env={"MORE": "hidden-two"})
    assert next(iter(sandbox.stdout)) == "hidden-one hidden-two\n"
    assert sandbox.exec("sh", "-c", "echo $KEY", secrets=[secret]).stdout.read() == "hidden-one\n"
    sandbox.terminate()
    recorded = "".join(str(call.message) for call in account.server.calls())
    assert "hidden" not in recorded and REDACTED in recorded


def test_sandboxes_have_a_root_a_process_tree_and_a_network_of_their_own(account: Account) -> None:
    if not account.server.private:
        pytest.skip("this host gives no namespaces")
    script = "echo mine > /out/mine; echo mine > /tmp/mine; touch /usr/mine; ls -A /out; echo $$"
    script += "; tail -n +3 /proc/net/dev; echo end"
    one, two = (account.create("sh", "-c", f"{script}; sleep 60", block_network=True) for _ in range(2))
    for sandbox in (one, two):
        lines = iter(sandbox.stdout)
        assert [next(lines).split(":")[0].strip() for _ in range(4)] == ["mine", "1", "lo", "end"]
        assert "Read-only file system" in next(iter(sandbox.stderr))
    assert not Path("/out/mine").exists() and not Path("/tmp/mine").exists()
    two.exec("rm", "/out/mine").wait()
    assert one.exec("sh", "-c", "cat /out/mine; ls -d /proc/[0-9]* | wc -l").stdout.read() in ("mine\n4\n", "mine\n5\n")
    for sandbox in (one, two):
        sandbox.terminate()


def test_what_is_not_served_says_its_name(account: Account) -> None:
    with pytest.raises(Exception, match="SandboxSnapshot is not served here"):
        account.create("sleep", "5", gpu="T4")._experimental_snapshot()


def test_strangers_are_refused(account: Account) -> None:
    stranger = modal.Client(account.server.url, api_pb2.CLIENT_TYPE_CLIENT, ("ak-other", "as-other"))
    with stranger, pytest.raises(AuthError):
        modal.App.lookup("tests", client=stranger)


def test_things_that_are_not_there_are_not_found(account: Account) -> None:
    with pytest.raises(NotFoundError):
        modal.App.lookup("no-such-app", client=account.client)
    with pytest.raises(NotFoundError):
        modal.Sandbox.from_id("sb-v2-none", client=account.client)
    with pytest.raises(NotFoundError):
        modal.Sandbox.from_name("tests", "nobody", client=account.client)


def test_another_process_finds_the_server_by_its_environment(account: Account) -> None:
    script = "import modal; print(modal.App.lookup('tests').app_id)"
    environment = {**os.environ, **account.server.environment}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == account.app.app_id
