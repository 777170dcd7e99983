"""Checks of the limits and the isolation of a sandbox."""

from __future__ import annotations

import json
import os

from trace_bench.sandbox.base import CONTROLS, FEATURES, Resources
from trace_bench.sandbox.conformance.lab import SLEEP, Lab, needs, raises, read_until
from trace_bench.sandbox.errors import ControlMissing
from trace_bench.sandbox.labels import JOB


def host_environment_stays_outside(lab: Lab) -> None:
    os.environ["TRACE_BENCH_TEST_CANARY"] = "sk-canary"
    try:
        out, _, _ = lab.finished("say(json.dumps(dict(os.environ)))\n")
    finally:
        del os.environ["TRACE_BENCH_TEST_CANARY"]
    inside = json.loads(out)
    assert "PATH" in inside
    assert "sk-canary" not in out.decode()
    assert not {name for name in inside if name.endswith(("_KEY", "_TOKEN")) or "PROXY" in name.upper()}


def memory_stops_at_the_limit(lab: Lab) -> None:
    code = "say('ready')\nblocks = [bytes([1]) * (16 << 20) for _ in range(40)]\nsay('got it')\n"
    out, _, ended = lab.finished(code, resources=Resources(memory_bytes=192 << 20, pids=64))
    assert out == b"ready\n"
    assert ended.code != 0
    assert ended.oom_killed == ("oom_flag" in lab.backend.capabilities)


def every_control_is_reported(lab: Lab) -> None:
    with lab.running(SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        controls = sandbox.controls()
        assert [control.name for control in controls] == list(CONTROLS)
        assert all(control.detail for control in controls)
        in_force = {control.name for control in controls if control.in_force}
        declared = lab.backend.capabilities & CONTROLS.keys()
        assert in_force <= declared, f"in force, and not declared: {sorted(in_force - declared)}"
        lost = declared - in_force - lab.without.keys()
        assert not lost, f"declared, and not in force: {sorted(lost)}"
        adopted = lab.backend.find({JOB: sandbox.labels[JOB]})[0]
        assert adopted.controls() == controls


def every_capability_is_declared_once(lab: Lab) -> None:
    can, cannot = lab.backend.capabilities, lab.backend.cannot
    assert not can & cannot.keys(), f"it says that it can and that it cannot: {sorted(can & cannot.keys())}"
    unsaid = (CONTROLS.keys() | FEATURES.keys()) - can - cannot.keys()
    assert not unsaid, f"it says neither that it can nor that it cannot: {sorted(unsaid)}"
    unknown = (can | cannot.keys()) - CONTROLS.keys() - FEATURES.keys()
    assert not unknown, f"these are neither controls nor features: {sorted(unknown)}"
    assert all(cannot.values()), "each with its reason"


def required_controls_that_it_lacks_are_refused(lab: Lab) -> None:
    for control in sorted(lab.backend.cannot.keys() & CONTROLS.keys()):
        request = lab.request(SLEEP, require_controls=frozenset({control}))
        with raises(ControlMissing, says=control):
            lab.backend.create(request)
        assert lab.backend.find({JOB: request.labels[JOB]}) == [], "what was refused is left"


def description_is_plain_json(lab: Lab) -> None:
    facts = json.loads(json.dumps(lab.backend.describe()))
    assert facts["backend"] == lab.backend.name
    assert facts["integrity"] == lab.backend.integrity


LIMITS = Resources(cpus=0.25, memory_bytes=256 << 20, disk_bytes=16 << 20, tmp_bytes=8 << 20, pids=32, nofile=100)
FILL = """
def fill(path):
    try:
        with open(path, 'wb', buffering=0) as file:
            for _ in range(64): file.write(bytes(1 << 20))
        return 64
    except OSError:
        return os.path.getsize(path) >> 20
"""


@needs("network")
def nothing_outside_can_be_reached(lab: Lab) -> None:
    code = (
        "import socket\n"
        "def reach(address, port):\n"
        "    try: socket.create_connection((address, port), 2).close()\n"
        "    except OSError: return False\n"
        "    return True\n"
        "say(json.dumps([reach('169.254.169.254', 80), reach('192.0.2.1', 53), reach('172.17.0.1', 22),\n"
        "                sorted(name for _, name in socket.if_nameindex())]))\n"
    )
    assert json.loads(lab.finished(code)[0]) == [False, False, False, ["lo"]]


@needs("pids")
def processes_stop_at_the_limit(lab: Lab) -> None:
    code = (
        "count = 0\ntry:\n    while count < 300:\n        if os.fork() == 0: time.sleep(600)\n        count += 1\n"
        "except OSError: pass\nsay(str(count))\n"
    )
    assert 4 < int(lab.finished(code, resources=LIMITS)[0]) < LIMITS.pids


@needs("nofile")
def open_files_stop_at_the_limit(lab: Lab) -> None:
    code = "count = 0\ntry:\n    while True: count = os.dup(1)\nexcept OSError: say(str(count))\n"
    assert int(lab.finished(code, resources=LIMITS)[0]) == LIMITS.nofile - 1


@needs("disk")
def file_stops_at_the_limit_of_the_disk(lab: Lab) -> None:
    out, _, _ = lab.finished(FILL + "say(str(fill(OUT + '/big')))\n", resources=LIMITS)
    assert int(out) <= LIMITS.disk_bytes >> 20


@needs("tmpfs", "noexec")
def tmp_is_sized_and_runs_nothing(lab: Lab) -> None:
    code = FILL + (
        "import subprocess\nsize = fill('/tmp/big')\nos.unlink('/tmp/big')\n"
        "with open('/tmp/run', 'w') as file: file.write('#!/bin/sh\\n')\nos.chmod('/tmp/run', 0o755)\n"
        "try: subprocess.run(['/tmp/run'])\nexcept PermissionError: say(str(size))\n"
    )
    assert int(lab.finished(code, resources=LIMITS)[0]) == LIMITS.tmp_bytes >> 20


@needs("cpus")
def cpu_time_stops_at_the_limit(lab: Lab) -> None:
    """An upper bound: a machine that is busy otherwise gives less."""
    code = (
        "began = time.monotonic()\nchild = os.fork()\nwhile time.monotonic() < began + 1.5: pass\n"
        "if child == 0: os._exit(0)\nos.wait()\nsay(json.dumps([sum(os.times()[:4]), time.monotonic() - began]))\n"
    )
    used, seconds = json.loads(lab.finished(code, resources=LIMITS)[0])
    assert 0 < used < 2 * LIMITS.cpus * seconds + 0.2


@needs("read_only_root", "user", "capabilities")
def root_inside_has_no_power(lab: Lab) -> None:
    code = (
        "import socket\n"
        "def may(action):\n    try: action()\n    except OSError: return False\n    return True\n"
        "say(json.dumps([os.getuid(), may(lambda: open('/x', 'w')), may(lambda: os.chroot('/tmp')),\n"
        "                may(lambda: socket.sethostname('x')), may(lambda: os.setgroups([]))]))\n"
    )
    assert json.loads(lab.finished(code)[0]) == [0, False, False, False, True]
