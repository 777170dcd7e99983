"""From the start of a command to its end."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trace_bench.errors import SandboxError
from trace_bench.sandbox.base import ExitStatus, Sandbox
from trace_bench.sandbox.conformance.lab import ECHO, GRANDCHILD, PATIENCE, SLEEP, Lab, content, read_until


def exit_codes_come_back(lab: Lab) -> None:
    for code in (0, 7, 255):
        assert lab.finished(f"sys.exit({code})\n")[2] == ExitStatus(code, False, "")


def death_by_signal_is_128_plus_its_number(lab: Lab) -> None:
    _, _, ended = lab.finished(
        "import signal\nif os.fork() == 0: os.execv('/bin/sleep', ['sleep', '600'])\nos.abort()\n"
    )
    assert ended.code == 128 + signal.SIGABRT


def missing_command_is_named(lab: Lab) -> None:
    """By an error of `create` or `start`, or by exit code 127 and the last words."""
    sandbox = None
    try:
        sandbox = lab.backend.create(lab.request(ECHO, command=("no-such-command",)))
        sandbox.start()
        ended = sandbox.wait(PATIENCE)
        assert ended is not None and ended.code == 127
        assert "no-such-command" in sandbox.last_words()
    except SandboxError as error:
        assert "no-such-command" in str(error)
    finally:
        if sandbox is not None:
            sandbox.remove()


def flood_that_is_not_read_can_be_killed(lab: Lab) -> None:
    with lab.running("say('ready')\nwhile True: os.write(1, b'x' * 65536)\n") as (sandbox, _):
        time.sleep(0.5)
        sandbox.kill()
        ended = sandbox.wait(PATIENCE)
        assert ended is not None and ended.code == 128 + signal.SIGKILL


def kill_ends_grandchildren(lab: Lab) -> None:
    with lab.running(GRANDCHILD + "time.sleep(600)\n") as (sandbox, stream):
        read_until(stream, b"ready\n")
        sandbox.kill()
        assert sandbox.wait(PATIENCE) is not None
        _assert_silent(sandbox)


def end_of_the_command_ends_grandchildren(lab: Lab) -> None:
    with lab.running(GRANDCHILD) as (sandbox, stream):
        read_until(stream, b"ready\n")
        ended = sandbox.wait(PATIENCE)
        assert ended is not None and ended.code == 0
        _assert_silent(sandbox)


def _assert_silent(sandbox: Sandbox) -> None:
    before = content(sandbox, "beat")
    time.sleep(0.3)
    assert content(sandbox, "beat") == before


def kill_is_harmless_before_the_start_and_twice(lab: Lab) -> None:
    with lab.running(SLEEP) as (sandbox, _):
        sandbox.kill()
        assert sandbox.wait(PATIENCE) is not None
        sandbox.kill()
    with lab.created(SLEEP) as sandbox:
        sandbox.kill()
        assert sandbox.status() == "created"


def wait_returns_none_after_its_timeout(lab: Lab) -> None:
    with lab.running(SLEEP) as (sandbox, _):
        began = time.monotonic()
        assert sandbox.wait(0.5) is None
        assert 0.45 <= time.monotonic() - began < 10
        assert sandbox.wait(0) is None
    with lab.created(SLEEP) as sandbox:
        assert sandbox.wait(0.3) is None


def wait_returns_as_soon_as_it_ends(lab: Lab) -> None:
    with lab.running("time.sleep(0.5)\n") as (sandbox, _):
        began = time.monotonic()
        assert sandbox.wait(60) is not None
        assert time.monotonic() - began < 15


def status_follows_the_life_of_a_sandbox(lab: Lab) -> None:
    with lab.created(SLEEP) as sandbox:
        assert sandbox.status() == "created"
        sandbox.start()
        assert sandbox.status() == "running"
        sandbox.kill()
        assert sandbox.wait(PATIENCE) is not None
        assert sandbox.status() == "exited"
        sandbox.remove()
        assert sandbox.status() == "removed"


def command_starts_in_its_own_folder(lab: Lab) -> None:
    with tempfile.NamedTemporaryFile(dir=".", prefix="trace-bench-conformance-") as mark:
        name = Path(mark.name).name
        out, _, ended = lab.finished(f"say(json.dumps([os.path.isabs(os.getcwd()), os.path.exists({name!r})]))\n")
    assert ended.code == 0
    assert json.loads(out) == [True, False]


def many_sandboxes_at_once(lab: Lab) -> None:
    def work(number: int) -> bytes:
        out, _, ended = lab.finished(f"say('{number}')\nput('n', b'{number}')\n")
        assert ended.code == 0
        return out

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [b"%d\n" % number for number in range(8)]
