"""What every backend must do.

`CHECKS` are functions of a `Lab`; ``test_conformance.py`` runs them against each backend.

The sandboxed programs are a few lines of Python each. They take ``--out`` and ``--tmp`` as the worker does.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from trace_bench.errors import SandboxError
from trace_bench.sandbox import Backend, ExitStatus, Resources, Sandbox, SandboxRequest, Stream
from trace_bench.sandbox.errors import NameConflict, SandboxGone
from trace_bench.sandbox.labels import JOB, RUN, UID_BASE

PRELUDE = """
import json, os, sys, time
def folder(flag, default):
    return sys.argv[sys.argv.index(flag) + 1] if flag in sys.argv else default
OUT, TMP = folder("--out", "/out"), folder("--tmp", "/tmp")
def say(text):
    os.write(1, text.encode() + b"\\n")
def put(name, data):
    with open(os.path.join(OUT, name), "wb") as file:
        file.write(data)
"""
ECHO = """
say("ready")
while True:
    data = os.read(0, 65536)
    if not data:
        break
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
"""
SLEEP = "say('ready')\ntime.sleep(600)\n"
GRANDCHILD = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        number = 0
        while True:
            number += 1
            put("beat", str(number).encode())
            time.sleep(0.02)
    os._exit(0)
while not os.path.exists(os.path.join(OUT, "beat")):
    time.sleep(0.01)
say("ready")
"""


@dataclass(frozen=True)
class Lab:
    """A backend to be examined."""

    backend: Backend
    image: str
    run: str = field(default_factory=lambda: "test-" + secrets.token_hex(4))
    runtime: str | None = None

    def request(self, code: str, **changes: Any) -> SandboxRequest:
        job = secrets.token_hex(6)
        settings: dict[str, Any] = {
            "name": f"trace-bench-{self.run}-{job}",
            "image": self.image,
            "command": ("python3", "-I", "-c", PRELUDE + code),
            "labels": {RUN: self.run, JOB: job},
            "uid_base": self.backend.default_uid_base,
            "resources": Resources(memory_bytes=256 << 20, pids=64),
            "runtime": self.runtime,
        }
        return SandboxRequest(**{**settings, **changes})

    @contextmanager
    def created(self, code: str, **changes: Any) -> Iterator[Sandbox]:
        sandbox = self.backend.create(self.request(code, **changes))
        try:
            yield sandbox
        finally:
            sandbox.remove()

    @contextmanager
    def running(self, code: str, **changes: Any) -> Iterator[tuple[Sandbox, Stream]]:
        with self.created(code, **changes) as sandbox:
            stream = sandbox.attach()
            try:
                sandbox.start()
                yield sandbox, stream
            finally:
                stream.close()

    def finished(self, code: str, **changes: Any) -> tuple[bytes, str, ExitStatus]:
        """Run `code` to its end: stdout, stderr, and how it ended."""
        with self.running(code, **changes) as (sandbox, stream):
            out = read_all(stream)
            ended = sandbox.wait(30)
            assert ended is not None
            return out, stream.stderr_tail(), ended

    def sweep(self) -> None:
        for sandbox in self.backend.find({RUN: self.run}):
            sandbox.remove()


def read_until(stream: Stream, end: bytes, seconds: float = 30) -> bytes:
    """Everything up to and with `end`."""
    return read_while(stream, lambda data: not data.endswith(end), seconds)


def read_bytes(stream: Stream, count: int, seconds: float = 60) -> bytes:
    return read_while(stream, lambda data: len(data) < count, seconds)


def read_all(stream: Stream, seconds: float = 60) -> bytes:
    """Everything up to the end of the stream."""
    return read_while(stream, lambda _: True, seconds, to_end=True)


def read_while(stream: Stream, more: Callable[[bytes], bool], seconds: float, *, to_end: bool = False) -> bytes:
    deadline = time.monotonic() + seconds
    data = bytearray()
    while more(bytes(data[-64:]) if to_end else bytes(data)):
        piece = stream.read(max(0.0, deadline - time.monotonic()))
        assert piece is not None, f"nothing within {seconds} s after {bytes(data[-200:])!r}"
        if not piece:
            assert to_end, f"the stream ended after {bytes(data[-200:])!r}: {stream.stderr_tail()}"
            break
        data += piece
    return bytes(data)


def members(sandbox: Sandbox) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(sandbox.collect()))) as tar:
        return {member.name.rstrip("/"): member for member in tar}


