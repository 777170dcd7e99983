"""Names, labels, and controllers that come after others."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys

from trace_bench.sandbox.conformance.lab import ECHO, PATIENCE, SLEEP, Lab, members, needs, raises, read_until
from trace_bench.sandbox.errors import NameConflict, SandboxRemoved
from trace_bench.sandbox.labels import JOB, RUN, UID_BASE


def find_works_by_labels_in_every_state(lab: Lab) -> None:
    marks = {RUN: lab.run, JOB: "find-me"}
    with (
        lab.created(SLEEP, labels=marks) as created,
        lab.running(SLEEP, labels=marks) as (running, _),
        lab.running("", labels=marks) as (exited, _),
        lab.created(SLEEP) as other,
    ):
        assert exited.wait(PATIENCE) is not None
        found = {sandbox.name: sandbox for sandbox in lab.backend.find(marks)}
        assert {name: sandbox.status() for name, sandbox in found.items()} == {
            created.name: "created",
            running.name: "running",
            exited.name: "exited",
        }
        assert marks.items() <= found[running.name].labels.items()
        assert other.name in {sandbox.name for sandbox in lab.backend.find({RUN: lab.run})}
        assert lab.backend.find({RUN: lab.run + "-other"}) == []


def remove_is_complete_and_harmless_twice(lab: Lab) -> None:
    with lab.running("put('x', b'y')\n" + SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        twin = lab.backend.find({JOB: sandbox.labels[JOB]})[0]
        sandbox.remove()
        sandbox.remove()
        twin.remove()
        assert lab.backend.find({JOB: sandbox.labels[JOB]}) == []
        with raises(SandboxRemoved):
            b"".join(sandbox.collect())
        with raises(SandboxRemoved):
            sandbox.attach()


def taken_name_is_a_conflict(lab: Lab) -> None:
    with lab.running(ECHO) as (sandbox, stream):
        with raises(NameConflict, says=sandbox.name):
            lab.backend.create(lab.request(ECHO, name=sandbox.name, labels=dict(sandbox.labels)))
        read_until(stream, b"ready\n")
        stream.write(b"alive\n")
        assert read_until(stream, b"alive\n") == b"alive\n"
        assert len(lab.backend.find({JOB: sandbox.labels[JOB]})) == 1


def reused_name_starts_clean(lab: Lab) -> None:
    request = lab.request("put('old', b'old')\n")
    first = lab.backend.create(request)
    first.start()
    assert first.wait(PATIENCE) is not None
    first.remove()
    second = lab.backend.create(request)
    try:
        assert set(members(second)) == {"out"}
    finally:
        second.remove()


CONTROLLER = """
import importlib, os, pickle, signal, sys
from trace_bench.sandbox.conformance.lab import read_until
module, name, request = pickle.load(sys.stdin.buffer)
sandbox = getattr(importlib.import_module(module), name)().create(request)
stream = sandbox.attach()
sandbox.start()
read_until(stream, b"ready\\n")
stream.write(b"half a fra")
os.kill(os.getpid(), signal.SIGKILL)
"""


@needs("adoption")
def killed_controller_leaves_an_adoptable_sandbox(lab: Lab) -> None:
    """The other controller makes its backend anew, as an entry point is called: the class without arguments."""
    request, made_by = lab.request(ECHO), type(lab.backend)
    died = subprocess.run(
        [sys.executable, "-c", CONTROLLER],
        input=pickle.dumps((made_by.__module__, made_by.__qualname__, request)),
        capture_output=True,
        env={**os.environ, **lab.environment},
        check=False,
    )
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
        ended = found[0].wait(PATIENCE)
        assert ended is not None and ended.code == 128 + signal.SIGKILL
    finally:
        for sandbox in lab.backend.find({RUN: lab.run, JOB: request.labels[JOB]}):
            sandbox.remove()
    assert lab.backend.find({RUN: lab.run, JOB: request.labels[JOB]}) == []


def labels_come_back_as_they_were_given(lab: Lab) -> None:
    given = {
        RUN: lab.run,
        JOB: "a=b, c:d",
        "trace-bench.test": "Grüße 世界 'quoted' \"too\" {x}",
        "trace-bench.empty": "",
    }
    with lab.created(SLEEP, labels=given) as sandbox:
        assert given.items() <= sandbox.labels.items()
        (found,) = lab.backend.find({RUN: lab.run, JOB: "a=b, c:d"})
        assert given.items() <= found.labels.items()
        assert (found.id, found.name) == (sandbox.id, sandbox.name)
        assert lab.backend.find({RUN: lab.run, JOB: "a"}) == [], "a part of a value is another value"
