"""Every control of the sandbox, tried from inside and read from outside: one container for both.

`INSIDE` says what each attempt of ``tests/sandbox/probe.py`` must come to, for each who makes it; `OUTSIDE` what
``docker inspect`` says. A control without an entry in both is a failure (`test_every_control_is_proven_twice`), and so
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.engine import base_image, engine_answers
from tests.sandbox.conformance import SLEEP, Lab, read_all
from trace_bench.sandbox import CONTROLS, Resources
from trace_bench.sandbox import docker as docker_backend
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.errors import ImageMissing
from trace_bench.sandbox.labels import LEASE, OWNER, VOLUME, job_labels

pytestmark = pytest.mark.docker

REPOSITORY = Path(__file__).resolve().parents[2]
LIMITS = Resources(cpus=0.5, memory_bytes=512 << 20, disk_bytes=24 << 20, tmp_bytes=8 << 20, pids=48, nofile=128)
FLOOD = 3 << 20
"""Bytes that the probe says before its result: more than the engine may keep."""
EVERYBODY = ("supervisor", "phase", "candidate")
OTHERS = ("phase", "candidate")
Facts = dict[str, Any]
Check = Callable[[Any], bool]


@dataclass(frozen=True)
class Shared:
    """The one container: what its engine said of it, what was tried in it, and what was left when it had ended."""

    backend: DockerBackend
    uid_base: int
    inspected: Facts
    tried: dict[str, Facts]
    ended: Facts
    log: bytes


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
        assert said, stream.stderr_tail()
        assert sandbox.wait(30) is not None
        log = docker("logs", sandbox.id)
        facts = inspect(sandbox.name)
        assert isinstance(lab.backend, DockerBackend)
        return Shared(lab.backend, base, facts, json.loads(said[-1]), facts["State"], log)


@pytest.fixture(scope="module")
def shared(lab: Lab) -> Shared:
    return probe(lab, FLOOD)


# -- what must come of it ---------------------------------------------------------------------------------------------


def all_of(expected: object, *who: str) -> dict[str, object]:
    return dict.fromkeys(who or EVERYBODY, expected)


def one_of(*names: str) -> Check:
    return lambda got: got in names


DENIED = one_of("EPERM", "EACCES", "EROFS")
FOUR = f"{1 << 0 | 1 << 5 | 1 << 6 | 1 << 7:016x}"  # CHOWN, KILL, SETGID, SETUID: linux/capability.h
NONE = f"{0:016x}"
OF_THE_SYSTEM = ("proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "overlay")
ENGINES_FILES = {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}


def capabilities(effective: str) -> Check:
    def check(status: Facts) -> bool:
        sets = (status["CapEff"], status["CapPrm"], status["CapInh"], status["CapAmb"], status["CapBnd"])
        return sets == (effective, effective, NONE, NONE, FOUR)

    return check


def only_out_is_of_a_disk(mounts: Facts) -> bool:
    disks = {place: options for place, (kind, options, _) in mounts.items() if kind not in OF_THE_SYSTEM}
    writable = [place for place, options in disks.items() if "ro" not in options]
    init = [place for place in disks if place.endswith("/docker-init")]
    return writable == ["/out"] and set(disks) == {"/out", *ENGINES_FILES, *init}


def own_namespaces(found: Facts) -> bool:
    """True also where the engine is on another host, whose numbers nobody knows here."""
    return all(str(Path("/proc/self/ns", name).readlink()) != text for name, text in found.items())


def in_memory(mounts: Facts) -> bool:
    sizes = {"/tmp": f"size={LIMITS.tmp_bytes >> 10}k", "/run": "size=16384k"}
    return all(
        mounts[place][0] == "tmpfs" and {"nosuid", "nodev"} <= {*mounts[place][1]} and size in mounts[place][2]
        for place, size in sizes.items()
    )


def limited(code: str, least: int, most: int) -> Check:
    return lambda got: got[0] == code and least < got[1] <= most


def of_uid(offset: int | None) -> Callable[[Shared], Check]:
    def make(shared: Shared) -> Check:
        uid = 0 if offset is None else shared.uid_base + offset
        groups = "0" if offset is None else ""
        return lambda got: {*got["Uid"].split(), *got["Gid"].split()} == {str(uid)} and got["Groups"] == groups

    return make


def no_more_than_own(offset: int | None) -> Callable[[Shared], Check]:
    return lambda shared: lambda got: got == str(0 if offset is None else shared.uid_base + offset)


def apparmor(shared: Shared) -> Check:
    if "apparmor" in shared.backend.capabilities:
        return lambda got: bool(got) and "unconfined" not in got
    return lambda got: got in ("", "unconfined")


def same_kernel(shared: Shared) -> Check:
    """runc shares the host's kernel; what has one of its own (runsc) says so."""
    facts = shared.backend.describe()
    return lambda got: (got == facts["kernel"]) == (facts["default_runtime"] == "runc")