def content(sandbox: Sandbox, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(b"".join(sandbox.collect()))) as tar:
        file = tar.extractfile(f"out/{name}")
        assert file is not None
        return file.read()


def stream_carries_all_bytes_exactly(lab: Lab) -> None:
    data = bytes(range(256)) * 3 + "Grüße, 世界 🚀\r\n\x00\x04\x1a".encode() + b"\x10\x11\xff\xfe"
    with lab.running(ECHO) as (_, stream):
        assert read_until(stream, b"ready\n") == b"ready\n"
        stream.write(data)
        assert read_bytes(stream, len(data)) == data


def stream_carries_a_megabyte_both_ways(lab: Lab) -> None:
    data = secrets.token_bytes(1 << 20)
    with lab.running(ECHO) as (_, stream):
        read_until(stream, b"ready\n")
        stream.write(data)
        assert read_bytes(stream, len(data)) == data


def writer_takes_in_what_arrives_so_that_full_pipes_do_not_block(lab: Lab) -> None:
    data = secrets.token_bytes(12 << 20)
    with lab.running(ECHO) as (_, stream):
        read_until(stream, b"ready\n")
        stream.write(data)  # one thread: who only wrote would wait for ever for the echo to be read
        assert read_bytes(stream, len(data)) == data


def one_thread_reads_while_another_writes(lab: Lab) -> None:
    pieces = [secrets.token_bytes(size) for size in (1, 100_000, 3, 900_000) * 4]
    with lab.running(ECHO) as (_, stream):
        read_until(stream, b"ready\n")

        def write() -> None:
            for piece in pieces:
                stream.write(piece)

        writer = threading.Thread(target=write)
        writer.start()
        assert read_bytes(stream, sum(map(len, pieces))) == b"".join(pieces)
        writer.join(10)
        assert not writer.is_alive()


def read_returns_none_when_nothing_comes(lab: Lab) -> None:
    with lab.running(SLEEP) as (_, stream):
        read_until(stream, b"ready\n")
        began = time.monotonic()
        assert stream.read(0.3) is None
        assert 0.25 <= time.monotonic() - began < 5


def stdout_ends_with_the_command(lab: Lab) -> None:
    with lab.running("say('last')\n") as (_, stream):
        assert read_all(stream) == b"last\n"
        assert stream.read(0) == b""


def nothing_said_before_the_end_is_lost(lab: Lab) -> None:
    # In pieces: a write may take less than it was given, and under gVisor it does.
    out, _, ended = lab.finished("for _ in range(3000): say('x' * 999)\nos.write(1, b'end')\n")
    assert ended.code == 0
    assert out == (b"x" * 999 + b"\n") * 3000 + b"end"


def stderr_is_kept_apart(lab: Lab) -> None:
    out, errors, _ = lab.finished("os.write(2, 'schlimm ß\\n'.encode())\nsay('fine')\ntime.sleep(0.2)\n")
    assert out == b"fine\n"
    assert errors == "schlimm ß\n"


def stderr_is_bounded(lab: Lab) -> None:
    _, errors, _ = lab.finished("for i in range(3000): os.write(2, b'%06d' % i + b'x' * 94)\nos.write(2, b'end')\n")
    assert errors.endswith("end")
    assert len(errors) <= 64 * 1024


def last_words_are_kept_without_anybody_attached(lab: Lab) -> None:
    with lab.created("os.write(2, b'went wrong\\n')\nsys.exit(3)\n") as sandbox:
        sandbox.start()
        ended = sandbox.wait(30)
        assert ended is not None and ended.code == 3
        assert sandbox.last_words() == "went wrong\n"


def exit_code_comes_back(lab: Lab) -> None:
    assert lab.finished("sys.exit(7)\n")[2] == ExitStatus(7, False, "")


def death_by_signal_is_128_plus_its_number(lab: Lab) -> None:
    _, _, ended = lab.finished(
        "import signal\nif os.fork() == 0: os.execv('/bin/sleep', ['sleep', '600'])\nos.abort()\n"
    )
    assert ended.code == 128 + signal.SIGABRT


def command_that_is_not_there_is_named(lab: Lab) -> None:
    """By an error of `create` or `start`, or by exit code 127 and the last words."""
    sandbox = None
    try:
        sandbox = lab.backend.create(lab.request(ECHO, command=("no-such-command",)))
        sandbox.start()
        ended = sandbox.wait(20)
        assert ended is not None and ended.code == 127
        assert "no-such-command" in sandbox.last_words()
    except SandboxError as error:
        assert "no-such-command" in str(error)
    finally:
        if sandbox is not None:
            sandbox.remove()


