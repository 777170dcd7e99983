"""The rules that every backend keeps, as one table of checks: `CHECKS`.

`PROGRAMS` are the rules that one program and its output show. The others are functions with `check` above them. A check
that needs a control or a feature which the backend says that it lacks is skipped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.sandbox.lab import (
    ECHO,
    GRANDCHILD,
    PATIENCE,
    PRELUDE,
    SLEEP,
    Lab,
    content,
    members,
    raises,
    read_all,
    read_bytes,
    read_until,
)
from trace_bench.errors import SandboxError
from trace_bench.execution.session import Connection
from trace_bench.sandbox.base import CONTROLS, FEATURES, ExitStatus, Resources, Sandbox, Stream
from trace_bench.sandbox.errors import ControlMissing, NameConflict, SandboxRemoved
from trace_bench.sandbox.labels import JOB, RUN, UID_BASE
from trace_bench.worker import control_stream

__all__ = [
    "CHECKS", "ECHO", "GRANDCHILD", "PRELUDE", "SLEEP", "Check", "Lab", "Outcome", "content", "examine", "members",
    "read_all", "read_bytes", "read_until",
]  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One rule for every backend.

    Attributes:
        run: raises AssertionError, or any other error, if the backend breaks the rule.
        needs: controls and features without which it means nothing.
    """

    name: str
    run: Callable[[Lab], None]
    needs: frozenset[str] = frozenset()

    def reason_to_skip(self, lab: Lab) -> str | None:
        """The backend's own words for what it lacks; None if the check applies to it."""
        cannot = {**lab.backend.cannot, **lab.without}
        missing = sorted(self.needs & cannot.keys())
        return "; ".join(f"the {lab.backend.name} backend has no {name}: {cannot[name]}" for name in missing) or None


CHECKS: list[Check] = []


def check(*needs: str) -> Callable[[Callable[[Lab], None]], Callable[[Lab], None]]:
    """Add the function to `CHECKS`; `needs` are names of `CONTROLS` and `FEATURES`."""
    assert set(needs) <= CONTROLS.keys() | FEATURES.keys(), needs

    def add(run: Callable[[Lab], None]) -> Callable[[Lab], None]:
        CHECKS.append(Check(run.__name__, run, frozenset(needs)))
        return run

    return add


class Outcome(NamedTuple):
    """The result of one check; `detail` is the reason if it did not pass."""

    check: str
    state: Literal["passed", "failed", "skipped"]
    detail: str = ""


def examine(lab: Lab, checks: Iterable[Check]) -> Iterator[Outcome]:
    """Run `checks` one after another, then remove what they have left."""
    try:
        for one in checks:
            if (reason := one.reason_to_skip(lab)) is not None:
                yield Outcome(one.name, "skipped", reason)
                continue
            try:
                one.run(lab)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                words = " ".join(str(error).split()) or (place.line or "")  # of an assertion without a message
                yield Outcome(
                    one.name, "failed", f"{type(error).__name__}: {words} ({place.name}, line {place.lineno})"
                )
            else:
                yield Outcome(one.name, "passed")
    finally:
        lab.sweep()


# ------------------------------------------------------------------------------------------------ programs and outputs


SMALL = Resources(memory_bytes=256 << 20, pids=64)
LIMITS = Resources(cpus=0.25, memory_bytes=256 << 20, disk_bytes=16 << 20, tmp_bytes=8 << 20, pids=32, nofile=100)


class Ended(NamedTuple):
    """A program that has ended."""

    out: bytes
    errors: str
    status: ExitStatus

    @property
    def value(self) -> Any:
        """The JSON that it wrote."""
        return json.loads(self.out)


class Program(NamedTuple):
    """A rule that the output of one program shows."""

    name: str
    code: str
    is_right: Callable[[Ended], bool]
    needs: tuple[str, ...] = ()
    limits: Resources = SMALL

    def run(self, lab: Lab) -> None:
        ended = Ended(*lab.finished(self.code, resources=self.limits))
        assert self.is_right(ended), str(ended)[-2000:]


