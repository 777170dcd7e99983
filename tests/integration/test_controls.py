"""Every control of the sandbox, tried from inside and read from outside: one container for both.

A control without an entry in both tables of ``controls.py`` is a failure (`test_every_control_is_proven_twice`), and so
is a row of the canon's table without tests (`ROWS`, ``docs/reference/sandbox-controls.md``). That these attempts can
succeed at all is shown by `test_an_attempt_succeeds_where_its_control_is_off`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.engine import base_image, engine_answers
from tests.engine_proxy import (
    ARCHIVE,
    ATTACH,
    CREATE,
    LIST,
    NO_PARSER,
    START,
    EngineProxy,
    engine_proxy,
    with_apparmor,
    without_apparmor_parser,
)
from tests.integration.cli import cli, write_config
from tests.integration.controls import FLOOD, INSIDE, LIMITS, OUTSIDE, Facts, Shared, holds
from tests.sandbox.conformance import SLEEP, Lab, read_all
from tests.sandbox.lab import PATIENCE
from trace_bench.sandbox import CONTROLS, Resources
from trace_bench.sandbox import docker as docker_backend
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.docker_sandbox import DockerSandbox
from trace_bench.sandbox.errors import EngineRefused, ImageMissing
from trace_bench.sandbox.labels import LEASE, OWNER, VOLUME, job_labels

pytestmark = pytest.mark.docker

REPOSITORY = Path(__file__).resolve().parents[2]


def docker(*arguments: str) -> bytes:
    return subprocess.run(["docker", *arguments], capture_output=True, check=True).stdout


def inspect(name: str) -> Facts:
    found: Facts = json.loads(docker("inspect", name))[0]
    return found


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if not engine_answers():
        pytest.skip("no engine answers")
    lab = Lab(DockerBackend(), base_image())
    yield lab
    lab.sweep()


def probe(lab: Lab, flood: int = 0, resources: Resources = LIMITS) -> Shared:
    code = (REPOSITORY / "tests" / "sandbox" / "probe.py").read_text()
    base = lab.backend.default_uid_base
    command = ("python3", "-I", "-c", code, str(base + 1), str(base + 4), str(flood))
    labels = job_labels(lab.run, secrets.token_hex(6), 60.0)
    with lab.running("", command=command, resources=resources, labels=labels) as (sandbox, stream):
        said = read_all(stream).splitlines()
        assert said, sandbox.last_words()
        assert sandbox.wait(PATIENCE) is not None
        log = docker("logs", sandbox.id)
        assert isinstance(lab.backend, DockerBackend) and isinstance(sandbox, DockerSandbox)
        facts = sandbox.facts()
        return Shared(lab.backend, base, facts, json.loads(said[-1]), facts["State"], log)


@pytest.fixture(scope="module")
def shared(lab: Lab) -> Shared:
    return probe(lab, FLOOD)


ATTEMPTS = [(c, a, who) for c, attempts in INSIDE.items() for a, by in attempts.items() for who in by]


@pytest.mark.parametrize(("control", "attempt", "who"), ATTEMPTS)
def test_inside(shared: Shared, control: str, attempt: str, who: str) -> None:
    got = shared.tried[who][attempt]
    assert holds(INSIDE[control][attempt][who], got, shared), got


@pytest.mark.parametrize(("control", "fact"), [(c, f) for c, facts in OUTSIDE.items() for f in facts])
def test_outside(shared: Shared, control: str, fact: str) -> None:
    look, expected = OUTSIDE[control][fact]
    got = look(shared.inspected)
    assert holds(expected, got, shared), got


def test_every_control_is_proven_twice() -> None:
    assert list(INSIDE) == list(OUTSIDE) == list(CONTROLS)
    assert all(INSIDE.values()) and all(OUTSIDE.values())


# -- that these tests can fail ----------------------------------------------------------------------------------------

ULIMITS = ("nofile", "core", "fsize")
NOT_TAKEN_AWAY = {
    "apparmor": "where the host has none, it is off for all",
    "user": "as another user the probe could not become anybody",
    "runtime": "there is none that is weaker than the engine's own",
}


def without_ulimit(name: str) -> Callable[[Facts], None]:
    def change(config: Facts) -> None:
        host = config["HostConfig"]
        host["Ulimits"] = [item for item in host["Ulimits"] if item["Name"] != name]

    return change


def changed(**settings: Any) -> Callable[[Facts], None]:
    return lambda config: config["HostConfig"].update(settings)


def as_the_host_is_called(config: Facts) -> None:
    del config["Hostname"]
    config["HostConfig"]["UTSMode"] = "host"


OFF: dict[str, Callable[[Facts], None]] = {
    "network": changed(NetworkMode="bridge"),
    "capabilities": changed(CapDrop=None),
    "no_new_privileges": changed(SecurityOpt=[]),
    "mounts": changed(Binds=["/mnt:/mnt"]),
    "namespaces": as_the_host_is_called,
    "seccomp": changed(SecurityOpt=["no-new-privileges", "seccomp=unconfined"]),
    "read_only_root": changed(ReadonlyRootfs=False),
    "memory": changed(Memory=0, MemorySwap=0),
    "swap": changed(MemorySwap=-1),
    "cpus": changed(NanoCpus=0),
    "pids": changed(PidsLimit=-1),
    "nofile": without_ulimit("nofile"),
    "core": without_ulimit("core"),
    "tmpfs": changed(Tmpfs={"/tmp": "rw,nosuid,nodev,noexec,mode=0755", "/run": "rw,nosuid,noexec,mode=0755"}),
    "noexec": changed(Tmpfs=dict.fromkeys(("/tmp", "/run"), f"rw,nosuid,nodev,exec,size={8 << 20},mode=0755")),
    "ipc": changed(IpcMode="private", Sysctls={}),
    "init": changed(Init=False),
    "log_cap": changed(LogConfig={"Type": "json-file", "Config": {}}),
    "disk": without_ulimit("fsize"),
}


@pytest.mark.slow
@pytest.mark.parametrize("control", list(OFF))
def test_an_attempt_succeeds_where_its_control_is_off(lab: Lab, control: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a container that lacks one control, tests of that control fail inside as well as outside."""
    made = docker_backend.container_config

    def weaker(*arguments: Any, **named: Any) -> Facts:
        config = made(*arguments, **named)
        OFF[control](config)
        return config

    monkeypatch.setattr(docker_backend, "container_config", weaker)
    monkeypatch.setattr(docker_backend, "ALWAYS_REQUIRED", frozenset())
    weak = probe(lab, FLOOD)
    inside = [
        (attempt, who)
        for attempt, by in INSIDE[control].items()
        for who, expected in by.items()
        if not _holds_or_fails(expected, weak.tried[who].get(attempt), weak)
    ]
    outside = [f for f, (look, e) in OUTSIDE[control].items() if not _holds_or_fails(e, look, weak, weak.inspected)]
    assert inside, "nothing that was tried noticed"
    assert outside, "inspect says the same as ever"


