"""The program that holds a command in a Modal sandbox, run here as a plain process."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.lab import ECHO, SLEEP, read_all, read_bytes, read_until
from tests.sandbox.modal.plain import held
from trace_bench.sandbox.errors import StreamTimeout
from trace_bench.sandbox.modal import program
from trace_bench.sandbox.modal.confinement import KEPT
from trace_bench.sandbox.modal.protocol import WINDOW, say
from trace_bench.sandbox.modal.reports import Ended
from trace_bench.sandbox.processes import descendants

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which has rights to give up")
FLOOD = """
number = 0
while number < 3000:
    number += 1
    os.write(1, b"%08d" % number + b"x" * 4087 + b"\\n")
    put("count", str(number).encode())
"""


def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.02)
    return holds()


def test_the_stream_carries_all_bytes_both_ways(tmp_path: Path) -> None:
    data = bytes(range(256)) * ((2 * WINDOW + 4096) // 256)
    with held(tmp_path, ECHO) as holder:
        _, stream = holder.started()
        read_until(stream, b"ready\n")
        stream.write(data)
        assert read_bytes(stream, len(data)) == data


def test_what_was_written_before_anybody_attached_is_not_lost(tmp_path: Path) -> None:
    with held(tmp_path, "say('a' * 30_000)\nos.write(2, b'oh')\nsys.exit(3)\n") as holder:
        holder.ask("start")
        assert holder.ask("wait")["ended"] == {"code": 3, "error": ""}
        conversation, stream = holder.attach()
        assert read_all(stream) == b"a" * 30_000 + b"\n"
        assert conversation.report is not None
        assert conversation.ended == Ended(code=3, error="") and conversation.report.stderr == "oh"


def test_who_attaches_last_has_the_stream_and_nobody_sees_an_end_of_file(tmp_path: Path) -> None:
    with held(tmp_path, ECHO) as holder:
        _, first = holder.started()
        read_until(first, b"ready\n")
        _, second = holder.attach()
        second.write(b"me\n")
        assert read_until(second, b"me\n") == b"me\n"
        with pytest.raises(Exception, match="stream"):
            read_all(first, 5)
        holder.bridges[-1].process.kill()
        _, third = holder.attach()
        third.write(b"and me\n")
        assert read_until(third, b"and me\n") == b"and me\n"


def test_output_that_nobody_reads_holds_the_command_up_and_no_more_is_taken_than_was_granted(tmp_path: Path) -> None:
    with held(tmp_path, FLOOD) as holder:
        conversation, stream = holder.started()

        def count() -> int:
            path = holder.out / "count"
            return int(path.read_text() or 0) if path.exists() else 0

        def waits() -> bool:
            before = count()
            time.sleep(0.3)
            return WINDOW < 4096 * before == 4096 * count()

        assert eventually(waits)
        assert count() < 3000
        lines = read_all(stream).splitlines()
        assert [int(line[:8]) for line in lines] == list(range(1, 3001))
        assert conversation.ended == Ended(code=0, error="")


def test_input_that_nobody_reads_is_refused_and_a_kill_gets_through(tmp_path: Path) -> None:
    with held(tmp_path, SLEEP) as holder:
        conversation, stream = holder.started()
        stream._deadline = 0.5
        with pytest.raises(StreamTimeout):
            stream.write(bytes(4 * WINDOW))
        holder.say(conversation, op="kill")
        assert conversation.wait_for(lambda: conversation.ended is not None, 10)
        assert conversation.ended == Ended(code=137, error="")


def test_a_flood_on_stderr_holds_nobody_up_and_its_end_is_kept(tmp_path: Path) -> None:
    code = "for i in range(300): os.write(2, b'%06d' % i + b'x' * 9994)\nos.write(2, b'end')\n"
    with held(tmp_path, code) as holder:
        holder.ask("start")
        words = holder.ask("wait")["stderr"]
        assert words.endswith("end") and len(words) == 64 * 1024
        assert holder.ask("status")["stderr"] == words


def test_a_kill_ends_all_that_came_of_the_command_and_so_does_its_end(tmp_path: Path) -> None:
    daemon = "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)\nos.wait()\n"
    for number, end in enumerate(("time.sleep(600)\n", "")):
        folder = tmp_path / str(number)
        with held(folder, daemon + "say('ready')\n" + end) as holder:
            conversation, stream = holder.started()
            read_until(stream, b"ready\n")
            if end:
                assert len(descendants(holder.process.pid)) == 2, "the command, and an orphan that came to the holder"
                assert holder.ask("kill")["ended"]["code"] == 137
            assert eventually(lambda talk=conversation: talk.ended is not None)  # type: ignore[misc]
            assert descendants(holder.process.pid) == []


def test_it_stays_until_nobody_needs_it_and_then_goes(tmp_path: Path) -> None:
    with held(tmp_path / "never", SLEEP, unstarted=0.5) as holder:
        assert holder.process.wait(15) == 1, "nobody started it"
    with held(tmp_path / "ended", "", linger=1.5) as holder:
        holder.ask("start")
        holder.ask("wait")
        time.sleep(0.7)
        assert holder.ask("status")["state"] == "exited"
        assert holder.process.wait(15) == 0, "nobody came any more"


def test_while_somebody_holds_it_it_lingers_on(tmp_path: Path) -> None:
    with held(tmp_path, "", linger=1.5) as holder:
        holder.ask("start")
        words = [sys.executable, *program.join_command(holder.socket, op="hold")[1:]]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as bridge:
            assert bridge.stdin is not None
            time.sleep(2.6)  # it looks once a second
            assert holder.process.poll() is None
            bridge.stdin.close()
            assert holder.process.wait(15) == 0


def test_the_command_ends_with_the_holder(tmp_path: Path) -> None:
    with held(tmp_path, "say(str(os.getpid()))\ntime.sleep(600)\n") as holder:
        _, stream = holder.started()
        pid = int(read_until(stream, b"\n"))
        holder.process.send_signal(signal.SIGKILL)
        assert eventually(lambda: not Path(f"/proc/{pid}").exists())


@root
def test_the_command_has_the_rights_of_a_supervisor_and_no_way_to_more(tmp_path: Path) -> None:
    code = (
        "import resource\n"
        "fields = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines())\n"
        "limits = [resource.getrlimit(getattr(resource, 'RLIMIT_' + n)) for n in ('NOFILE', 'FSIZE', 'CORE')]\n"
        "say(json.dumps([fields['CapBnd'], fields['CapEff'], fields['NoNewPrivs'], limits, os.getcwd()]))\n"
    )
    kept = sum(1 << number for number in KEPT.values())
    with held(tmp_path, code) as holder:
        conversation, stream = holder.started()
        bounding, effective, no_new, limits, folder = json.loads(read_all(stream))
        assert int(bounding, 16) == int(effective, 16) == kept
        assert (no_new.strip(), limits, folder) == ("1", [[256, 256], [64 << 20, 64 << 20], [0, 0]], "/")
        assert conversation.report is not None
        facts = conversation.report.facts
        assert sorted(facts.capabilities) == sorted(KEPT) and facts.no_new_privs and facts.fsize == 64 << 20


def test_what_the_service_tells_its_programs_is_not_told_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODAL_IDENTITY_TOKEN", "canary")
    monkeypatch.setenv("OF_THE_IMAGE", "kept")
    with held(tmp_path, "say(json.dumps(dict(os.environ)))\n") as holder:
        _, stream = holder.started()
        inside = json.loads(read_all(stream))
        assert inside["OF_THE_IMAGE"] == "kept" and "canary" not in json.dumps(inside)


@root
def test_no_other_uid_is_answered(tmp_path: Path) -> None:
    ask = (
        "import os, socket, sys\nos.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\n"
        "peer = socket.socket(socket.AF_UNIX)\npeer.connect(sys.argv[1])\n"
        "try: peer.sendall(bytes.fromhex(sys.argv[2])); print(len(peer.recv(100)))\n"
        "except (BrokenPipeError, ConnectionResetError): print(0)\n"
    )
    with held(tmp_path, SLEEP) as holder:
        assert holder.ask("status")["state"] == "created"
        path = Path(holder.socket)
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        path.chmod(0o666)
        for folder in (path.parent, *path.parent.parents[: len(path.parents) - 2]):
            if folder.stat().st_uid == 0 and folder != Path("/tmp"):
                folder.chmod(folder.stat().st_mode | 0o005)
        words = [sys.executable, "-I", "-c", ask, str(path), say(op="kill").hex()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
        assert done.stdout == "0\n", done.stderr
        assert holder.ask("status")["state"] == "created"


def test_what_was_written_comes_back_as_a_tar_and_no_link_is_followed(tmp_path: Path) -> None:
    code = "put('x', b'y' * 100_000)\nos.symlink('/etc', OUT + '/link')\nos.chmod(OUT + '/x', 0o600)\n"
    with held(tmp_path, code) as holder:
        holder.ask("start")
        holder.ask("wait")
        with tarfile.open(fileobj=io.BytesIO(holder.collected())) as tar:
            found = {member.name: member for member in tar}
        assert set(found) == {"out", "out/x", "out/link"}
        assert found["out/link"].issym() and found["out/x"].size == 100_000
        assert (found["out/x"].uid, found["out/x"].mode) == (os.getuid(), 0o600)


@root
def test_folders_that_are_open_to_all_are_closed(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o1777)
    with held(tmp_path, SLEEP, closed=[str(folder), str(tmp_path / "not there")]) as holder:
        holder.ask("status")
        assert folder.stat().st_mode & 0o7777 == 0o755


def test_the_programs_fit_into_a_command_line() -> None:
    """The service takes 64 KiB for all arguments of a sandbox."""
    for words in (program.holder_command({}), program.join_command(), program.collect_command()):
        assert words[:2] == ["python3", "-I"] and sum(map(len, words)) < 16_000