REACH = """
import socket
def reach(address, port):
    try: socket.create_connection((address, port), 2).close()
    except OSError: return False
    return True
say(json.dumps([reach('169.254.169.254', 80), reach('192.0.2.1', 53), reach('172.17.0.1', 22),
                sorted(name for _, name in socket.if_nameindex())]))
"""
FORK = """
count = 0
try:
    while count < 300:
        if os.fork() == 0: time.sleep(600)
        count += 1
except OSError: say(str(count))
"""
OPEN = "count = 0\ntry:\n    while True: count = os.dup(1)\nexcept OSError: say(str(count))\n"
FILL = """
def fill(path):
    try:
        with open(path, 'wb', buffering=0) as file:
            for _ in range(64): file.write(bytes(1 << 20))
        return 64
    except OSError:
        return os.path.getsize(path) >> 20
"""
TMP = """
import subprocess
size = fill('/tmp/big')
os.unlink('/tmp/big')
with open('/tmp/run', 'w') as file: file.write('#!/bin/sh\\n')
os.chmod('/tmp/run', 0o755)
try: subprocess.run(['/tmp/run'])
except PermissionError: say(str(size))
"""
SPIN = """
began = time.monotonic()
child = os.fork()
while time.monotonic() < began + 1.5: pass
if child == 0: os._exit(0)
os.wait()
say(json.dumps([sum(os.times()[:4]), time.monotonic() - began]))
"""
POWER = """
import socket
def may(action):
    try: action()
    except OSError: return False
    return True
say(json.dumps([os.getuid(), may(lambda: open('/x', 'w')), may(lambda: os.chroot('/tmp')),
                may(lambda: socket.sethostname('x')), may(lambda: os.setgroups([]))]))
"""
LINES = "for _ in range(3000): say('x' * 999)\nos.write(1, b'end')\n"
ERRORS = "for i in range(3000): os.write(2, b'%06d' % i + b'x' * 94)\nos.write(2, b'end')\n"
APART = "os.write(2, 'schlimm ß\\n'.encode())\nsay('fine')\ntime.sleep(0.2)\n"
ABORT = "if os.fork() == 0: os.execv('/bin/sleep', ['sleep', '600'])\nos.abort()\n"
ROOT = ("read_only_root", "user", "capabilities")
PROGRAMS = (
    Program("nothing_outside_can_be_reached", REACH, lambda e: e.value == [False, False, False, ["lo"]], ("network",)),
    Program("processes_stop_at_the_limit", FORK, lambda e: 4 < e.value < LIMITS.pids, ("pids",), LIMITS),
    Program("open_files_stop_at_the_limit", OPEN, lambda e: e.value == LIMITS.nofile - 1, ("nofile",), LIMITS),
    Program(
        "file_stops_at_the_limit_of_the_disk",
        FILL + "say(str(fill(OUT + '/big')))\n",
        lambda e: e.value <= LIMITS.disk_bytes >> 20, ("disk",), LIMITS,
    ),
    Program("tmp_is_sized_and_runs_nothing", FILL + TMP, lambda e: e.value == 8, ("tmpfs", "noexec"), LIMITS),
    Program(  # an upper bound: a machine that is busy otherwise gives less
        "cpu_time_stops_at_the_limit", SPIN, lambda e: 0 < e.value[0] < 0.5 * e.value[1] + 0.2, ("cpus",), LIMITS
    ),
    Program("root_inside_has_no_power", POWER, lambda e: e.value == [0, False, False, False, True], ROOT),
    Program("output_before_the_end_is_complete", LINES, lambda e: e.out == (b"x" * 999 + b"\n") * 3000 + b"end"),
    Program("stderr_is_kept_apart", APART, lambda e: (e.out, e.errors) == (b"fine\n", "schlimm ß\n")),
    Program("stderr_is_bounded", ERRORS, lambda e: e.errors.endswith("end") and len(e.errors) <= 64 * 1024),
    Program("death_by_signal_is_128_plus_its_number", ABORT, lambda e: e.status.code == 128 + signal.SIGABRT),
)  # fmt: skip
CHECKS += [Check(program.name, program.run, frozenset(program.needs)) for program in PROGRAMS]


# ----------------------------------------------------------------------------------------- limits and what is declared


@check()
def host_environment_stays_outside(lab: Lab) -> None:
    os.environ["TRACE_BENCH_TEST_CANARY"] = "sk-canary"
    try:
        out, _, _ = lab.finished("say(json.dumps(dict(os.environ)))\n")
    finally:
        del os.environ["TRACE_BENCH_TEST_CANARY"]
    inside = json.loads(out)
    assert "PATH" in inside and "sk-canary" not in out.decode()
    assert not {name for name in inside if name.endswith(("_KEY", "_TOKEN")) or "PROXY" in name.upper()}


