"""What is peculiar to the Docker backend. Its controls have tests of their own, from inside and from outside, in
``tests/integration/test_controls.py``."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine_proxy import LIST, NO_PARSER, engine_proxy, with_apparmor, without_apparmor_parser
from tests.sandbox.conformance import ECHO, SLEEP, Lab, read_until
from trace_bench.errors import EnvironmentUnavailable, ExitCode, SandboxError
from trace_bench.sandbox import CONTROLS, Control, Resources, Sandbox, get_backend
from trace_bench.sandbox.controls import missing
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.errors import (
    ControlMissing,
    EngineGone,
    EngineRefused,
    EngineUnfit,
    GpusMissing,
    ImageMissing,
    RuntimeMissing,
    SandboxRemoved,
)
from trace_bench.sandbox.labels import CPUSET, JOB, OWNER, RUN, UID_BASE, VOLUME, owner

pytestmark = pytest.mark.docker

LIMITS = Resources(cpus=0.5, memory_bytes=512 << 20, disk_bytes=24 << 20, tmp_bytes=8 << 20, pids=48, nofile=128)


def test_fork_bomb_is_contained_and_can_be_killed(docker_lab: Lab) -> None:
    bomb = "say('ready')\nwhile True:\n    try: os.fork()\n    except OSError: pass\n"
    with docker_lab.running(bomb, resources=LIMITS) as (sandbox, stream):
        read_until(stream, b"ready\n")
        time.sleep(0.5)
        inside = subprocess.run(["docker", "top", sandbox.id, "-eo", "pid"], capture_output=True, text=True).stdout
        assert 10 < len(inside.splitlines()) <= 49
        sandbox.kill()
        assert sandbox.wait(30) is not None


def test_what_is_given_up_and_nothing_else_is_allowed(docker_lab: Lab) -> None:
    code = (
        "import subprocess\n"
        "def told(action, *arguments):\n"
        "    try: return action(*arguments) and None\n"
        "    except OSError: return 'denied'\n"
        "with open('/tmp/s', 'w') as f: f.write('#!/bin/sh\\n')\nos.chmod('/tmp/s', 0o755)\n"
        "say(json.dumps([told(lambda: subprocess.run(['/tmp/s']).returncode), told(lambda: open('/x', 'w').close()),\n"
        "                os.path.isdir('/dev/shm')]))\n"
    )
    assert json.loads(docker_lab.finished(code)[0]) == ["denied", "denied", False]
    weaker = frozenset({"noexec", "read_only_root", "ipc"})
    assert json.loads(docker_lab.finished(code, allow_weaker=weaker)[0]) == [0, None, True]
    with docker_lab.created(SLEEP, allow_weaker=weaker) as sandbox:
        assert {c.name for c in sandbox.controls() if not c.in_force and c.name != "apparmor"} == weaker


def test_required_control_that_the_host_lacks_refuses_and_leaves_nothing(docker_lab: Lab) -> None:
    if "apparmor" in docker_lab.backend.capabilities:
        pytest.skip("this host has AppArmor")
    request = docker_lab.request(SLEEP, require_controls=frozenset({"apparmor"}))
    with pytest.raises(ControlMissing, match=r"apparmor .the host has no AppArmor.*allow_weaker"):
        docker_lab.backend.create(request)
    assert docker_lab.backend.find({JOB: request.labels[JOB]}) == []


def test_an_apparmor_profile_is_read_back_once_the_engine_has_named_it(docker_lab: Lab, tmp_path: Path) -> None:
    """The engine names it when it starts the container. Before, nothing is known of it, and nothing is refused."""
    with engine_proxy(tmp_path) as proxy:
        with_apparmor(proxy)
        lab = Lab(DockerBackend(proxy.url), docker_lab.image, docker_lab.run)
        with lab.created(SLEEP, require_controls=frozenset({"apparmor"})) as sandbox:
            assert (_apparmor(sandbox).known, _apparmor(sandbox).in_force) == (False, False)
            sandbox.start()
            (adopted,) = lab.backend.find({JOB: sandbox.labels[JOB]})
            for found in (sandbox, adopted):
                assert _apparmor(found) == Control("apparmor", CONTROLS["apparmor"], True, "docker-default")


def test_a_profile_that_is_not_there_after_the_start_is_missing(docker_lab: Lab, tmp_path: Path) -> None:
    with engine_proxy(tmp_path) as proxy:
        with_apparmor(proxy, "unconfined")
        lab = Lab(DockerBackend(proxy.url), docker_lab.image, docker_lab.run)
        with lab.created(SLEEP, require_controls=frozenset({"apparmor"})) as sandbox:
            assert missing(sandbox.controls(), {"apparmor"}) == []
            sandbox.start()
            (absent,) = missing(sandbox.controls(), {"apparmor"})
            assert absent.detail == "unconfined"


def test_an_engine_that_can_start_nothing_is_quoted_and_the_image_is_not_blamed(
    docker_lab: Lab, tmp_path: Path
) -> None:
    with engine_proxy(tmp_path) as proxy:
        without_apparmor_parser(proxy)
        lab = Lab(DockerBackend(proxy.url), docker_lab.image, docker_lab.run)
        with lab.created(SLEEP) as sandbox, pytest.raises(EngineUnfit) as caught:
            sandbox.start()
    said = str(caught.value)
    assert " ".join(NO_PARSER.split()) in said and "\n" not in said and docker_lab.image not in said
    assert "package apparmor" in said and "trace-bench doctor" in said
    assert caught.value.exit_code == ExitCode.ENVIRONMENT


def test_a_refusal_that_no_wait_mends_is_told_from_one_that_passes(tmp_path: Path) -> None:
    def refused(status: int, message: str) -> SandboxError:
        proxy.refusals = {LIST: (status, message)}
        with pytest.raises(SandboxError) as caught:
            backend.find({RUN: "x"})
        return caught.value

    with engine_proxy(tmp_path) as proxy:
        backend = DockerBackend(proxy.url)
        for status in (400, 401, 403, 404, 405):
            for_good = refused(status, "not allowed here")
            assert isinstance(for_good, EngineRefused) and "not allowed here. " in str(for_good)
            assert str(for_good).endswith("then check with trace-bench doctor.")
        for passing, message in ((409, "is paused"), (429, "too many"), (500, "busy"), (404, "No such container: x")):
            assert not isinstance(refused(passing, message), EngineRefused)


def test_a_command_that_the_image_lacks_ends_the_sandbox_and_the_engine_says_nothing(docker_lab: Lab) -> None:
    """The engine's init starts it, inside: no refusal of the engine is about it."""
    request = replace(docker_lab.request(SLEEP), command=("no-such-command",))
    sandbox = docker_lab.backend.create(request)
    try:
        sandbox.start()
        ended = sandbox.wait(30)
        assert ended is not None and ended.code == 127
        assert "exec no-such-command failed" in sandbox.last_words()
    finally:
        sandbox.remove()


