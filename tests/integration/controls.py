"""What every control must come to, from inside and from outside: the tables of ``test_controls.py``.

`INSIDE` says what each attempt of ``tests/sandbox/probe.py`` must come to, for each who makes it; `OUTSIDE` what
``docker inspect`` says of the same container.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.sandbox import Resources
from trace_bench.sandbox.docker import DockerBackend

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


def all_of(expected: object, *who: str) -> dict[str, object]:
    return dict.fromkeys(who or EVERYBODY, expected)


def one_of(*names: Any) -> Check:
    return lambda got: got in names


DENIED = one_of("EPERM", "EACCES", "EROFS")
FOUR = f"{1 << 0 | 1 << 5 | 1 << 6 | 1 << 7:016x}"  # CHOWN, KILL, SETGID, SETUID: linux/capability.h
NONE = f"{0:016x}"
OF_THE_SYSTEM = ("proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "overlay")
PODMANS_VARIABLES = {"TERM=xterm", "container=podman", "HOSTNAME=sandbox", "HOME=/root"}
INITS = ("/docker-init", "/podman-init")
ENGINES_FILES = {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}


def capabilities(effective: str) -> Check:
    def check(status: Facts) -> bool:
        sets = (status["CapEff"], status["CapPrm"], status["CapInh"], status["CapAmb"], status["CapBnd"])
        return sets == (effective, effective, NONE, NONE, FOUR)

    return check


def only_out_is_of_a_disk(mounts: Facts) -> bool:
    disks = {place: options for place, (kind, options, _) in mounts.items() if kind not in OF_THE_SYSTEM}
    writable = [place for place, options in disks.items() if "ro" not in options]
    init = [place for place in disks if place.endswith(INITS)]
    return writable == ["/out"] and set(disks) <= {"/out", *ENGINES_FILES, *init}


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
    "cpus": {"cpu limit": all_of(lambda got: got.split()[0] == "50000")},
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
    "init": {"init": all_of(lambda got: f"/{got}" in INITS), "orphan": all_of([1, "reaped"], "supervisor")},
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
        "networks": (lambda f: list(f["NetworkSettings"]["Networks"]), one_of(["none"], [])),
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
        "shared": (text_of("PidMode", "UTSMode", "UsernsMode"), lambda got: {*got} <= {"", "private"}),
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
        "environment": (lambda f: [v for v in f["Config"]["Env"] if not v.startswith("PATH=")],
                        lambda got: {*got} <= PODMANS_VARIABLES),
    },
    "disk": {"ulimit": (lambda f: ulimits(f)["fsize"], (LIMITS.disk_bytes,) * 2)},
    "runtime": {"runtime": (host("Runtime"), one_of("runc", "io.containerd.runc.v2"))},
}  # fmt: skip


def holds(expected: object, got: Any, shared: Shared) -> bool:
    if getattr(expected, "of_shared", False):
        expected = expected(shared)  # type: ignore[operator]
    return bool(expected(got)) if callable(expected) else got == expected
