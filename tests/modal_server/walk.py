"""What the client can do with a sandbox, in one go, for any mode and both families."""

from __future__ import annotations

import io
import time

import modal
import pytest
from modal.exception import AlreadyExistsError, NotFoundError, SandboxTerminatedError, SandboxTimeoutError

from tests.modal_server.conftest import Account

ENTRYPOINT = 'echo "hi $WHO"; echo bad >&2; read line; echo "got $line"; exit 5'


def walk(account: Account, name: str) -> None:
    """Create, talk, list, find, run commands, copy files, end; each step checked. `name` is of this walk alone."""
    sandbox = account.create(
        *("sh", "-c", ENTRYPOINT), name=name, tags={"walk": name, "kind": "a"}, env={"WHO": "you"}, timeout=60
    )
    assert sandbox.poll() is None
    assert next(iter(sandbox.stdout)) == "hi you\n"
    assert sandbox.get_tags() == {"walk": name, "kind": "a"}
    sandbox.set_tags({"walk": name, "kind": "b"})
    assert account.listed(walk=name, kind="b") == [sandbox.object_id] and not account.listed(walk=name, kind="a")
    _names(account, sandbox, name)
    _commands(sandbox)
    command = sandbox.exec("sleep", "60")
    sandbox.stdin.write("line\n")
    sandbox.stdin.drain()
    sandbox.wait()
    assert (sandbox.returncode, sandbox.stdout.read(), sandbox.stderr.read()) == (5, "got line\n", "bad\n")
    assert account.listed(walk=name) == []
    for call in (lambda: sandbox.exec("true"), command.poll):
        with pytest.raises(NotFoundError):
            call()
    _ends(account, name)


def _names(account: Account, sandbox: modal.Sandbox, name: str) -> None:
    with pytest.raises(AlreadyExistsError):
        account.create("true", name=name)
    found = modal.Sandbox.from_name("tests", name, client=account.client)
    assert found.object_id == sandbox.object_id
    again = modal.Sandbox.from_id(sandbox.object_id, client=account.client)
    command = again.exec("sh", "-c", "exit 7")
    assert command.wait() == 7 and again.poll() is None


def _commands(sandbox: modal.Sandbox) -> None:
    command = sandbox.exec("sh", "-c", "cat; echo $X $WHO >&2; pwd; exit 3", env={"X": "x"}, workdir="/tmp")
    command.stdin.write("some ")
    command.stdin.drain()
    command.stdin.write("words\n")
    command.stdin.write_eof()
    command.stdin.drain()
    assert (command.stdout.read(), command.stderr.read(), command.wait()) == ("some words\n/tmp\n", "x you\n", 3)
    binary = sandbox.exec("head", "-c", "200000", "/dev/zero", text=False)
    assert binary.stdout.read() == b"\0" * 200_000
    assert sandbox.exec("sh", "-c", "kill -9 $$").wait() == 137
    # Who is first: the client gives up with -1, the server kills.
    assert sandbox.exec("sleep", "30", timeout=1).wait() in (-1, 137)


def _ends(account: Account, name: str) -> None:
    sandbox = account.create("sleep", "60", name=name)
    assert sandbox.terminate(wait=True) == 137
    with pytest.raises(SandboxTerminatedError):
        sandbox.wait()
    slow = account.create("sleep", "60", name=name, timeout=1)
    started = time.monotonic()
    with pytest.raises(SandboxTimeoutError):
        slow.wait()
    assert slow.returncode == 124 and 0.5 < time.monotonic() - started < 5
    reads = account.create("cat", name=name)
    reads.stdin.write(io.BytesIO(b"to the end").getvalue())
    reads.stdin.write_eof()
    reads.stdin.drain()
    reads.wait()
    assert (reads.returncode, reads.stdout.read()) == (0, "to the end")