def test_a_trial_starts_one_sandbox_and_leaves_nothing(docker_lab: Lab, tmp_path: Path) -> None:
    made: list[str] = []
    with engine_proxy(tmp_path) as proxy:
        proxy.changes = {r"/images/create$": lambda answer: made.append(answer["status"]),
                         r"/containers/create$": lambda answer: made.append(answer["Id"])}  # fmt: skip
        found = DockerBackend(proxy.url).try_start()
    assert {control.name for control in found if control.in_force} == docker_lab.backend.capabilities & CONTROLS.keys()
    assert [path for path in proxy.asked if path.endswith(f"{made[1]}/start")] and len(made) == 2
    for one in made:
        assert subprocess.run(["docker", "inspect", one], capture_output=True, check=False).returncode != 0


def _apparmor(sandbox: Sandbox) -> Control:
    (found,) = [control for control in sandbox.controls() if control.name == "apparmor"]
    return found


def test_image_with_a_volume_of_its_own_is_refused(docker_lab: Lab) -> None:
    """Such a volume would be a place on disk that no limit holds."""
    tag = f"trace-bench-test/volume:{docker_lab.run}"
    made = subprocess.run(["docker", "create", docker_lab.image, "true"], capture_output=True, text=True, check=True)
    container = made.stdout.strip()
    subprocess.run(["docker", "commit", "--change", "VOLUME /data", container, tag], capture_output=True, check=True)
    subprocess.run(["docker", "rm", container], capture_output=True, check=True)
    try:
        request = docker_lab.request(SLEEP, image=tag)
        with pytest.raises(ControlMissing, match=r"mounts .*volume /data"):
            docker_lab.backend.create(request)
        assert docker_lab.backend.find({JOB: request.labels[JOB]}) == []
    finally:
        subprocess.run(["docker", "rmi", tag], capture_output=True, check=True)