def _holds_or_fails(expected: object, got: Any, weak: Shared, facts: Facts | None = None) -> bool:
    """What a test would say: an expectation or a fact that cannot even be had is a failure too."""
    try:
        return holds(expected, got(facts) if facts is not None else got, weak)
    except (KeyError, TypeError, ValueError, IndexError):
        return False


def test_every_control_is_taken_away_or_says_why_not() -> None:
    assert OFF.keys() | NOT_TAKEN_AWAY.keys() == CONTROLS.keys() and not OFF.keys() & NOT_TAKEN_AWAY.keys()


# -- what takes more than that one container --------------------------------------------------------------------------


def test_labels_say_whose_it_is(shared: Shared) -> None:
    labels = shared.inspected["Config"]["Labels"]
    assert {OWNER, LEASE, VOLUME} <= labels.keys() and all(labels.values())


def test_a_container_that_fails_is_not_started_again_and_is_kept_for_its_evidence(lab: Lab) -> None:
    with lab.running("sys.exit(3)\n") as (sandbox, _):
        ended = sandbox.wait(PATIENCE)
        assert isinstance(sandbox, DockerSandbox)
        facts = sandbox.facts()
    assert ended is not None and ended.code == 3
    assert facts["HostConfig"]["RestartPolicy"] == {"Name": "no", "MaximumRetryCount": 0}
    assert (facts["RestartCount"], facts["State"]["Status"], facts["HostConfig"]["AutoRemove"]) == (0, "exited", False)