@check()
def memory_stops_at_the_limit(lab: Lab) -> None:
    code = "say('ready')\nblocks = [bytes([1]) * (16 << 20) for _ in range(40)]\nsay('got it')\n"
    out, _, ended = lab.finished(code, resources=Resources(memory_bytes=192 << 20, pids=64))
    assert out == b"ready\n" and ended.code != 0
    assert ended.oom_killed == ("oom_flag" in lab.backend.capabilities)


@check()
def every_control_is_reported(lab: Lab) -> None:
    with lab.running(SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        controls = sandbox.controls()
        assert [control.name for control in controls] == list(CONTROLS)
        assert all(control.detail for control in controls)
        in_force = {control.name for control in controls if control.in_force}
        declared = lab.backend.capabilities & CONTROLS.keys()
        assert in_force <= declared, f"in force, and not declared: {sorted(in_force - declared)}"
        absent = declared - in_force - lab.without.keys()
        assert not absent, f"declared, and not in force: {sorted(absent)}"
        assert lab.backend.find({JOB: sandbox.labels[JOB]})[0].controls() == controls


@check()
def every_capability_is_declared_once(lab: Lab) -> None:
    can, cannot = lab.backend.capabilities, lab.backend.cannot
    assert not can & cannot.keys(), f"it says that it can and that it cannot: {sorted(can & cannot.keys())}"
    unsaid = (CONTROLS.keys() | FEATURES.keys()) - can - cannot.keys()
    assert not unsaid, f"it says neither that it can nor that it cannot: {sorted(unsaid)}"
    unknown = (can | cannot.keys()) - CONTROLS.keys() - FEATURES.keys()
    assert not unknown, f"these are neither controls nor features: {sorted(unknown)}"
    assert all(cannot.values()), "each with its reason"
    facts = json.loads(json.dumps(lab.backend.describe()))
    assert (facts["backend"], facts["integrity"]) == (lab.backend.name, lab.backend.integrity)


@check()
def required_controls_that_it_lacks_are_refused(lab: Lab) -> None:
    for control in sorted(lab.backend.cannot.keys() & CONTROLS.keys()):
        request = lab.request(SLEEP, require_controls=frozenset({control}))
        with raises(ControlMissing, says=control):
            lab.backend.create(request)
        assert lab.backend.find({JOB: request.labels[JOB]}) == [], "a sandbox stays behind after its refusal"


# ------------------------------------------------------------------------------------------------------------- streams


def _assert_echoed(lab: Lab, data: bytes) -> None:
    """In one thread: a writer that did not read the echo would never return."""
    with lab.running(ECHO) as (_, stream):
        assert read_until(stream, b"ready\n") == b"ready\n"
        stream.write(data)
        assert read_bytes(stream, len(data)) == data


@check()
def stream_carries_all_bytes_exactly(lab: Lab) -> None:
    _assert_echoed(lab, bytes(range(256)) * 3 + "Grüße, 世界 🚀\r\n\x00\x04\x1a".encode() + b"\x10\x11\xff\xfe")


@check()
def stream_carries_a_megabyte_both_ways(lab: Lab) -> None:
    _assert_echoed(lab, secrets.token_bytes(1 << 20))


@check()
def writer_takes_in_what_arrives_so_that_full_pipes_do_not_block(lab: Lab) -> None:
    _assert_echoed(lab, secrets.token_bytes(12 << 20))


@check()
def one_thread_reads_while_another_writes(lab: Lab) -> None:
    pieces = [secrets.token_bytes(size) for size in (1, 100_000, 3, 900_000) * 4]
    with lab.running(ECHO) as (_, stream):
        read_until(stream, b"ready\n")
        writer = threading.Thread(target=lambda: [stream.write(piece) for piece in pieces])
        writer.start()
        assert read_bytes(stream, sum(map(len, pieces))) == b"".join(pieces)
        writer.join(10)
        assert not writer.is_alive()


@check()
def stream_ends_with_the_command(lab: Lab) -> None:
    with lab.running("say('last')\n") as (sandbox, stream):
        assert read_all(stream) == b"last\n"
        assert stream.read(0) == b""
        assert sandbox.wait(PATIENCE) is not None
        with raises(SandboxError):
            for _ in range(50):
                stream.write(b"x" * 65536)


@check()
def stderr_is_kept_while_no_stream_is_attached(lab: Lab) -> None:
    with lab.created("os.write(2, b'went wrong\\n')\nsys.exit(3)\n") as sandbox:
        sandbox.start()
        _assert_code(sandbox, 3)
        assert sandbox.last_words() == "went wrong\n"


@check("adoption")
def stream_can_be_detached_and_attached_again(lab: Lab) -> None:
    with lab.running(ECHO) as (sandbox, stream):
        read_until(stream, b"ready\n")
        stream.close()
        assert sandbox.wait(0.3) is None
        for word in (b"second\n", b"third\n"):
            again = sandbox.attach()
            again.write(word)
            assert read_until(again, word) == word
            again.close()


@check()
def attaching_to_a_busy_stream_tears_no_lines(lab: Lab) -> None:
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


# --------------------------------------------------------------------------------------- the control stream under load

SPEAKER = """
import select, zlib
source, COUNT, BUSY = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "busy"
exec(compile(source, "control_stream", "exec"), globals())
busy = os.fork() if BUSY else None
if busy == 0:
    while True: sum(range(1000))
os.set_blocking(0, False), os.set_blocking(1, False)
mailbox, decoder, out, digest, ended = Mailbox(), Decoder(), bytearray(), 0, False
out += mailbox.pack_ephemeral("ready")
while not ended or mailbox.pending:
    while mailbox.sent < COUNT and mailbox.pending < 20_000 and len(out) < 1 << 20:
        out += mailbox.pack("tick", {"k": (mailbox.sent + 1) * 7 % 1009})
    if mailbox.received == COUNT and mailbox.sent == COUNT and not ended:
        ended = True
        out += mailbox.pack("end", {"digest": digest})
    reading, writing, _ = select.select([0], [1] if out else [], [], 60)
    if writing:
        try: del out[:os.write(1, out[:65536])]
        except BlockingIOError: pass
    if not reading: continue
    data = os.read(0, 1 << 16)
    if not data: sys.exit(3)
    before = mailbox.received
    for message in decoder.feed(data):
        if message.type == "hello":
            known = {"received": mailbox.received, "forgotten": mailbox.forgotten}
            out += PADDING + mailbox.pack_ephemeral("hello", known)
            out += mailbox.resend(message.header["received"])
        elif message.type == "ack": mailbox.acknowledged(message.header["received"])
        elif mailbox.accept(message): digest = zlib.crc32(b"%d" % message.header["k"], digest)
    if mailbox.received != before: out += mailbox.ack()
os.set_blocking(1, True)
if busy: os.kill(busy, 9)
"""
"""Takes the source of the real control stream, which the image need not hold."""


def _converse(lab: Lab, count: int, *, cuts: int, load: str) -> None:
    """Exchange `count` numbered messages each way. The connection is cut `cuts` times, while both sides send."""
    places, expected = sorted(random.Random(1).sample(range(count // 2), cuts)), 0
    for number in range(1, count + 1):
        expected = zlib.crc32(b"%d" % (number * 7 % 1009), expected)
    source = Path(control_stream.__file__).read_text(encoding="utf-8")
    command = (*lab.request(SPEAKER).command, source, str(count), load)
    with lab.running("", command=command) as (sandbox, stream):
        connection = Connection(stream, lease=60.0, reattach=sandbox.attach)

        def speak() -> None:
            for number in range(1, count + 1):
                connection.send("tock", {"k": number * 7 % 1009})

        writer = threading.Thread(target=speak)
        writer.start()
        ours, theirs, taken, made = 0, None, 0, 0
        while theirs is None:
            data = connection.read(PATIENCE)
            assert data is not None, f"nothing came within {PATIENCE:g} s"
            messages = list(connection.decode(data))
            for message in filter(connection.accept, messages):
                if message.type == "tick":
                    ours, taken = zlib.crc32(b"%d" % int(message.header["k"]), ours), taken + 1
                elif message.type == "end":
                    theirs = int(message.header["digest"])
            connection.acknowledge()
            if not messages or theirs is not None or made == cuts or taken < places[made]:
                continue  # only a stream that has brought a message is cut: a connection gives up after several others
            if made <= connection.reconnections:  # each stream is cut once
                made += 1
                cut(connection.stream)
                assert sandbox.status() == "running"
        writer.join(PATIENCE)
        assert not writer.is_alive(), "a writer to a stream that is cut gets an error"
        while sandbox.wait(0) is None:  # the end can come from a stream that was cut; its acknowledgement is lost
            with contextlib.suppress(SandboxError):
                list(filter(connection.accept, connection.decode(connection.read(1.0) or b"")))
                connection.acknowledge()
        assert connection.reconnections > 0 or not cuts
        assert (ours, theirs) == (expected, expected), "each message once, in order, both ways"
        _assert_code(sandbox, 0)
        connection.stream.close()


@check()
def frames_keep_their_order_both_ways_while_the_sandbox_is_busy(lab: Lab) -> None:
    _converse(lab, 15_000, cuts=0, load="busy")


@check("connection")
def cut_connection_loses_and_doubles_nothing(lab: Lab) -> None:
    _converse(lab, 15_000, cuts=8, load="idle")


def cut(stream: Stream) -> None:
    """Break the connection below `stream`, as a network or an engine that restarts does."""
    with socket.socket(fileno=os.dup(stream.fileno())) as below:
        below.shutdown(socket.SHUT_RDWR)


def _assert_comes_to_an_end(stream: Stream) -> None:
    with contextlib.suppress(SandboxError):  # a broken stream says so, or ends
        while (data := stream.read(PATIENCE)) != b"":
            assert data is not None, "a stream that is cut, or has no sandbox, comes to an end"


# ----------------------------------------------------------------------------------------------- from start to removal


def _assert_code(sandbox: Sandbox, code: int) -> None:
    ended = sandbox.wait(PATIENCE)
    assert ended is not None and ended.code == code, (ended, sandbox.last_words())


@check()
def exit_codes_come_back(lab: Lab) -> None:
    for code in (0, 7, 255):
        assert lab.finished(f"sys.exit({code})\n")[2] == ExitStatus(code, False, "")


@check()
def missing_command_is_named(lab: Lab) -> None:
    """By an error of `create` or `start`, or by exit code 127 and the last words."""
    request = lab.request(ECHO, command=("no-such-command",))
    try:
        sandbox = lab.backend.create(request)
        sandbox.start()
        _assert_code(sandbox, 127)
        assert "no-such-command" in sandbox.last_words()
    except SandboxError as error:
        assert "no-such-command" in str(error)
    finally:
        for sandbox in lab.backend.find({JOB: request.labels[JOB]}):
            sandbox.remove()


@check()
def flood_that_is_not_read_can_be_killed(lab: Lab) -> None:
    with lab.running("say('ready')\nwhile True: os.write(1, b'x' * 65536)\n") as (sandbox, _):
        time.sleep(0.5)
        sandbox.kill()
        _assert_code(sandbox, 128 + signal.SIGKILL)


@check()
def kill_ends_grandchildren(lab: Lab) -> None:
    with lab.running(GRANDCHILD + "time.sleep(600)\n") as (sandbox, stream):
        read_until(stream, b"ready\n")
        sandbox.kill()
        _assert_silent(sandbox)


@check()
def end_of_the_command_ends_grandchildren(lab: Lab) -> None:
    with lab.running(GRANDCHILD) as (sandbox, stream):
        read_until(stream, b"ready\n")
        _assert_code(sandbox, 0)
        _assert_silent(sandbox)


def _assert_silent(sandbox: Sandbox) -> None:
    assert sandbox.wait(PATIENCE) is not None
    before = content(sandbox, "beat")
    time.sleep(0.3)
    assert content(sandbox, "beat") == before


@check()
def wait_returns_as_soon_as_it_ends(lab: Lab) -> None:
    with lab.running("time.sleep(0.5)\n") as (sandbox, _):
        began = time.monotonic()
        assert sandbox.wait(60) is not None
        assert time.monotonic() - began < 15


@check()
def status_follows_the_life_of_a_sandbox(lab: Lab) -> None:
    with lab.created(SLEEP) as sandbox:
        assert sandbox.wait(0.3) is None
        assert sandbox.status() == "created"
        sandbox.start()
        assert sandbox.status() == "running"
        sandbox.kill()
        assert sandbox.wait(PATIENCE) is not None
        assert sandbox.status() == "exited"
        sandbox.remove()
        assert sandbox.status() == "removed"


@check()
def kill_is_harmless_before_the_start_and_twice(lab: Lab) -> None:
    with lab.created(SLEEP) as sandbox:
        sandbox.kill()
        assert sandbox.status() == "created"
        sandbox.start()
        for _ in range(2):
            sandbox.kill()
            _assert_code(sandbox, 128 + signal.SIGKILL)


@check()
def timeouts_return_none(lab: Lab) -> None:
    with lab.running(SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        for call in (sandbox.wait, stream.read):
            began = time.monotonic()
            assert call(0.5) is None
            assert 0.45 <= time.monotonic() - began < 10
            assert call(0) is None


@check()
def command_starts_in_its_own_folder(lab: Lab) -> None:
    with tempfile.NamedTemporaryFile(dir=".", prefix="trace-bench-conformance-") as mark:
        name = Path(mark.name).name
        out, _, _ = lab.finished(f"say(json.dumps([os.path.isabs(os.getcwd()), os.path.exists({name!r})]))\n")
    assert json.loads(out) == [True, False]


@check()
def many_sandboxes_at_once(lab: Lab) -> None:
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda n: lab.finished(f"say('{n}')\nput('n', b'{n}')\n"), range(8)))
    assert [(out, status.code) for out, _, status in ended] == [(b"%d\n" % number, 0) for number in range(8)]


# --------------------------------------------------------------------------------------------------------------- files


@check()
def collect_works_while_it_runs_and_afterwards(lab: Lab) -> None:
    code = (
        "os.makedirs(os.path.join(OUT, 'a/ü b'))\n"
        "put('a/ü b/日本.txt', 'Grüße'.encode())\nput('empty', b'')\nput('big', b'0123456789' * 100_000)\n" + SLEEP
    )
    with lab.running(code) as (sandbox, stream):
        read_until(stream, b"ready\n")
        for _ in range(2):
            files = members(sandbox)
            assert set(files) == {"out", "out/a", "out/a/ü b", "out/a/ü b/日本.txt", "out/empty", "out/big"}
            assert files["out"].isdir() and files["out/empty"].size == 0
            assert content(sandbox, "a/ü b/日本.txt").decode() == "Grüße"
            assert content(sandbox, "big") == b"0123456789" * 100_000
            sandbox.kill()
            assert sandbox.wait(PATIENCE) is not None


@check()
def collect_follows_no_link(lab: Lab) -> None:
    code = "os.symlink('/etc/passwd', OUT + '/file')\nos.symlink('/etc', OUT + '/folder')\nsay('ready')\n"
    with lab.running(code) as (sandbox, stream):
        read_until(stream, b"ready\n")
        files = members(sandbox)
        assert set(files) == {"out", "out/file", "out/folder"}
        assert files["out/file"].issym() and files["out/folder"].issym()


@check()
def sandboxes_do_not_see_each_other(lab: Lab) -> None:
    mine = "put('mine', b'1')\nopen(os.path.join(TMP, 'mine'), 'w').close()\n" + SLEEP
    look = "say(json.dumps([sorted(os.listdir(OUT)), sorted(os.listdir(TMP))]))\n"
    with lab.running(mine) as (_, stream):
        read_until(stream, b"ready\n")
        assert json.loads(lab.finished(look)[0]) == [[], []]


@check()
def forty_megabytes_go_in_and_come_back(lab: Lab) -> None:
    data = secrets.token_bytes(40 << 20)
    code = (
        f"say('ready')\nleft = {len(data)}\n"
        "with open(os.path.join(OUT, 'big'), 'wb') as file:\n"
        "    while left: left -= file.write(os.read(0, min(left, 1 << 20)))\n"
        "say('written')\ntime.sleep(600)\n"
    )
    limits = Resources(memory_bytes=256 << 20, pids=64, disk_bytes=len(data) + (8 << 20))
    with lab.running(code, resources=limits) as (sandbox, stream):
        read_until(stream, b"ready\n")
        stream.write(data)
        read_until(stream, b"written\n")
        assert members(sandbox)["out/big"].size == len(data)
        assert hashlib.sha256(content(sandbox, "big")).digest() == hashlib.sha256(data).digest()


NAMES = ("-rf", " leading", "trailing ", "a'b\"c", "back\\slash", "new\nline", "*?[x]", "$HOME", "Ü", "U\u0308", "日本",
         "🚀", "n" * 255, ".hidden", "%2e%2e", "a:b")  # fmt: skip


@check()
def names_of_all_kinds_come_back(lab: Lab) -> None:
    with lab.running(f"for name in {NAMES!r}: put(name, name.encode())\n") as (sandbox, _):
        _assert_code(sandbox, 0)
        assert set(members(sandbox)) == {"out", *(f"out/{name}" for name in NAMES)}
        assert all(content(sandbox, name) == name.encode() for name in NAMES)


@check("user", "owners")
def owners_and_modes_come_back(lab: Lab) -> None:
    uid = lab.backend.default_uid_base + 1
    code = (
        f"put('of root', b'')\nos.mkdir(OUT + '/extra', 0o700)\nos.chown(OUT + '/extra', {uid}, {uid})\n"
        f"if os.fork() == 0:\n    os.setgroups([])\n    os.setgid({uid})\n    os.setuid({uid})\n"
        "    os.umask(0)\n    os.close(os.open(OUT + '/extra/of phase', os.O_CREAT | os.O_WRONLY, 0o640))\n"
        "    try: put('elsewhere', b'')\n    except PermissionError: os._exit(5)\n    os._exit(0)\n"
        "say(str(os.waitstatus_to_exitcode(os.wait()[1])))\n"
    )
    with lab.running(code) as (sandbox, stream):
        assert read_until(stream, b"\n") == b"5\n"
        assert sandbox.wait(PATIENCE) is not None
        files = members(sandbox)
        assert (files["out/of root"].uid, files["out/extra"].uid) == (0, uid)
        assert (files["out/extra/of phase"].uid, files["out/extra/of phase"].mode & 0o777) == (uid, 0o640)


# ------------------------------------------------------------------------------------ names, labels, other controllers


@check()
def find_works_by_labels_in_every_state(lab: Lab) -> None:
    marks = {RUN: lab.run, JOB: "find-me"}
    with (
        lab.created(SLEEP, labels=marks) as created,
        lab.running(SLEEP, labels=marks) as (running, _),
        lab.running("", labels=marks) as (exited, _),
        lab.created(SLEEP) as other,
    ):
        assert exited.wait(PATIENCE) is not None
        listed = {sandbox.name: sandbox for sandbox in lab.backend.find(marks)}
        states = {name: sandbox.status() for name, sandbox in listed.items()}
        assert states == {created.name: "created", running.name: "running", exited.name: "exited"}
        assert marks.items() <= listed[running.name].labels.items()
        assert other.name in {sandbox.name for sandbox in lab.backend.find({RUN: lab.run})}
        assert lab.backend.find({RUN: lab.run + "-other"}) == []


@check()
def labels_come_back_unchanged(lab: Lab) -> None:
    text = "Grüße 世界 'quoted' \"too\" {x}"
    labels = {RUN: lab.run, JOB: "a=b, c:d", "trace-bench.test": text, "trace-bench.empty": ""}
    with lab.created(SLEEP, labels=labels) as sandbox:
        assert labels.items() <= sandbox.labels.items()
        (twin,) = lab.backend.find({RUN: lab.run, JOB: "a=b, c:d"})
        assert labels.items() <= twin.labels.items()
        assert (twin.id, twin.name) == (sandbox.id, sandbox.name)
        assert lab.backend.find({RUN: lab.run, JOB: "a"}) == [], "a part of a value is another value"


@check()
def remove_is_complete_and_harmless_twice(lab: Lab) -> None:
    with lab.running("put('x', b'y')\n" + SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        twin = _twin(lab, sandbox)
        sandbox.remove()
        sandbox.remove()
        twin.remove()
        assert lab.backend.find({JOB: sandbox.labels[JOB]}) == []
        for action in (lambda: b"".join(sandbox.collect()), sandbox.attach):
            with raises(SandboxRemoved):
                action()


@check()
def taken_name_is_a_conflict(lab: Lab) -> None:
    with lab.running(ECHO) as (sandbox, stream):
        with raises(NameConflict, says=sandbox.name):
            lab.backend.create(lab.request(ECHO, name=sandbox.name, labels=dict(sandbox.labels)))
        read_until(stream, b"ready\n")
        stream.write(b"alive\n")
        assert read_until(stream, b"alive\n") == b"alive\n"
        assert len(lab.backend.find({JOB: sandbox.labels[JOB]})) == 1


@check()
def reused_name_starts_clean(lab: Lab) -> None:
    name = lab.request("").name
    with lab.running("put('old', b'old')\n", name=name) as (sandbox, _):
        assert sandbox.wait(PATIENCE) is not None
    with lab.created(SLEEP, name=name) as sandbox:
        assert set(members(sandbox)) == {"out"}


CONTROLLER = """
import importlib, os, pickle, signal, sys
module, name, request = pickle.load(sys.stdin.buffer)
sandbox = getattr(importlib.import_module(module), name)().create(request)
stream, data = sandbox.attach(), b""
sandbox.start()
while not data.endswith(b"ready\\n"): data += stream.read(30)
stream.write(b"half a fra")
os.kill(os.getpid(), signal.SIGKILL)
"""


@check("adoption")
def killed_controller_leaves_an_adoptable_sandbox(lab: Lab) -> None:
    """The other controller makes its backend again, as an entry point is called: the class without arguments."""
    request, made_by = lab.request(ECHO), type(lab.backend)
    marks = {RUN: lab.run, JOB: request.labels[JOB]}
    died = subprocess.run(
        [sys.executable, "-c", CONTROLLER],
        input=pickle.dumps((made_by.__module__, made_by.__qualname__, request)),
        capture_output=True,
        env={**os.environ, **lab.environment},
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    try:
        (sandbox,) = lab.backend.find(marks)
        assert (sandbox.status(), sandbox.labels[UID_BASE]) == ("running", str(request.uid_base))
        stream = sandbox.attach()
        stream.write(b"me\n")
        assert read_until(stream, b"me\n").endswith(b"me\n")
        stream.close()
        sandbox.kill()
        _assert_code(sandbox, 128 + signal.SIGKILL)
    finally:
        for sandbox in lab.backend.find(marks):
            sandbox.remove()
    assert lab.backend.find(marks) == []


# ------------------------------------------------------------------------------------------ removed by another program


def _twin(lab: Lab, sandbox: Sandbox) -> Sandbox:
    (twin,) = lab.backend.find({JOB: sandbox.labels[JOB]})
    return twin


@check()
def removed_sandbox_is_reported_by_every_call(lab: Lab) -> None:
    """Removed in each of its states: a typed error or a documented answer, never a hang."""
    for state in ("created", "running", "exited"):
        with lab.created(ECHO if state == "running" else "") as sandbox:
            stream = sandbox.attach()
            try:
                if state != "created":
                    sandbox.start()
                if state == "exited":
                    assert sandbox.wait(PATIENCE) is not None
                if state == "running":
                    read_until(stream, b"ready\n")
                assert sandbox.status() == state
                _twin(lab, sandbox).remove()
                _assert_gone(lab, sandbox)
                _assert_comes_to_an_end(stream)
                with raises(SandboxError):
                    for _ in range(200):
                        stream.write(b"x" * 65536)
            finally:
                stream.close()


def _assert_gone(lab: Lab, sandbox: Sandbox) -> None:
    assert sandbox.status() == "removed"
    actions: tuple[Callable[[], object], ...] = (
        sandbox.attach, sandbox.start, lambda: sandbox.wait(0), lambda: sandbox.wait(1), sandbox.last_words,
        lambda: b"".join(sandbox.collect()),
    )  # fmt: skip
    for action in actions:
        with raises(SandboxRemoved):
            action()
    with contextlib.suppress(SandboxRemoved):  # what was in force when it was made may be known still
        assert all(control.detail for control in sandbox.controls())
    sandbox.kill()
    sandbox.remove()
    assert lab.backend.find({JOB: sandbox.labels[JOB]}) == []


@check()
def wait_ends_when_the_sandbox_is_removed(lab: Lab) -> None:
    with lab.running(SLEEP) as (sandbox, stream), ThreadPoolExecutor(1) as pool:
        read_until(stream, b"ready\n")
        answer = pool.submit(sandbox.wait, 120)
        _twin(lab, sandbox).remove()
        with contextlib.suppress(SandboxRemoved):
            ended = answer.result(PATIENCE)
            assert ended is not None and ended.code in (137, None), ended


@check()
def removal_during_collect_is_noticed(lab: Lab) -> None:
    """Either all of it came, or an error says that it did not."""
    size = 8 << 20
    code = f"for i in range(3): put(str(i), bytes([i]) * {size})\n" + SLEEP
    with lab.running(code) as (sandbox, stream):
        read_until(stream, b"ready\n")
        pieces = sandbox.collect()
        archive = [next(pieces)]
        # In a thread: an engine may make the removal wait for the collection.
        remover = threading.Thread(target=_twin(lab, sandbox).remove)
        remover.start()
        remover.join(1.0)
        try:
            archive += pieces
        except SandboxError:
            return
        finally:
            remover.join(PATIENCE)
            assert not remover.is_alive()
        assert all(content(archive, str(i)) == bytes([i]) * size for i in range(3))