def test_missing_image_is_named_and_leaves_nothing(docker_lab: Lab) -> None:
    request = docker_lab.request(SLEEP, image="trace-bench-test/none:such")
    with pytest.raises(ImageMissing, match="trace-bench-test/none:such is not on this engine; build it"):
        docker_lab.backend.create(request)
    assert docker_lab.backend.find({JOB: request.labels[JOB]}) == []


def test_gpus_and_runtimes_that_the_engine_lacks_are_named_and_leave_nothing(docker_lab: Lab) -> None:
    assert isinstance(docker_lab.backend, DockerBackend)
    with pytest.raises(RuntimeMissing, match="no runtime 'trace-bench-none'"):
        docker_lab.backend.create(docker_lab.request(SLEEP, runtime="trace-bench-none"))
    if "nvidia" in docker_lab.backend.describe()["runtimes"]:
        pytest.skip("this engine has GPUs to give")
    for names in ((), ("0", "1"), ("nvidia.com/gpu=0", "1"), ("/dev/none-0", "/dev/none-1")):
        request = docker_lab.request(SLEEP, resources=replace(LIMITS, gpus=2), gpu_names=names)
        with (
            pytest.raises(GpusMissing, match=r"cannot give the GPUs that sandbox\.gpus asks for .*install") as caught,
            docker_lab.running("", resources=request.resources, gpu_names=names, labels=request.labels) as (sandbox, _),
        ):
            pytest.fail(f"{sandbox.name} has started")
        assert caught.value.exit_code == ExitCode.ENVIRONMENT
        assert docker_lab.backend.find({JOB: request.labels[JOB]}) == []


def test_engine_that_does_not_answer_is_named_with_a_remedy(tmp_path: Path) -> None:
    backend = DockerBackend(f"unix://{tmp_path}/none.sock")
    with pytest.raises(EnvironmentUnavailable, match=r"none\.sock.*Start the engine.*docker group"):
        backend.check()
    with pytest.raises(EngineGone):
        backend.find({RUN: "x"})


def test_auto_never_falls_back_silently(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnavailable, match=r"--backend local.*unprotected"):
        get_backend("auto", host=f"unix://{tmp_path}/none.sock")
    assert get_backend("auto").name == "docker"


def test_sandbox_that_somebody_removed_is_gone(docker_lab: Lab) -> None:
    with docker_lab.running(ECHO) as (sandbox, stream):
        read_until(stream, b"ready\n")
        subprocess.run(["docker", "rm", "-f", sandbox.name], capture_output=True, check=True)
        assert sandbox.status() == "removed"
        for action in (sandbox.start, sandbox.attach, sandbox.last_words, lambda: sandbox.wait(1)):
            with pytest.raises(SandboxRemoved):
                action()
        sandbox.kill()


def test_volume_whose_container_is_gone_is_found_and_removed(docker_lab: Lab) -> None:
    with docker_lab.created(SLEEP) as sandbox:
        subprocess.run(["docker", "rm", sandbox.name], capture_output=True, check=True)
        found = docker_lab.backend.find({JOB: sandbox.labels[JOB]})
        assert [(item.status(), item.name) for item in found] == [("removed", sandbox.labels[VOLUME])]
        found[0].remove()
        assert docker_lab.backend.find({JOB: sandbox.labels[JOB]}) == []


def test_uid_bases_of_running_sandboxes_are_known(docker_lab: Lab) -> None:
    backend = docker_lab.backend
    assert isinstance(backend, DockerBackend)
    base = backend.default_uid_base + 16 * 1999
    with docker_lab.running(SLEEP, uid_base=base) as (sandbox, stream):
        read_until(stream, b"ready\n")
        assert base in backend.uid_bases_in_use()
        assert sandbox.labels[UID_BASE] == str(base)
        sandbox.kill()
        assert sandbox.wait(20) is not None
        assert base not in backend.uid_bases_in_use()


def test_killed_command_inside_a_container_is_no_end_of_the_sandbox_but_oom_is_flagged(docker_lab: Lab) -> None:
    """The flag alone is no evidence: a child that ran out of memory sets it, and the sandbox goes on."""
    code = (
        "if os.fork() == 0:\n    open('/proc/self/oom_score_adj', 'w').write('1000')\n"
        "    x = [bytes([1]) * (16 << 20) for _ in range(40)]\n    os._exit(0)\n"
        "say(str(os.waitstatus_to_exitcode(os.wait()[1])))\n"
    )
    out, _, ended = docker_lab.finished(code, resources=replace(LIMITS, memory_bytes=128 << 20))
    assert out == b"-9\n"
    assert (ended.code, ended.oom_killed) == (0, True)


