"""The Modal backend against a loopback server, with the service's own client."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from tests.integration.cli import cli
from tests.modal_server.server import ModalServer
from tests.modal_server.trouble import Delay, LoseReply, Refuse
from tests.sandbox.conformance import CHECKS, ECHO, SLEEP, Lab, members, read_all, read_until
from trace_bench.config.places import ModalConfig
from trace_bench.errors import ConfigError, EnvironmentUnavailable, Interrupted, SandboxError
from trace_bench.sandbox.base import NEVER_WEAKER, Resources, SuppliesImages
from trace_bench.sandbox.errors import (
    ControlMissing,
    EngineGone,
    RateLimited,
    RuntimeMissing,
    SandboxRemoved,
    StreamTimeout,
)
from trace_bench.sandbox.labels import JOB
from trace_bench.sandbox.modal import ModalBackend
from trace_bench.sandbox.modal import backend as module
from trace_bench.sandbox.modal import sandbox as sandboxes
from trace_bench.sandbox.modal.backend import short
from trace_bench.sandbox.modal.confinement import KEPT
from trace_bench.sandbox.modal.controls import CANNOT, read_back
from trace_bench.sandbox.modal.reports import Facts, parse_report
from trace_bench.sandbox.modal.sandbox import program
from trace_bench.sandbox.modal.tags import LONGEST, decoded, encoded


def made(server: ModalServer) -> Any:
    """The last sandbox that was asked for."""
    return max(server.calls("SandboxCreateV2") + server.calls("SandboxCreate"), key=lambda call: call.at).message


# -- the checks of every backend -------------------------------------------------------------------------------------

NAMES = (
    "every_control_is_reported",
    "nothing_outside_can_be_reached",
    "open_files_stop_at_the_limit",
    "taken_name_is_a_conflict",
    "stream_carries_a_megabyte_both_ways",
    "stderr_is_bounded",
    "attaching_to_a_busy_stream_tears_no_lines",
    "cut_connection_loses_and_doubles_nothing",
    "flood_that_is_not_read_can_be_killed",
    "death_by_signal_is_128_plus_its_number",
    "kill_ends_grandchildren",
    "kill_is_harmless_before_the_start_and_twice",
    "end_of_the_command_ends_grandchildren",
    "collect_works_while_it_runs_and_afterwards",
    "collect_follows_no_link",
    "owners_and_modes_come_back",
    "sandboxes_do_not_see_each_other",
    "find_works_by_labels_in_every_state",
    "killed_controller_leaves_an_adoptable_sandbox",
    "removed_sandbox_is_reported_by_every_call",
    "removal_during_collect_is_noticed",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_checks_of_every_backend(lab: Lab, name: str) -> None:
    (check,) = (check for check in CHECKS if check.name == name)
    check.run(lab)


# -- what is asked of the service ------------------------------------------------------------------------------------


def test_a_jobs_sandbox_costs_few_calls(lab: Lab, server: ModalServer) -> None:
    lab.finished("say('warm')\n")
    before = Counter(call.rpc for call in server.calls())
    sandbox = lab.backend.create(lab.request("put('x', b'y')\nsay('out')\n"))
    stream = sandbox.attach()
    sandbox.start()
    assert read_all(stream) == b"out\n"
    stream.close()
    assert sandbox.wait(20) is not None and set(members(sandbox)) == {"out", "out/x"}
    sandbox.remove()
    calls = Counter(call.rpc for call in server.calls()) - before
    calls.pop("AuthTokenGet", None)
    # Four execs: the controls, the stream, the end and what brings /out.
    assert {name: n for name, n in calls.items() if name != "TaskExecStdinWrite"} == {
        "SandboxCreateV2": 1, "TaskExecStart": 4, "TaskExecStdioRead": 4, "TaskExecWait": 1, "SandboxWaitV2": 1,
        "SandboxTerminateV2": 1,
    }  # fmt: skip


def test_limits_and_marks_go_with_the_sandbox(lab: Lab, server: ModalServer) -> None:
    limits = Resources(cpus=0.5, memory_bytes=300 << 20, pids=64)
    with lab.created(SLEEP, resources=limits, most_seconds=1234.5) as sandbox:
        asked = made(server)
        definition, resources = asked.definition, asked.definition.resources
        assert (resources.milli_cpu, resources.milli_cpu_max) == (500, 500)
        assert (resources.memory_mb, resources.memory_mb_max) == (300, 300)
        assert (definition.timeout_secs, definition.idle_timeout_secs, definition.workdir) == (1235, 600, "/")
        assert definition.name == sandbox.name
        assert definition.network_access.network_access_type == definition.network_access.BLOCKED
        assert "eu-west" in str(asked) and not definition.volume_mounts and not definition.secret_ids
        assert decoded({tag.tag_name: tag.tag_value for tag in asked.tags}) == sandbox.labels
    with lab.created(SLEEP):
        assert made(server).definition.timeout_secs == 86_400, "a job without limits has a day"


def test_gpus_are_those_of_the_config_and_go_over_the_older_calls(lab: Lab, server: ModalServer) -> None:
    with lab.created("say('ready')\n", resources=Resources(gpus=2, pids=64)) as sandbox:
        gpu = made(server).definition.resources.gpu_config
        assert (gpu.gpu_type, gpu.count) == ("H100", 2)
        stream = sandbox.attach()
        sandbox.start()
        assert read_all(stream) == b"ready\n"
        assert sandbox.name in {found.name for found in lab.backend.find({JOB: sandbox.labels[JOB]})}
    assert lab.backend.find({JOB: sandbox.labels[JOB]}) == []
    assert [host.gpus for host in lab.backend.hosts()] == [None] and ModalBackend().hosts()[0].gpus == ()
    with pytest.raises(ConfigError, match="say which GPU"):
        module._create_arguments(lab.request("", resources=Resources(gpus=1)), ModalConfig())


def test_a_name_that_is_too_long_keeps_its_beginning_and_stays_one_of_its_own() -> None:
    one, other = (short("trace-bench-" + "r" * 90 + end) for end in "ab")
    assert one != other and len(one) == len(other) == 63 and one.startswith("trace-bench-rrr")
    assert short("x" * 63) == "x" * 63


def test_labels_of_all_kinds_are_tags_that_the_service_takes() -> None:
    labels = {
        "a.b-c_d": "plain",
        "empty": "",
        "text": "Grüße 世界",
        "long": "x" * 64,
        "longer": "ü" * 200,
        "c": "x32-A",
    }
    tags = encoded(labels)
    assert decoded(tags) == labels
    assert all(0 < len(text) <= LONGEST and text.isascii() for pair in tags.items() for text in pair)
    assert encoded({"c": "x32-A"})["c"] != "x32-A" and encoded({"a": "b"}) == {"a": "b"}
    assert decoded({"theirs": "x32-!"}) == {}


# -- what cannot be put in force ----------------------------------------------------------------------------------


def test_what_is_required_and_cannot_be_is_refused_before_anything_is_made(lab: Lab, server: ModalServer) -> None:
    before = len(server.calls("SandboxCreateV2"))
    with pytest.raises(ControlMissing, match=r"pids \(the service has no limit"):
        lab.backend.create(lab.request(SLEEP, require_controls=frozenset({"pids"})))
    with pytest.raises(RuntimeMissing, match="kata"):
        lab.backend.create(lab.request(SLEEP, runtime="kata"))
    assert len(server.calls("SandboxCreateV2")) == before


FACTS: dict[str, Any] = {
    "capabilities": list(KEPT), "usable": list(KEPT), "no_new_privs": True, "uid": 0, "nofile": 1024, "fsize": 1,
    "core": 0, "interfaces": ["lo"], "kernel": "4.4.0", "python": "3.11.7",
}  # fmt: skip
LABELS = {"trace-bench.memory": "1", "trace-bench.cpus": "1", "trace-bench.nofile": "1024", "trace-bench.gpus": "0"}


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({}, None),
        ({"capabilities": [*KEPT, "21"]}, "capabilities"),
        ({"usable": ["CHOWN"]}, "capabilities"),
        ({"no_new_privs": False}, "no_new_privileges"),
        ({"uid": 1000}, "user"),
        ({"nofile": 1 << 20}, "nofile"),
        ({"core": -1}, "core"),
    ],
)
def test_controls_are_read_back_inside(changed: dict[str, Any], lost: str | None) -> None:
    controls = read_back(Facts(**{**FACTS, **changed}), LABELS)
    assert {control.name for control in controls if not control.in_force} == CANNOT.keys() & {
        control.name for control in controls
    } | ({lost} if lost else set())
    assert all(control.detail for control in controls)


def test_a_sandbox_that_lacks_what_every_job_needs_is_ended_again(
    lab: Lab, server: ModalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "trace_bench.sandbox.modal.sandbox.read_back",
        lambda facts, labels: read_back(facts.model_copy(update={"no_new_privs": False}), labels),
    )
    running = len(server.running())
    with pytest.raises(ControlMissing, match="no_new_privileges"):
        lab.backend.create(lab.request(SLEEP))
    assert len(server.running()) == running
    assert not NEVER_WEAKER & CANNOT.keys()


# -- trouble ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["DEADLINE_EXCEEDED", "UNAVAILABLE"])
def test_a_create_whose_answer_was_lost_makes_one_sandbox(lab: Lab, server: ModalServer, status: str) -> None:
    rule = server.trouble.add(rpc="SandboxCreateV2", do=LoseReply(status))
    with lab.created("say('one')\n") as sandbox:
        assert rule.hits == 1
        assert [found.id for found in lab.backend.find({JOB: sandbox.labels[JOB]})] == [sandbox.id]
        stream = sandbox.attach()
        sandbox.start()
        assert read_all(stream) == b"one\n"


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        ("UNAVAILABLE", EngineGone, "did not create a sandbox"),
        ("RESOURCE_EXHAUSTED", RateLimited, "did not create a sandbox now"),
        ("UNAUTHENTICATED", EnvironmentUnavailable, "modal token set"),
        ("PERMISSION_DENIED", EnvironmentUnavailable, "modal token set"),
        ("INVALID_ARGUMENT", SandboxError, "trouble on demand"),
    ],
)
def test_refusals_have_errors_of_their_own(
    lab: Lab, server: ModalServer, monkeypatch: pytest.MonkeyPatch, status: str, kind: type[Exception], says: str
) -> None:
    monkeypatch.setattr(module, "LOOKS", (0.0,))
    server.trouble.add(rpc="SandboxCreateV2", do=Refuse(status), times=None)
    request = lab.request(SLEEP)
    with pytest.raises(kind, match=says):
        lab.backend.create(request)
    server.trouble.clear()
    assert lab.backend.find({JOB: request.labels[JOB]}) == []


HOSTILE = {
    "no JSON": "{",
    "nested": "[" * 100_000,
    "digits": '{"state": ' + "9" * 5000 + "}",
    "state": {"state": ["running"]},
    "stderr": {"stderr": None},
    "end without an end": {"state": "exited"},
    "code": {"state": "exited", "ended": {"code": 10**30, "error": ""}},
    "facts": {"facts": {}},
    "fact": {"facts": {**FACTS, "capabilities": [{}]}},
    "text": {"facts": {**FACTS, "kernel": "k" * 100_000}},
}


@pytest.mark.parametrize("report", HOSTILE.values(), ids=HOSTILE.keys())
def test_invalid_reports_are_refused(report: Any) -> None:
    """A process that has become root inside can print anything."""
    valid = {"state": "running", "ended": None, "stderr": "", "facts": FACTS}
    assert parse_report(json.dumps(valid).encode(), "s").state == "running"
    data = report if isinstance(report, str) else json.dumps({**valid, **report})
    with pytest.raises(SandboxError, match="sandbox s sent an invalid report"):
        parse_report(data.encode(), "s")


def test_a_report_without_end_is_broken_off(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with lab.created(SLEEP) as sandbox:
        monkeypatch.setattr(sandboxes, "program", lambda op, value="": ["cat", "/dev/zero"])
        with pytest.raises(SandboxError, match="invalid report"):
            sandbox.last_words()


def test_input_that_nobody_reads_is_refused_and_a_kill_gets_through(lab: Lab) -> None:
    with lab.running(SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        stream._deadline = 2.0  # type: ignore[attr-defined]
        with pytest.raises(StreamTimeout):
            stream.write(bytes(32 << 20))
        sandbox.kill()
        ended = sandbox.wait(20)
        assert ended is not None and ended.code == 137


def test_the_last_to_attach_has_the_stream(lab: Lab) -> None:
    with lab.running(ECHO) as (sandbox, first):
        read_until(first, b"ready\n")
        (found,) = lab.backend.find({JOB: sandbox.labels[JOB]})
        second = found.attach()
        for number in range(20):
            word = b"%d\n" % number
            second.write(word)
            assert read_until(second, word) == word
        assert first.read(20) == b""
        second.close()


def test_the_variables_of_the_service_are_not_passed_on(lab: Lab) -> None:
    inside = json.loads(lab.finished("say(json.dumps([dict(os.environ), os.getcwd()]))\n")[0])
    assert "PATH" in inside[0] and "MODAL" not in str(inside) and inside[1] == "/"


def test_a_sandbox_stays_until_nobody_needs_it(lab: Lab, server: ModalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with server.client() as one:
        settings = ModalConfig().model_copy(update={"idle_timeout": 6.0})
        backend = ModalBackend(settings, client=one)
        ended = backend.create(lab.request("put('x', b'y')\n"))
        ended.start()
        assert ended.wait(30) is not None
        time.sleep(1)
        assert "out/x" in members(ended)
        monkeypatch.setattr(module, "UNSTARTED_SECONDS", 6)
        never = backend.create(lab.request(SLEEP))
        deadline = time.monotonic() + 60
        while {never.id, ended.id} & {sandbox.id for sandbox in server.running()}:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert never.status() == ended.status() == "removed"


def test_creations_leave_at_even_distances(lab: Lab, server: ModalServer) -> None:
    before = len(server.calls("SandboxCreateV2"))
    with server.client() as one, ThreadPoolExecutor(4) as hands:
        backend = ModalBackend(ModalConfig(creations_per_second=2), client=one)
        for made in hands.map(lambda _: backend.create(lab.request(SLEEP)), range(3)):
            made.remove()
    times = [call.at for call in server.calls("SandboxCreateV2")[before:]]
    assert min(after - at for at, after in pairwise(times)) > 0.35


@pytest.mark.parametrize("op", ["enter", "state", "collect"])
def test_the_programs_need_a_bare_python_and_fit_into_a_command_line(op: str) -> None:
    """The service takes 64 KiB for all arguments of a sandbox."""
    words = program(op)
    assert words[:3] == ["python3", "-I", "-c"] and sum(map(len, words)) < 16_000
    code = words[3].replace("sys.exit(m.main())", "print(m.main.__name__)")
    done = subprocess.run([sys.executable, "-IS", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "main\n", done.stderr


def test_a_sandbox_that_the_service_loses_is_gone(lab: Lab, server: ModalServer) -> None:
    with lab.running(SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        server.vanish(sandbox.id)
        with pytest.raises(SandboxError):
            while (data := stream.read(20)) != b"":
                assert data is not None
            raise SandboxError("it ended")
        with pytest.raises(SandboxRemoved):
            sandbox.wait(5)


def test_a_sandbox_that_could_not_be_ended_is_not_taken_for_gone(lab: Lab, server: ModalServer) -> None:
    sandbox = lab.backend.create(lab.request(ECHO))
    refused = server.trouble.add(rpc="SandboxTerminateV2", do=Refuse("INTERNAL"), times=4)
    with pytest.raises(EngineGone):
        sandbox.remove()
    assert refused.hits == 4, "as often as the client tries"
    sandbox.remove()
    assert [one.id for one in server.running() if one.id == sandbox.id] == []
    assert sandbox.status() == "removed"
    sandbox.remove()


def test_a_server_that_restarts_finds_who_was_attached_again(lab: Lab, server: ModalServer) -> None:
    with lab.running(ECHO) as (sandbox, stream):
        read_until(stream, b"ready\n")
        server.stop()
        server.start()
        try:
            stream.write(b"still\n")
            assert read_until(stream, b"still\n", 20).endswith(b"still\n")
        except (SandboxError, AssertionError):
            again = sandbox.attach()
            again.write(b"again\n")
            assert read_until(again, b"again\n", 20).endswith(b"again\n")
            again.close()
        assert sandbox.status() == "running"


def test_looking_does_not_take_the_stream(lab: Lab) -> None:
    with lab.running(ECHO) as (sandbox, stream):
        read_until(stream, b"ready\n")
        (found,) = lab.backend.find({JOB: sandbox.labels[JOB]})
        assert found.status() == "running" and found.wait(0) is None and found.wait(0.2) is None
        assert found.controls() == sandbox.controls() and found.last_words() == ""
        assert set(members(found)) == {"out"}
        stream.write(b"mine\n")
        assert read_until(stream, b"mine\n") == b"mine\n"


def test_a_sandbox_that_its_maker_left_unstarted_can_be_started_by_another(lab: Lab) -> None:
    with lab.created("say('hello')\nsys.exit(4)\n") as sandbox:
        (found,) = lab.backend.find({JOB: sandbox.labels[JOB]})
        assert found.status() == "created"
        found.start()
        ended = found.wait(20)
        assert ended is not None and ended.code == 4


# -- a machine without -----------------------------------------------------------------------------------------------


def test_nobody_waits_for_an_image_that_is_not_wanted_any_more(server: ModalServer, lab: Lab) -> None:
    pull = server.trouble.add(rpc="ImageJoinStreaming", do=Delay(30))
    with server.client() as one:
        backend = ModalBackend(ModalConfig(), client=one)
        stopped = threading.Event()
        assert isinstance(backend, SuppliesImages), "so a run tells it"
        backend.stop_supplying_when(stopped.is_set)
        ref = "registry.test/unwanted@sha256:" + "2" * 64
        with ThreadPoolExecutor(2) as hands:
            both = [hands.submit(backend._client.image, ref, None) for _ in range(2)]
            time.sleep(0.3)
            assert pull.hits == 1 and not any(waiting.done() for waiting in both)
            stopped.set()
            for waiting in both:
                assert isinstance(waiting.exception(10), Interrupted)
        backend.stop_supplying_when(lambda: False)
        backend._client.image(lab.image, None)


def test_the_services_client_is_not_imported_until_it_is_used() -> None:
    code = (
        "import sys\nimport trace_bench.execution.start, trace_bench.sandbox.modal\n"
        "trace_bench.sandbox.modal.ModalBackend().hosts()\n"
        "print([name for name in ('modal', 'grpclib') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_the_package_it_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "modal", None)
    with pytest.raises(EnvironmentUnavailable, match=r"pip install 'trace-bench\[modal\]'"):
        ModalBackend().check()


def test_doctor_says_in_a_sentence_that_nobody_is_known_here(lab: Lab) -> None:
    nobody = {"MODAL_CONFIG_PATH": "/nonexistent", "MODAL_TOKEN_ID": "", "MODAL_TOKEN_SECRET": ""}
    done = cli("doctor", "--backend", "modal", **{**lab.environment, **nobody})
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("MISSING"))
    assert done.returncode == 3 and "modal token set" in line and "If you" not in line, done.stdout