def kept(shared: Shared) -> Check:
    return lambda _: len(shared.log) <= 1 << 20 < FLOOD and json.loads(shared.log.splitlines()[-1]) == shared.tried


def needs(what: Callable[[Shared], Check]) -> Callable[[Shared], Check]:
    """Marks an expectation that is made from the container that it is about."""
    what.of_shared = True  # type: ignore[attr-defined]
    return what


INSIDE: dict[str, dict[str, dict[str, object]]] = {
    "network": {
        "connect metadata": all_of("ENETUNREACH"),
        "connect out": all_of("ENETUNREACH"),
        "connect gateway": all_of("ENETUNREACH"),
        "interfaces": all_of(["lo"]),
        "routes": all_of([]),
    },
    "capabilities": {
        "status": {**all_of(capabilities(NONE)), "supervisor": capabilities(FOUR)},
        "raw socket": all_of("EPERM"),
        "packet socket": all_of("EPERM"),
        "mknod": all_of("EPERM"),
        "chroot": all_of("EPERM"),
        "set host name": all_of("EPERM"),
        "remount /": all_of("EPERM"),
        "nice": all_of("EACCES"),
    },
    "no_new_privileges": {
        "status": all_of(lambda got: got["NoNewPrivs"] == "1"),
        "setuid file": {"phase": needs(no_more_than_own(1)), "candidate": needs(no_more_than_own(4))},
    },
    "mounts": {
        "mounts": all_of(only_out_is_of_a_disk),
        "engine socket": all_of(lambda got: len(got) == 4 and set(got.values()) == {"ENOENT"}),
        "devices": all_of([]),
        "host memory": all_of(lambda got: set(got.values()) == {"ENOENT"}),
        "mount": all_of("EPERM"),
        "umount": all_of("EPERM"),
    },
    "namespaces": {
        "namespaces": all_of(own_namespaces),
        "host name": all_of("sandbox"),
        "processes": all_of(lambda got: got <= 6),
        "join namespace": all_of("EPERM"),
        "write /proc/sys": all_of(DENIED),
        "write core_pattern": all_of(DENIED),
        "write sysrq": all_of(one_of("ENOENT", "EROFS", "EACCES")),
        "write /sys": all_of(DENIED),
    },
    "seccomp": {
        "status": all_of(lambda got: got["Seccomp"] == "2"),
        **{
            name: all_of("EPERM")
            for name in ("add_key", "keyctl", "userfaultfd", "unshare", "bpf", "perf_event_open", "init_module")
        },
    },
    "apparmor": {"apparmor": all_of(needs(apparmor))},
    "read_only_root": {
        "write /": all_of("EROFS"),
        "write /etc": {"supervisor": "EROFS", **all_of(DENIED, *OTHERS)},
        "write /usr": {"supervisor": "EROFS", **all_of(DENIED, *OTHERS)},
    },
    "memory": {
        "memory limit": all_of(str(LIMITS.memory_bytes)),
        "raise memory": all_of(one_of("EROFS", "EACCES")),
    },
    "swap": {"swap limit": all_of(one_of(str(LIMITS.memory_bytes), "0"))},  # cgroup v1 counts both together
    "cpus": {
        "cpu limit": all_of(lambda got: got.split()[0] == "50000"),
        "held up": all_of(lambda got: got > 0, "supervisor"),
    },
    "pids": {"pids limit": all_of(str(LIMITS.pids)), "fork": all_of(limited("EAGAIN", 32, 48), "supervisor")},
    "nofile": {"open many": all_of(limited("EMFILE", 64, LIMITS.nofile)), "raise nofile": all_of("EPERM")},
    "core": {"core": all_of([0, 0]), "raise core": all_of("EPERM"), "core dumped": all_of(False)},
    "tmpfs": {
        "mounts": all_of(in_memory),
        "fill /tmp": all_of(["ENOSPC", LIMITS.tmp_bytes], "supervisor"),
        "fill /run": all_of(["ENOSPC", 16 << 20], "supervisor"),
    },
    "noexec": {
        "exec in /tmp": all_of("EACCES"),
        "exec in /run": all_of("EACCES"),
        "mounts": all_of(lambda got: "noexec" in got["/tmp"][1] and "noexec" in got["/run"][1]),
    },
    "ipc": {
        "shm": all_of("ENOENT"),
        "shmget": all_of("ENOSPC"),
        "msgget": all_of("ENOSPC"),
        "semget": all_of("EINVAL"),  # a set of one is more than the limit of none
        "mqueue": all_of(lambda got: got != "done"),
    },
    "init": {"init": all_of("docker-init"), "orphan": all_of([1, "reaped"], "supervisor")},
    "log_cap": {"status": {"supervisor": needs(kept)}},
    "user": {
        "status": {"supervisor": needs(of_uid(None)), "phase": needs(of_uid(1)), "candidate": needs(of_uid(4))},
        "writable": all_of(lambda got: len(got) == 1 and re.fullmatch(r"/tmp/\d+", got[0]) is not None, *OTHERS),
        **{
            name: all_of("EPERM", *OTHERS)
            for name in ("kill supervisor", "kill init", "ptrace supervisor", "root again")
        },
        **{
            name: all_of("EACCES", *OTHERS)
            for name in ("memory of supervisor", "environment of supervisor", "files of supervisor")
        },
        "become another": all_of(lambda got: set(got.values()) == {"EPERM"}, *OTHERS),
        "home of another": all_of(lambda got: set(got.values()) == {"EACCES"}, *OTHERS),
    },
    "disk": {
        "fill /out": all_of(
            lambda got: got[0] in ("EFBIG", "EDQUOT", "ENOSPC") and got[1] <= LIMITS.disk_bytes, "supervisor"
        ),
        "raise fsize": all_of("EPERM"),
    },
    "runtime": {"kernel": all_of(needs(same_kernel))},
}
ATTEMPTS = [(c, a, who) for c, attempts in INSIDE.items() for a, by in attempts.items() for who in by]