def _round_trip(backend: DockerBackend, lab: Lab) -> None:
    other = Lab(backend, lab.image, lab.run)
    data = os.urandom(300_000)
    with other.running(ECHO) as (sandbox, stream):
        read_until(stream, b"ready\n")
        stream.write(data)
        got = b""
        while len(got) < len(data):
            got += stream.read(10) or b""
        assert got == data
        stream.close()
        again = sandbox.attach()
        again.write(b"again\n")
        assert read_until(again, b"again\n") == b"again\n"
        again.close()


def test_engine_over_ssh(docker_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ssh is played by a script that leaves out the network: everything but the encryption is real."""
    fake = tmp_path / "ssh"
    fake.write_text(f"#!/bin/sh\nexec env -u DOCKER_HOST {shutil.which('docker')} system dial-stdio\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _round_trip(DockerBackend("ssh://somebody@elsewhere:2222"), docker_lab)


@pytest.mark.skipif(os.environ.get("DOCKER_HOST", "unix://").partition("://")[0] != "unix", reason="engine elsewhere")
def test_a_thread_holds_few_connections_however_many_sandboxes_it_has_seen(docker_lab: Lab) -> None:
    def sockets() -> int:
        return sum(str(f.readlink()).startswith("socket:") for f in Path("/proc/self/fd").iterdir() if f.is_symlink())

    engine = DockerBackend()._engine
    before = sockets()
    for number in range(20):
        with pytest.raises(SandboxRemoved), engine.errors("inspect a sandbox", name="none"):
            engine.client.inspect_container(f"trace-bench-none-{number}")
    assert sockets() <= before + 3


def test_what_containers_hold_is_told_while_they_run_or_are_about_to(docker_lab: Lab) -> None:
    backend = docker_lab.backend
    assert isinstance(backend, DockerBackend)
    nobodys = 99999  # no core of any machine, so that others on this engine neither see nor say it
    for whose, held in (({}, True), ({OWNER: owner()}, False)):
        labels = {**docker_lab.request("").labels, **whose, CPUSET: str(nobodys)}
        with docker_lab.created(SLEEP, labels=labels, allow_weaker=frozenset({"cpus"})) as sandbox:
            there = nobodys in backend.taken("").cores
            assert there == held, "one of this host is started while its controller holds the locks"
            sandbox.start()
            assert nobodys in backend.taken("").cores and backend.taken("").anything
            sandbox.kill()
            sandbox.wait(20)
            assert nobodys not in backend.taken("").cores


def test_memory_and_swap_stop_at_the_limit(docker_lab: Lab) -> None:
    """What the kernel holds it to, as seen from inside, and that going beyond it ends."""
    code = (
        "import pathlib\n"
        "def read(*names):\n"
        "    found = [p for n in names if (p := pathlib.Path('/sys/fs/cgroup', n)).is_file()]\n"
        "    return found[0].read_text().strip() if found else ''\n"
        "say(read('memory/memory.limit_in_bytes', 'memory.max'))\n"
        "say(read('memory/memory.memsw.limit_in_bytes', 'memory.swap.max'))\n"
        "kept = []\n"
        "while len(kept) < 64: kept.append(bytearray(os.urandom(1 << 20)) * 16)\n"
        "say('had 1 GiB')\n"
    )
    out, _, ended = docker_lab.finished(code, resources=LIMITS)
    memory, swap, *rest = out.decode().split("\n")
    assert int(memory) == 512 << 20
    assert swap in (str(512 << 20), "0"), "cgroup v1 counts memory and swap together, v2 swap alone"
    assert rest == [""] and ended.code == 137 and ended.oom_killed


def test_kill_and_wait_by_a_found_twin(docker_lab: Lab) -> None:
    def twin(sandbox: Sandbox) -> Sandbox:
        return docker_lab.backend.find({JOB: sandbox.labels[JOB]})[0]

    with docker_lab.running(SLEEP) as (sandbox, stream):
        read_until(stream, b"ready\n")
        waiter: Callable[[], object] = lambda: twin(sandbox).kill()  # noqa: E731
        threading.Timer(0.3, waiter).start()
        ended = sandbox.wait(30)
        assert ended is not None and ended.code == 137