def test_a_process_is_held_up_at_the_cpu_limit(lab: Lab) -> None:
    """By so little that starting Python takes more: however busy the machine is, the kernel has counted it."""
    code = (
        "import glob\n"
        "(path,) = glob.glob('/sys/fs/cgroup/cpu.stat') or glob.glob('/sys/fs/cgroup/cpu/cpu.stat')\n"
        "say(dict(line.split() for line in open(path))['nr_throttled'])\n"
    )
    assert int(lab.finished(code, resources=replace(LIMITS, cpus=0.02))[0]) > 0


def test_a_run_that_requires_what_the_host_lacks_is_refused(lab: Lab, images: Path, tmp_path: Path) -> None:
    if "apparmor" in lab.backend.capabilities:
        pytest.skip("this host has AppArmor, and nothing else that it lacks is asked for")
    config = write_config(
        tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], sandbox={"require_controls": ["apparmor"]}
    )
    done = cli("run", "--config", str(config), home=images)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "apparmor (the host has no AppArmor). Repair the host, or name it in allow_weaker" in done.stderr
    rows = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/jobs/*/results.json")]
    assert all(row["score_best"] is None and row["status"] == "failed" for row in rows)


def test_a_run_may_require_a_profile_that_the_engine_names_when_it_starts_a_sandbox(
    images: Path, tmp_path: Path
) -> None:
    with engine_proxy(tmp_path) as proxy:
        with_apparmor(proxy)
        done = cli("run", "--config", str(_requires_apparmor(tmp_path)), home=images, DOCKER_HOST=proxy.url)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("runs/*/jobs/*/job_meta.json")
    found = {control["name"]: control for control in json.loads(path.read_text())["controls"]}
    assert (found["apparmor"]["in_force"], found["apparmor"]["detail"]) == (True, "docker-default")
    assert proxy.written > 0


def test_a_sandbox_that_starts_without_a_required_profile_is_given_no_byte_of_its_job(
    images: Path, tmp_path: Path
) -> None:
    with engine_proxy(tmp_path) as proxy:
        with_apparmor(proxy, "unconfined")
        done = cli("run", "--config", str(_requires_apparmor(tmp_path)), home=images, DOCKER_HOST=proxy.url)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "has started without a required control: apparmor (unconfined). It was ended before" in done.stderr
    assert len([path for path in proxy.asked if path.endswith("/start")]) == 1, "it is not tried again"
    assert proxy.written == 0
    (path,) = tmp_path.glob("runs/*/jobs/*/job_meta.json")
    found = {control["name"]: control for control in json.loads(path.read_text())["controls"]}
    assert found["apparmor"]["in_force"] is False


def test_an_engine_that_can_start_nothing_ends_the_run_at_the_first_try(images: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], retries=2)
    with engine_proxy(tmp_path) as proxy:
        without_apparmor_parser(proxy)
        done = cli("run", "--config", str(config), home=images, DOCKER_HOST=proxy.url)
    assert done.returncode == 3 and "Traceback" not in done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert " ".join(NO_PARSER.split()) in error and "lacks the command" not in done.stderr
    assert len([path for path in proxy.asked if path.endswith("/start")]) == 1, "it is not tried again"
    (path,) = tmp_path.glob("runs/*/jobs/*/job_meta.json")
    assert json.loads(path.read_text())["failure"]["kind"] == "engine_unfit"


NOT_ALLOWED = (403, "authorization denied by plugin guard: this call is not allowed")


def test_a_call_that_the_engine_always_refuses_ends_the_run_without_a_wait(images: Path, tmp_path: Path) -> None:
    """Sandboxes are listed before a job starts. An engine that does not answer has two minutes; this one answers."""
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], retries=2)
    with engine_proxy(tmp_path) as proxy:
        proxy.refusals[LIST] = NOT_ALLOWED
        began = time.monotonic()
        done = cli("run", "--config", str(config), home=images, DOCKER_HOST=proxy.url)
        assert time.monotonic() - began < 60
    assert done.returncode == 3 and "Traceback" not in done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "refused to list sandboxes: authorization denied by plugin guard" in error and "Allow the call" in error
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("skip ")]
    assert "the run ended: the Docker engine at" in line and "authorization denied by plugin guard" in line


def test_a_job_that_the_engine_refuses_is_not_tried_again(images: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"], retries=2)
    with engine_proxy(tmp_path) as proxy:
        proxy.refusals[CREATE] = (400, "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available")
        done = cli("run", "--config", str(config), home=images, DOCKER_HOST=proxy.url)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert len([path for path in proxy.asked if path.endswith("/create")]) == 1
    (path,) = tmp_path.glob("runs/*/jobs/*/job_meta.json")
    failure = json.loads(path.read_text())["failure"]
    assert (failure["boundary"], failure["kind"]) == ("sandbox", "engine_refused")
    assert "refused to create a sandbox: Range of CPUs is from 0.01 to 2.00" in failure["message"]
    assert "Correct what the engine names" in failure["message"] and "trace-bench doctor" in failure["message"]


def test_doctor_makes_every_call_of_a_run(images: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["NoOp"])
    with engine_proxy(tmp_path) as proxy:
        assert cli("run", "--config", str(config), home=images, DOCKER_HOST=proxy.url).returncode == 0
        of_run = _calls(proxy)
        proxy.asked.clear()
        backend = DockerBackend(proxy.url)
        backend.try_start()
        assert {call for call in of_run if not call.startswith(("/images/", "/_ping"))} - _calls(proxy) == set()
        for pattern in (LIST, CREATE, ATTACH, START, ARCHIVE):
            proxy.refusals = {pattern: NOT_ALLOWED}
            with pytest.raises(EngineRefused, match=r"authorization denied by plugin guard.*Allow the call"):
                backend.try_start()


def _calls(proxy: EngineProxy) -> set[str]:
    """The calls that `proxy` was asked for, without the names in them."""
    plain = {re.sub(r"^/v[0-9.]+", "", path) for path in proxy.asked}
    return {re.sub(r"^/(containers|volumes|images)/(?!json$|create$)[^/]+", r"/\1/…", path) for path in plain}


def _requires_apparmor(folder: Path) -> Path:
    return write_config(
        folder, tasks=["internal:numeric_param"], trainers=["NoOp"], sandbox={"require_controls": ["apparmor"]}
    )


class _Registry(BaseHTTPRequestHandler):
    asked: list[str]

    def setup(self) -> None:
        self.asked.append("connected")  # Podman asks in TLS, of which no request can be read here
        super().setup()

    def log_message(self, *_: object) -> None: ...


def test_no_image_is_pulled_to_make_a_sandbox(lab: Lab) -> None:
    """A registry of this machine is asked for nothing; the second half shows that it would have been."""
    if os.environ.get("DOCKER_HOST", "unix://").partition("://")[0] != "unix":
        pytest.skip("the engine is elsewhere and does not see this machine's loopback")
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Registry", (_Registry,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        image = f"127.0.0.1:{server.server_address[1]}/trace-bench-test/none@sha256:{'0' * 64}"
        with pytest.raises(ImageMissing):
            lab.backend.create(lab.request(SLEEP, image=image))
        assert asked == []
        assert subprocess.run(["docker", "pull", image], capture_output=True).returncode != 0
        assert asked
    finally:
        server.shutdown()
        server.server_close()


# -- the canon's table ------------------------------------------------------------------------------------------------

HERE = "tests/integration/test_controls.py"
DOCKER = "tests/sandbox/test_docker.py"
ISOLATION = "tests/integration/test_isolation.py"
HOSTILE = "tests/integration/test_hostile.py"


@dataclass(frozen=True)
class Row:
    """A row of the canon's table: the controls that it comes to, and tests of what no control says."""

    controls: tuple[str, ...]
    inside: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


ROWS: dict[str, Row] = {
    "Uid without rights, distinct for scorer": Row(
        ("user",), (f"{ISOLATION}::test_every_process_has_a_uid_of_its_own_in_one_block",)
    ),
    "No new privileges": Row(("no_new_privileges",)),
    "Drop all capabilities": Row(
        ("capabilities",), (f"{ISOLATION}::test_no_process_but_the_supervisors_has_a_capability",)
    ),
    "Never privileged, no engine socket, no host pid/ipc/net/uts": Row(
        ("namespaces", "mounts", "network"), (), ("tests/config/test_refusals.py::test_what_no_config_can_ask_for",)
    ),
    "Default seccomp and AppArmor kept": Row(("seccomp", "apparmor")),
    "Read-only root, sized tmpfs": Row(("read_only_root", "tmpfs", "noexec")),
    "Memory = swap limit, CPU, pids, nofile, core": Row(
        ("memory", "swap", "cpus", "pids", "nofile", "core"),
        (
            f"{HERE}::test_a_process_is_held_up_at_the_cpu_limit",
            f"{DOCKER}::test_memory_and_swap_stop_at_the_limit",
            f"{DOCKER}::test_fork_bomb_is_contained_and_can_be_killed",
            "tests/integration/test_neighbours.py::test_fork_bombs_leave_the_neighbours_score_alone",
        ),
    ),
    "Disk": Row(("disk",), (f"{HOSTILE}::test_one_clear_failure",)),
    "Network": Row(("network",), (f"{ISOLATION}::test_there_is_no_network_but_loopback",)),
    "Mounts": Row(("mounts",), (), (f"{DOCKER}::test_image_with_a_volume_of_its_own_is_refused",)),
    "Secrets": Row(
        (),
        (f"{ISOLATION}::test_no_environment_variable_holds_anything_of_the_host",),
        ("tests/integration/test_secrets.py::test_no_file_of_the_run_holds_a_key",),
    ),
    "Image by digest, never pulled at run": Row(
        (),
        (f"{HERE}::test_no_image_is_pulled_to_make_a_sandbox",),
        ("tests/integration/test_engines.py::test_a_run_from_a_pushed_digest_pulls_what_the_engine_has_lost",),
    ),
    "Logs": Row(("log_cap",)),
    "Restart": Row(
        (),
        (f"{HERE}::test_a_container_that_fails_is_not_started_again_and_is_kept_for_its_evidence",),
        (f"{HERE}::test_a_container_that_fails_is_not_started_again_and_is_kept_for_its_evidence",),
    ),
    "Healthy exit: init, wall clock, labels, sweep": Row(
        ("init",),
        (
            f"{HOSTILE}::test_a_training_that_hangs_is_ended_and_scored",
            "tests/integration/test_interruption.py::test_a_sandbox_that_died_with_its_controller_is_collected",
        ),
        (
            f"{HERE}::test_labels_say_whose_it_is",
            f"{ISOLATION}::test_the_container_of_a_job_has_its_labels_and_the_limits_of_its_config",
            "tests/integration/test_interruption.py::test_clean_removes_what_a_dead_controller_left",
        ),
    ),
    "Output is hostile": Row(
        (),
        (f"{HOSTILE}::test_one_clear_failure",),
        (f"{HOSTILE}::test_what_breaks_the_collectors_limits_is_kept_as_evidence",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", list(ROWS))
def test_every_row_of_the_canons_table_has_tests_of_both_kinds(row: str) -> None:
    proof = ROWS[row]
    assert set(proof.controls) <= CONTROLS.keys()
    assert proof.controls or (proof.inside and proof.outside)
    for place in (*proof.inside, *proof.outside):
        file, _, name = place.partition("::")
        tree = ast.parse((REPOSITORY / file).read_text())
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, place


def test_the_page_names_every_row_and_every_control() -> None:
    page = (REPOSITORY / "docs" / "reference" / "sandbox-controls.md").read_text()
    assert re.findall(r"^\| `(\w+)` \| .* \|$", page, re.M)[: len(CONTROLS)] == list(CONTROLS)
    table = page.partition("## What proves it")[2].partition("\n## ")[0]
    assert re.findall(r"^\| ([A-Z][^|]*?) \|", table, re.M) == list(ROWS)
    for row in ROWS.values():
        assert all(f"`{place.rpartition('/')[2]}`" in table for place in (*row.inside, *row.outside))


def test_every_control_stands_in_a_row() -> None:
    assert {control for row in ROWS.values() for control in row.controls} | {"ipc", "runtime"} == CONTROLS.keys()