def flood_that_nobody_reads_can_be_killed(lab: Lab) -> None:
    with lab.running("say('ready')\nwhile True: os.write(1, b'x' * 65536)\n") as (sandbox, _):
        time.sleep(0.5)
        sandbox.kill()
        ended = sandbox.wait(20)
        assert ended is not None and ended.code == 128 + signal.SIGKILL


def kill_ends_grandchildren(lab: Lab) -> None:
    with lab.running(GRANDCHILD + "time.sleep(600)\n") as (sandbox, stream):
        read_until(stream, b"ready\n")
        sandbox.kill()
        assert sandbox.wait(20) is not None
        _assert_silent(sandbox)


def end_of_the_command_ends_grandchildren(lab: Lab) -> None:
    with lab.running(GRANDCHILD) as (sandbox, stream):
        read_until(stream, b"ready\n")
        ended = sandbox.wait(20)
        assert ended is not None and ended.code == 0
        _assert_silent(sandbox)


def _assert_silent(sandbox: Sandbox) -> None:
    before = content(sandbox, "beat")
    time.sleep(0.3)
    assert content(sandbox, "beat") == before


def kill_does_no_harm_before_the_start_nor_twice(lab: Lab) -> None:
    with lab.running(SLEEP) as (sandbox, _):
        sandbox.kill()
        assert sandbox.wait(20) is not None
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
        assert sandbox.wait(20) is not None
        assert sandbox.status() == "exited"
        sandbox.remove()
        assert sandbox.status() == "removed"


def detaching_is_no_end_of_file_and_who_attaches_again_is_served(lab: Lab) -> None:
    with lab.running(ECHO) as (sandbox, stream):
        read_until(stream, b"ready\n")
        stream.close()
        assert sandbox.wait(0.3) is None
        for word in (b"second\n", b"third\n"):
            again = sandbox.attach()
            again.write(word)
            assert read_until(again, word) == word
            again.close()