def ulimits(facts: Facts) -> Facts:
    return {item["Name"]: (item["Soft"], item["Hard"]) for item in facts["HostConfig"]["Ulimits"]}


def tmpfs_flags(facts: Facts) -> Facts:
    return {place: {*text.split(",")} for place, text in facts["HostConfig"]["Tmpfs"].items()}


def host(key: str) -> Callable[[Facts], Any]:
    return lambda facts: facts["HostConfig"][key]


def text_of(*keys: str) -> Callable[[Facts], Any]:
    """Of keys of the host config that nobody set: engines say null or an empty text."""
    return lambda facts: [facts["HostConfig"].get(key) or "" for key in keys]


Outside = dict[str, tuple[Callable[[Facts], Any], object]]
OUTSIDE: dict[str, Outside] = {
    "network": {
        "mode": (host("NetworkMode"), "none"),
        "networks": (lambda f: list(f["NetworkSettings"]["Networks"]), ["none"]),
        "ports": (lambda f: f["NetworkSettings"]["Ports"], {}),
    },
    "capabilities": {
        "dropped": (host("CapDrop"), ["ALL"]),
        "added": (lambda f: [c.removeprefix("CAP_") for c in host("CapAdd")(f)], ["CHOWN", "KILL", "SETGID", "SETUID"]),
        "groups": (text_of("GroupAdd"), [""]),
    },
    "no_new_privileges": {"option": (host("SecurityOpt"), ["no-new-privileges"])},
    "mounts": {
        "mounts": (lambda f: [(m["Type"], m["Destination"]) for m in f["Mounts"]], [("volume", "/out")]),
        "binds and devices": (text_of("Binds", "Devices", "DeviceRequests", "VolumesFrom", "DeviceCgroupRules"),
                              [""] * 5),
    },
    "namespaces": {
        "privileged": (host("Privileged"), False),
        "shared": (text_of("PidMode", "UTSMode", "UsernsMode"), [""] * 3),
        "ipc and network": (lambda f: [host("IpcMode")(f), host("NetworkMode")(f)], ["none", "none"]),
        "masked paths": (lambda f: "/proc/sysrq-trigger" in host("ReadonlyPaths")(f), True),
        "host name": (lambda f: f["Config"]["Hostname"], "sandbox"),
    },
    "seccomp": {"no profile is named": (lambda f: [o for o in host("SecurityOpt")(f) if "seccomp" in o], [])},
    "apparmor": {
        "profile": (lambda f: f["AppArmorProfile"], one_of("", "docker-default")),
        "no profile is named": (lambda f: [o for o in host("SecurityOpt")(f) if "apparmor" in o], []),
    },
    "read_only_root": {"root": (host("ReadonlyRootfs"), True)},
    "memory": {
        "limit": (host("Memory"), LIMITS.memory_bytes),
        "not left to go on": (host("OomKillDisable"), one_of(False, None)),  # type: ignore[arg-type]
    },
    "swap": {"together with memory": (host("MemorySwap"), LIMITS.memory_bytes)},
    "cpus": {"limit": (host("NanoCpus"), int(LIMITS.cpus * 1e9))},
    "pids": {"limit": (host("PidsLimit"), LIMITS.pids)},
    "nofile": {"ulimit": (lambda f: ulimits(f)["nofile"], (LIMITS.nofile,) * 2)},
    "core": {"ulimit": (lambda f: ulimits(f)["core"], (0, 0))},
    "tmpfs": {
        "places": (lambda f: set(host("Tmpfs")(f)), {"/tmp", "/run"}),
        "flags": (lambda f: [{"nosuid", "nodev"} <= flags for flags in tmpfs_flags(f).values()], [True, True]),
        "size": (lambda f: f"size={LIMITS.tmp_bytes}" in tmpfs_flags(f)["/tmp"], True),
    },
    "noexec": {"flags": (lambda f: ["noexec" in flags for flags in tmpfs_flags(f).values()], [True, True])},
    "ipc": {
        "mode": (host("IpcMode"), "none"),
        "queues": (
            host("Sysctls"),
            {"fs.mqueue.queues_max": "0", "kernel.msgmni": "0", "kernel.sem": "0 0 0 0", "kernel.shmmni": "0"},
        ),
    },
    "init": {"init": (host("Init"), True)},
    "log_cap": {
        "log": (lambda f: (host("LogConfig")(f)["Type"], host("LogConfig")(f)["Config"]["max-size"]),
                ("local", str(1 << 20))),
        "one file": (lambda f: host("LogConfig")(f)["Config"]["max-file"], "1"),
    },
    "user": {
        "user": (lambda f: f["Config"]["User"], "0:0"),
        "environment": (lambda f: [v for v in f["Config"]["Env"] if not v.startswith("PATH=")], []),
    },
    "disk": {"ulimit": (lambda f: ulimits(f)["fsize"], (LIMITS.disk_bytes,) * 2)},
    "runtime": {"runtime": (host("Runtime"), one_of("runc", "io.containerd.runc.v2"))},
}  # fmt: skip


def holds(expected: object, got: Any, shared: Shared) -> bool:
    if getattr(expected, "of_shared", False):
        expected = expected(shared)  # type: ignore[operator]
    return bool(expected(got)) if callable(expected) else got == expected


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
        ended = sandbox.wait(30)
        facts = inspect(sandbox.name)
    assert ended is not None and ended.code == 3
    assert facts["HostConfig"]["RestartPolicy"] == {"Name": "no", "MaximumRetryCount": 0}
    assert (facts["RestartCount"], facts["State"]["Status"], facts["HostConfig"]["AutoRemove"]) == (0, "exited", False)


class _Registry(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(404)

    do_HEAD = do_GET

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
