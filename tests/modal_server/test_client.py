"""The unmodified client goes through everything that it is used for, with processes as sandboxes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import modal
import pytest
from modal.exception import AuthError, NotFoundError
from modal_proto import api_pb2

from tests.modal_server.conftest import Account, image
from tests.modal_server.rpc import REDACTED
from tests.modal_server.server import ModalServer
from tests.modal_server.walk import walk


@pytest.mark.parametrize("family", ["v2", "v1"], indirect=True)
def test_the_client_goes_through_everything(account: Account, family: str, tmp_path: Path) -> None:
    walk(account, tmp_path, f"walk-{family}")
    called = {call.rpc for call in account.server.calls()}
    assert ("SandboxCreateV2" if family == "v2" else "SandboxCreate") in called


def test_a_gpu_goes_over_the_first_family(account: Account) -> None:
    sandbox = account.create("true", gpu="H100:2", cpu=(0.5, 1.0), memory=(128, 512), region="eu", block_network=True)
    definition = account.server.calls("SandboxCreate")[-1].message.definition
    assert (definition.resources.gpu_config.gpu_type, definition.resources.gpu_config.count) == ("H100", 2)
    assert (definition.resources.milli_cpu, definition.resources.milli_cpu_max) == (500, 1000)
    assert (definition.resources.memory_mb, definition.resources.memory_mb_max) == (128, 512)
    assert list(definition.scheduler_placement.regions) == ["eu"]
    sandbox.wait()
    assert sandbox.returncode == 0


def test_an_idle_sandbox_is_ended_and_a_busy_one_is_not(account: Account) -> None:
    idle, busy = (account.create("sleep", "60", idle_timeout=1) for _ in range(2))
    command = busy.exec("sleep", "60")
    idle.wait()
    record = account.server.sandboxes()[-2]
    assert record.status == api_pb2.GenericResult.GENERIC_STATUS_IDLE_TIMEOUT
    time.sleep(0.5)
    assert busy.poll() is None and command.poll() is None
    busy.terminate(wait=True)


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


def test_lists_come_in_pages(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.modal_server.sandboxes.PAGE", 2)
    made = [account.create("sleep", "60", tags={"of": "pages"}).object_id for _ in range(5)]
    before = account.server.calls.count("SandboxListV2")
    assert sorted(account.listed(of="pages")) == sorted(made)
    assert account.server.calls.count("SandboxListV2") - before == 4
    for id in made:
        modal.Sandbox.from_id(id, client=account.client).terminate()


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


def test_many_sandboxes_run_at_once(account: Account) -> None:
    built = image()

    async def one(number: int) -> str:
        sandbox = await modal.Sandbox.create.aio(
            "sh", "-c", "read line; echo $line", app=account.app, image=built, client=account.client
        )
        sandbox.stdin.write(f"{number}\n")
        await sandbox.stdin.drain.aio()
        await sandbox.wait.aio()
        return str(await sandbox.stdout.read.aio())

    async def all_of_them() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(60)))

    assert asyncio.run(all_of_them()) == [f"{number}\n" for number in range(60)]


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


def test_two_servers_in_one_process_do_not_meet(account: Account) -> None:
    with ModalServer() as other, other.client() as client:
        assert modal.App.lookup("tests", create_if_missing=True, client=client).app_id != account.app.app_id


def test_without_namespaces_only_the_file_operations_see_a_root_of_its_own() -> None:
    with ModalServer(isolated=False) as server, server.client() as client:
        account = Account(server, client, modal.App.lookup("tests", create_if_missing=True, client=client))
        sandbox = account.create("sh", "-c", "setsid sleep 62 & pwd; sleep 62")
        assert not server.private
        sandbox.filesystem.write_text("text", "/out/file")
        folder = server.sandboxes()[0].folder / "root"
        assert (folder / "out/file").read_text() == "text" == sandbox.filesystem.read_text("/out/file")
        assert next(iter(sandbox.stdout)) == f"{folder}\n" and not Path("/out/file").exists()
        assert sandbox.terminate(wait=True) == 137