def attaching_to_a_torrent_tears_no_bytes(lab: Lab) -> None:
    """Numbered lines flow without end: whatever point one attaches at, each whole line must be well-formed."""
    code = "i = 0\nwhile True:\n    i += 1\n    os.write(1, b'%012d\\n' % i)\n    if i % 50 == 0: time.sleep(0.001)\n"
    with lab.running(code) as (sandbox, stream):
        read_bytes(stream, 10_000)
        stream.close()
        for _ in range(5):
            again = sandbox.attach()
            lines = read_bytes(again, 50_000).split(b"\n")[1:-1]
            again.close()
            numbers = [int(line) for line in lines if len(line) == 12]
            assert len(numbers) == len(lines) > 1000
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def controller_that_was_killed_leaves_what_the_next_one_adopts(lab: Lab) -> None:
    code = (
        "import os, signal, sys, pickle\n"
        "from tests.sandbox.conformance import Lab, ECHO, read_until\n"
        "lab, request = pickle.load(sys.stdin.buffer)\n"
        "sandbox = lab.create(request)\n"
        "stream = sandbox.attach()\n"
        "sandbox.start()\n"
        "read_until(stream, b'ready\\n')\n"
        "stream.write(b'half a fra')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    import pickle

    request = lab.request(ECHO)
    # The labels are a plain dict here, so the request pickles; the backend is made anew in the other process.
    data = pickle.dumps((_BackendByName(lab.backend.name, _state_dir(lab.backend)), request))
    died = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    try:
        found = lab.backend.find({RUN: lab.run, JOB: request.labels[JOB]})
        assert [sandbox.status() for sandbox in found] == ["running"]
        assert found[0].labels[UID_BASE] == str(request.uid_base)
        stream = found[0].attach()
        stream.write(b"me\n")
        assert read_until(stream, b"me\n").endswith(b"me\n")
        stream.close()
        found[0].kill()
        ended = found[0].wait(20)
        assert ended is not None and ended.code == 128 + signal.SIGKILL
    finally:
        lab.sweep()
    assert lab.backend.find({RUN: lab.run, JOB: request.labels[JOB]}) == []


@dataclass(frozen=True)
class _BackendByName:
    name: str
    state_dir: str | None

    def create(self, request: SandboxRequest) -> Sandbox:
        from trace_bench.sandbox import get_backend

        if self.state_dir is not None:
            os.environ["TRACE_BENCH_STATE_DIR"] = self.state_dir
        return get_backend(self.name).create(request)


def _state_dir(backend: Backend) -> str | None:
    chosen = getattr(backend, "_chosen", None)
    return str(chosen) if chosen else None


def collect_brings_what_was_written_while_it_runs_and_afterwards(lab: Lab) -> None:
    code = (
        "os.makedirs(os.path.join(OUT, 'a/ü b'))\n"
        "put('a/ü b/日本.txt', 'Grüße'.encode())\nput('empty', b'')\nput('big', b'0123456789' * 100_000)\n" + SLEEP
    )
    with lab.running(code) as (sandbox, stream):
        read_until(stream, b"ready\n")
        for _ in range(2):
            found = members(sandbox)
            assert set(found) == {"out", "out/a", "out/a/ü b", "out/a/ü b/日本.txt", "out/empty", "out/big"}
            assert found["out"].isdir() and found["out/empty"].size == 0
            assert content(sandbox, "a/ü b/日本.txt").decode() == "Grüße"
            assert content(sandbox, "big") == b"0123456789" * 100_000
            sandbox.kill()
            assert sandbox.wait(20) is not None


def collect_of_an_empty_folder_is_an_empty_folder(lab: Lab) -> None:
    with lab.created(SLEEP) as sandbox:
        assert set(members(sandbox)) == {"out"}


def collect_follows_no_link(lab: Lab) -> None:
    code = "os.symlink('/etc/passwd', OUT + '/file')\nos.symlink('/etc', OUT + '/folder')\nsay('ready')\n"
    with lab.running(code) as (sandbox, stream):
        read_until(stream, b"ready\n")
        found = members(sandbox)
        assert set(found) == {"out", "out/file", "out/folder"}
        assert found["out/file"].issym() and found["out/folder"].issym()


def find_goes_by_labels_in_every_state(lab: Lab) -> None:
    marks = {RUN: lab.run, JOB: "find-me"}
    with (
        lab.created(SLEEP, labels=marks) as created,
        lab.running(SLEEP, labels=marks) as (running, _),
        lab.running("", labels=marks) as (exited, _),
        lab.created(SLEEP) as other,
    ):
        assert exited.wait(20) is not None
        found = {sandbox.name: sandbox for sandbox in lab.backend.find(marks)}
        assert {name: sandbox.status() for name, sandbox in found.items()} == {
            created.name: "created",
            running.name: "running",
            exited.name: "exited",
        }
        assert marks.items() <= found[running.name].labels.items()
        assert other.name in {sandbox.name for sandbox in lab.backend.find({RUN: lab.run})}
        assert lab.backend.find({RUN: lab.run + "-other"}) == []


def remove_takes_everything_and_twice_does_no_harm(lab: Lab) -> None:
    with lab.running("put('x', b'y')\n" + SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        twin = lab.backend.find({JOB: sandbox.labels[JOB]})[0]
        sandbox.remove()
        sandbox.remove()
        twin.remove()
        assert lab.backend.find({JOB: sandbox.labels[JOB]}) == []
        with pytest.raises(SandboxGone):
            b"".join(sandbox.collect())
        with pytest.raises(SandboxGone):
            sandbox.attach()


def name_that_is_taken_is_a_conflict_and_harms_nobody(lab: Lab) -> None:
    with lab.running(ECHO) as (sandbox, stream):
        with pytest.raises(NameConflict, match=sandbox.name):
            lab.backend.create(lab.request(ECHO, name=sandbox.name, labels=dict(sandbox.labels)))
        read_until(stream, b"ready\n")
        stream.write(b"alive\n")
        assert read_until(stream, b"alive\n") == b"alive\n"
        assert len(lab.backend.find({JOB: sandbox.labels[JOB]})) == 1


def name_used_again_starts_clean(lab: Lab) -> None:
    request = lab.request("put('old', b'old')\n")
    first = lab.backend.create(request)
    first.start()
    assert first.wait(20) is not None
    first.remove()
    second = lab.backend.create(request)
    try:
        assert set(members(second)) == {"out"}
    finally:
        second.remove()


def sandboxes_do_not_see_each_other(lab: Lab) -> None:
    mine = "put('mine', b'1')\nopen(os.path.join(TMP, 'mine'), 'w').close()\n" + SLEEP
    look = "say(json.dumps([sorted(os.listdir(OUT)), sorted(os.listdir(TMP))]))\n"
    with lab.running(mine) as (_, stream):
        read_until(stream, b"ready\n")
        out, _, _ = lab.finished(look)
        assert json.loads(out) == [[], []]


def nothing_of_the_hosts_environment_comes_in(lab: Lab) -> None:
    os.environ["TRACE_BENCH_TEST_CANARY"] = "sk-canary"
    try:
        out, _, _ = lab.finished("say(json.dumps(dict(os.environ)))\n")
    finally:
        del os.environ["TRACE_BENCH_TEST_CANARY"]
    inside = json.loads(out)
    assert "PATH" in inside
    assert "sk-canary" not in out.decode()
    assert not {name for name in inside if name.endswith(("_KEY", "_TOKEN")) or "PROXY" in name.upper()}


def memory_beyond_the_limit_cannot_be_had(lab: Lab) -> None:
    code = "say('ready')\nblocks = [bytes([1]) * (16 << 20) for _ in range(40)]\nsay('got it')\n"
    out, _, ended = lab.finished(code, resources=Resources(memory_bytes=192 << 20, pids=64))
    assert out == b"ready\n"
    assert ended.code != 0
    assert ended.oom_killed == ("oom_flag" in lab.backend.capabilities)


def writing_to_what_has_ended_is_an_error(lab: Lab) -> None:
    with lab.running("") as (sandbox, stream):
        assert sandbox.wait(20) is not None
        read_all(stream)
        with pytest.raises(SandboxError):
            for _ in range(50):
                stream.write(b"x" * 65536)


def many_sandboxes_at_once(lab: Lab) -> None:
    def work(number: int) -> bytes:
        out, _, ended = lab.finished(f"say('{number}')\nput('n', b'{number}')\n")
        assert ended.code == 0
        return out

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(8))) == [b"%d\n" % number for number in range(8)]


