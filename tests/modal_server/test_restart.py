"""A server can go away and come back: its sandboxes, their output and their names are still there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import modal
import pytest
from modal_proto import api_pb2

from tests.modal_server.conftest import image
from tests.modal_server.server import ModalServer

pytestmark = pytest.mark.slow


def _serve(state: Path, port: int, *options: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "tests.modal_server", "--state", str(state), "--port", str(port), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert process.stdout
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_sandboxes_outlive_their_server(tmp_path: Path, how: signal.Signals) -> None:
    first, url = _serve(tmp_path, 0)
    port = int(url.rpartition(":")[2])
    second = None
    try:
        with modal.Client(url, api_pb2.CLIENT_TYPE_CLIENT, ("ak-loopback", "as-loopback")) as client:
            app = modal.App.lookup("tests", create_if_missing=True, client=client)
            script = "while read line; do echo $line; done; exit 4"
            sandbox = modal.Sandbox.create("sh", "-c", script, app=app, image=image(), name="survivor", client=client)
            command = sandbox.exec("sh", "-c", "read line; echo $line; exit 6")
            sandbox.stdin.write("before\n")
            sandbox.stdin.drain()
            lines = iter(sandbox.stdout)
            assert next(lines) == "before\n"
            os.kill(first.pid, how)
            first.wait()
            with pytest.raises(modal.exception.Error):
                sandbox.poll()
            second, _ = _serve(tmp_path, port)
            assert sandbox.poll() is None
            assert modal.Sandbox.from_name("tests", "survivor", client=client).object_id == sandbox.object_id
            sandbox.stdin.write("after\n")
            command.stdin.write("to the command\n")
            for stdin in (sandbox.stdin, command.stdin):
                stdin.drain()
            assert next(lines) == "after\n"
            assert (command.stdout.read(), command.wait()) == ("to the command\n", 6)
            sandbox.stdin.write_eof()
            sandbox.stdin.drain()
            sandbox.wait()
            assert sandbox.returncode == 4
            whole = modal.Sandbox.from_id(sandbox.object_id, client=client).stdout.read()
            assert whole == "before\nafter\n"
    finally:
        first.kill()
        if second:
            second.send_signal(signal.SIGUSR1)
            second.wait(20)


def test_a_limit_that_passes_while_the_server_is_away_strikes_when_it_is_back(tmp_path: Path) -> None:
    server = ModalServer(state=tmp_path)
    with server, server.client() as client:
        app = modal.App.lookup("tests", create_if_missing=True, client=client)
        sandbox = modal.Sandbox.create("sleep", "60", app=app, image=image(), timeout=1, client=client)
        ended = modal.Sandbox.create("sh", "-c", "sleep 0.2; exit 3", app=app, image=image(), client=client)
        server.stop()
        time.sleep(1.2)
        server.start()
        with pytest.raises(modal.exception.SandboxTimeoutError):
            sandbox.wait()
        ended.wait()
        assert ended.returncode == 3


def test_nothing_is_left_when_a_server_has_ended() -> None:
    with ModalServer() as server, server.client() as client:
        app = modal.App.lookup("tests", create_if_missing=True, client=client)
        modal.Sandbox.create("sh", "-c", "setsid sleep 61 & sleep 61", app=app, image=image(), client=client)
        keeper = int((server.state / "keeper.pid").read_text())
        main = int((server.sandboxes()[0].main / "pid").read_text())
    assert not server.state.exists()
    time.sleep(0.2)
    assert not Path(f"/proc/{main}").exists()
    status = Path(f"/proc/{keeper}/status")
    assert not status.exists() or "zombie" in status.read_text()