def every_control_is_reported(lab: Lab) -> None:
    from trace_bench.sandbox import CONTROLS
    from trace_bench.sandbox.runtimes import NOT_UNDER_GVISOR

    weaker = NOT_UNDER_GVISOR.keys() if lab.runtime == "runsc" else set()
    with lab.created(SLEEP) as sandbox:
        controls = sandbox.controls()
        assert [control.name for control in controls] == list(CONTROLS)
        assert all(control.detail for control in controls)
        in_force = {control.name for control in controls if control.in_force}
        assert in_force == (lab.backend.capabilities & CONTROLS.keys()) - weaker
        adopted = lab.backend.find({JOB: sandbox.labels[JOB]})[0]
        assert adopted.controls() == controls


def description_is_plain_json(lab: Lab) -> None:
    facts = json.loads(json.dumps(lab.backend.describe()))
    assert facts["backend"] == lab.backend.name
    assert facts["integrity"] == lab.backend.integrity


CHECKS: tuple[Callable[[Lab], None], ...] = (
    stream_carries_all_bytes_exactly,
    stream_carries_a_megabyte_both_ways,
    writer_takes_in_what_arrives_so_that_full_pipes_do_not_block,
    one_thread_reads_while_another_writes,
    read_returns_none_when_nothing_comes,
    stdout_ends_with_the_command,
    nothing_said_before_the_end_is_lost,
    stderr_is_kept_apart,
    stderr_is_bounded,
    last_words_are_kept_without_anybody_attached,
    exit_code_comes_back,
    death_by_signal_is_128_plus_its_number,
    command_that_is_not_there_is_named,
    flood_that_nobody_reads_can_be_killed,
    kill_ends_grandchildren,
    end_of_the_command_ends_grandchildren,
    kill_does_no_harm_before_the_start_nor_twice,
    wait_returns_none_after_its_timeout,
    wait_returns_as_soon_as_it_ends,
    status_follows_the_life_of_a_sandbox,
    detaching_is_no_end_of_file_and_who_attaches_again_is_served,
    attaching_to_a_torrent_tears_no_bytes,
    controller_that_was_killed_leaves_what_the_next_one_adopts,
    collect_brings_what_was_written_while_it_runs_and_afterwards,
    collect_of_an_empty_folder_is_an_empty_folder,
    collect_follows_no_link,
    find_goes_by_labels_in_every_state,
    remove_takes_everything_and_twice_does_no_harm,
    name_that_is_taken_is_a_conflict_and_harms_nobody,
    name_used_again_starts_clean,
    sandboxes_do_not_see_each_other,
    nothing_of_the_hosts_environment_comes_in,
    memory_beyond_the_limit_cannot_be_had,
    writing_to_what_has_ended_is_an_error,
    many_sandboxes_at_once,
    every_control_is_reported,
    description_is_plain_json,
)
