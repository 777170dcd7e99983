"""Each control is read back from what the engine says: take it away there, and it is no longer reported in force."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_bench.errors import ConfigError
from trace_bench.sandbox import CONTROLS, Resources, SandboxRequest
from trace_bench.sandbox.base import NEVER_WEAKER
from trace_bench.sandbox.container import container_config, gpu_request
from trace_bench.sandbox.controls import read_back
from trace_bench.sandbox.runtimes import (
    NOT_UNDER_GVISOR,
    RUNSC_THREADS,
    describe_runtimes,
    host_threads,
    is_gvisor,
)

ENGINE: dict[str, Any] = {
    "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"],
    "MemoryLimit": True,
    "SwapLimit": True,
    "CpuCfsQuota": True,
    "PidsLimit": True,
    "DefaultRuntime": "runc",
    "Runtimes": {"runc": {}},
    "InitBinary": "docker-init",
}


def request(**changes: Any) -> SandboxRequest:
    settings: dict[str, Any] = {"name": "n", "image": "i", "command": ("python3",), "labels": {}, "uid_base": 16}
    return SandboxRequest(**{**settings, **changes})


def container(**changes: Any) -> dict[str, Any]:
    """What ``inspect`` would say of a container that got all it was asked for."""
    config = container_config(request(**changes), volume="v", quota=False)
    return {
        "Config": {key: value for key, value in config.items() if key != "HostConfig"},
        "HostConfig": config["HostConfig"],
        "Mounts": [{"Type": "volume", "Destination": "/out"}],
        "AppArmorProfile": "docker-default",
    }


def in_force(facts: dict[str, Any], engine: dict[str, Any]) -> set[str]:
    return {control.name for control in read_back(facts, engine) if control.in_force}


def host(**changes: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda facts, engine: facts["HostConfig"].update(changes)


def of_engine(**changes: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda facts, engine: engine.update(changes)


def of_container(**changes: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda facts, engine: facts.update(changes)


TAKEN_AWAY: list[tuple[str, set[str], Callable[[dict[str, Any], dict[str, Any]], None]]] = [
    ("bridge", {"network"}, host(NetworkMode="bridge")),
    ("host network", {"network", "namespaces"}, host(NetworkMode="host")),
    ("one capability more", {"capabilities"}, host(CapAdd=["CAP_SYS_ADMIN", "KILL"])),
    ("no drop", {"capabilities"}, host(CapDrop=None)),
    ("new privileges", {"no_new_privileges"}, host(SecurityOpt=[])),
    ("new privileges spelt out", {"no_new_privileges"}, host(SecurityOpt=["no-new-privileges:false"])),
    ("seccomp off", {"seccomp"}, host(SecurityOpt=["no-new-privileges", "seccomp=unconfined"])),
    ("engine without seccomp", {"seccomp", "apparmor"}, of_engine(SecurityOptions=[])),
    (
        "engine's own profile is none",
        {"seccomp", "apparmor"},
        of_engine(SecurityOptions=["name=seccomp,profile=unconfined"]),
    ),
    ("apparmor off", {"apparmor"}, of_container(AppArmorProfile="unconfined")),
    ("bind", {"mounts"}, host(Binds=["/:/host"])),
    ("device", {"mounts"}, host(Devices=[{"PathOnHost": "/dev/kvm"}])),
    ("a GPU that nobody asked for", {"mounts"}, host(DeviceRequests=[gpu_request(1)])),
    ("a volume more", {"mounts"}, of_container(Mounts=[{"Type": "volume", "Destination": "/data"}])),
    ("socket", {"mounts"}, of_container(Mounts=[{"Type": "bind", "Destination": "/var/run/docker.sock"}])),
    ("host pids", {"namespaces"}, host(PidMode="host")),
    ("another container's pids", {"namespaces"}, host(PidMode="container:abc")),
    ("privileged", {"namespaces"}, host(Privileged=True)),
    ("writable root", {"read_only_root"}, host(ReadonlyRootfs=False)),
    ("no memory limit", {"memory", "swap"}, host(Memory=0, MemorySwap=0)),
    ("swap beyond memory", {"swap"}, host(MemorySwap=-1)),
    ("kernel without swap accounting", {"swap"}, of_engine(SwapLimit=False)),
    ("no cpu limit", {"cpus"}, host(NanoCpus=0)),
    ("no pids limit", {"pids"}, host(PidsLimit=None)),
    ("engine cannot limit pids", {"pids"}, of_engine(PidsLimit=False)),
    ("no ulimits", {"nofile", "core", "disk"}, host(Ulimits=[])),
    ("core dumps", {"core"}, host(Ulimits=[{"Name": n, "Hard": 9} for n in ("core", "nofile", "fsize")])),
    ("no tmpfs", {"tmpfs", "noexec"}, host(Tmpfs=None)),
    ("tmpfs without size", {"tmpfs"}, host(Tmpfs=dict.fromkeys(("/tmp", "/run"), "nosuid,nodev,noexec"))),
    ("tmpfs with exec", {"noexec"}, host(Tmpfs=dict.fromkeys(("/tmp", "/run"), "nosuid,nodev,exec,size=1"))),
    ("one tmpfs more", {"tmpfs"}, host(Tmpfs=dict.fromkeys(("/tmp", "/run", "/x"), "nosuid,nodev,noexec,size=1"))),
    ("shareable ipc", {"ipc"}, host(IpcMode="shareable")),
    ("host ipc", {"ipc", "namespaces"}, host(IpcMode="host")),
    ("message queues", {"ipc"}, host(Sysctls={})),
    ("no init", {"init"}, host(Init=None)),
    ("endless log", {"log_cap"}, host(LogConfig={"Type": "json-file", "Config": {}})),
    ("log elsewhere", {"log_cap"}, host(LogConfig={"Type": "syslog", "Config": {}})),
    ("user of the image", {"user"}, of_container(Config={"User": ""})),
    ("unknown runtime", {"runtime"}, host(Runtime="other")),
]


def test_all_controls_are_in_force_where_the_engine_did_as_asked() -> None:
    assert in_force(container(), ENGINE) == set(CONTROLS)


def test_what_is_taken_away_is_not_reported() -> None:
    for what, gone, take in TAKEN_AWAY:
        facts, engine = copy.deepcopy(container()), copy.deepcopy(ENGINE)
        take(facts, engine)
        assert set(CONTROLS) - in_force(facts, engine) == gone, what


def test_every_control_has_a_case_that_takes_it_away() -> None:
    assert set().union(*(gone for _, gone, _ in TAKEN_AWAY)) == set(CONTROLS)


def test_quota_is_told_from_the_watcher() -> None:
    config = container_config(request(resources=Resources(disk_bytes=9 << 20)), volume="v", quota=True)
    details = {c.name: c.detail for c in read_back({"HostConfig": config["HostConfig"]}, ENGINE)}
    assert details["disk"] == f"quota {9 << 20} bytes"
    assert "watcher" in {c.name: c.detail for c in read_back(container(), ENGINE)}["disk"]


@pytest.mark.parametrize(("count", "said"), [(1, "; 1 GPU was asked for"), (3, "; 3 GPUs were asked for")])
def test_gpus_that_were_asked_for_are_said_and_allowed(count: int, said: str) -> None:
    facts = container(resources=Resources(gpus=count))
    (asked,) = facts["HostConfig"]["DeviceRequests"]
    assert (asked["Driver"], asked["Count"], asked["Capabilities"]) == ("nvidia", count, [["gpu"]])
    asked |= {"DeviceIDs": None, "Options": {}}  # as the engine fills it in
    assert in_force(facts, ENGINE) == set(CONTROLS)
    assert {c.name: c.detail for c in read_back(facts, ENGINE)}["mounts"].endswith(said)


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [gpu_request(1)],
        [gpu_request(-1)],
        [gpu_request(2), gpu_request(2)],
        [{**gpu_request(2), "DeviceIDs": ["0"]}],
        [{**gpu_request(2), "Capabilities": [["gpu", "graphics"]]}],
        [{**gpu_request(2), "Driver": "cdi"}],
    ],
)
def test_devices_other_than_the_gpus_that_were_asked_for_are_not_let_in(requests: list[dict[str, Any]]) -> None:
    facts = container(resources=Resources(gpus=2))
    facts["HostConfig"]["DeviceRequests"] = requests
    (mounts,) = [c for c in read_back(facts, ENGINE) if c.name == "mounts"]
    assert not mounts.in_force and mounts.detail.endswith("devices that were not asked for")
    facts["HostConfig"]["DeviceRequests"] = [gpu_request(2)]
    facts["HostConfig"]["Devices"] = [{"PathOnHost": "/dev/kvm"}]
    assert "mounts" not in in_force(facts, ENGINE)


def test_named_gpus_are_asked_for_by_their_kind_and_said() -> None:
    names = ("0", "GPU-8f6e", "nvidia.com/gpu=2", "/dev/dri/renderD128")
    facts = container(resources=Resources(gpus=4), gpu_names=names)
    host = facts["HostConfig"]
    assert host["DeviceRequests"] == [
        {"Driver": "nvidia", "DeviceIDs": ["0", "GPU-8f6e"], "Capabilities": [["gpu"]]},
        {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=2"]},
    ]
    node = "/dev/dri/renderD128"
    assert host["Devices"] == [{"PathOnHost": node, "PathInContainer": node, "CgroupPermissions": "rw"}]
    for item in host["DeviceRequests"]:
        item |= {"Count": 0, "Options": {}}  # as the engine fills it in
    assert in_force(facts, ENGINE) == set(CONTROLS)
    assert {c.name: c.detail for c in read_back(facts, ENGINE)}["mounts"].endswith(f"; GPUs {', '.join(names)}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("DeviceRequests", []),
        ("DeviceRequests", [{"Driver": "nvidia", "DeviceIDs": ["1"], "Capabilities": [["gpu"]]}]),
        ("DeviceRequests", [{"Driver": "nvidia", "DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]]}]),
        ("DeviceRequests", [gpu_request(1)]),
        ("Devices", []),
        ("Devices", [{"PathOnHost": "/dev/kvm", "PathInContainer": "/dev/dri/card0", "CgroupPermissions": "rw"}]),
        (
            "Devices",
            [{"PathOnHost": "/dev/dri/card0", "PathInContainer": "/dev/dri/card0", "CgroupPermissions": "rwm"}],
        ),
    ],
)
def test_devices_other_than_those_that_were_leased_are_not_let_in(key: str, value: list[dict[str, Any]]) -> None:
    facts = container(resources=Resources(gpus=2), gpu_names=("0", "/dev/dri/card0"))
    assert "mounts" in in_force(facts, ENGINE)
    facts["HostConfig"][key] = value
    assert "mounts" not in in_force(facts, ENGINE)


def test_pinned_cores_are_asked_for_and_said_and_no_others_are_in_force() -> None:
    facts = container(cpuset=(1, 3))
    assert facts["HostConfig"]["CpusetCpus"] == "1,3" and in_force(facts, ENGINE) == set(CONTROLS)
    assert {c.name: c.detail for c in read_back(facts, ENGINE)}["cpus"] == "1, on cores 1,3"
    assert "cpus" not in in_force(facts, {**ENGINE, "CPUSet": False})
    for cores in ("", "1", "0-3"):
        facts["HostConfig"]["CpusetCpus"] = cores
        assert "cpus" not in in_force(facts, ENGINE)
    facts = container()
    facts["HostConfig"]["CpusetCpus"] = "0"
    assert "cpus" not in in_force(facts, ENGINE), "nobody asked for it"


@pytest.mark.parametrize("names", [("0",), ("0", "nvidia.com/gpu=0"), ("0", "1", "2")])
def test_a_request_names_as_many_gpus_as_it_has(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"which are not the 2 devices that resources\.gpus asks for"):
        request(resources=Resources(gpus=2), gpu_names=names)


@pytest.mark.parametrize("name", sorted(NEVER_WEAKER))
def test_some_controls_cannot_be_given_up(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*cannot be given up"):
        request(allow_weaker=frozenset({name}))


def test_control_names_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"require_controls: no control is called 'netwrok'; known are network"):
        request(require_controls=frozenset({"netwrok"}))
    with pytest.raises(ConfigError, match="'swap' is in require_controls and in allow_weaker"):
        request(require_controls=frozenset({"swap"}), allow_weaker=frozenset({"swap"}))


def test_sandbox_names_and_resources_are_checked() -> None:
    for name in ("", "-x", "a/b", "../x", "a b", "ä"):
        with pytest.raises(ConfigError, match="sandbox name"):
            request(name=name)
    least = {"cpus": 0, "memory_bytes": 1024, "pids": 1, "nofile": 3, "tmp_bytes": 0, "disk_bytes": -1, "gpus": -1}
    for field, value in least.items():
        with pytest.raises(ConfigError, match=f"{field} is .*; give at least"):
            Resources(**{field: value})  # type: ignore[arg-type]


GVISOR = {**ENGINE, "Runtimes": {"runc": {}, "runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--platform=kvm"]}}}


def under_gvisor(engine: dict[str, Any]) -> dict[str, Any]:
    facts = container(runtime="runsc")
    facts["HostConfig"]["PidsLimit"] = host_threads(256)
    return {control.name: control for control in read_back(facts, engine)}


def test_what_gvisor_does_not_heed_is_not_in_force_and_says_why() -> None:
    found = under_gvisor(GVISOR)
    assert {name for name, control in found.items() if not control.in_force} == NOT_UNDER_GVISOR.keys()
    assert "answers system calls itself" in found["seccomp"].detail and "sysctl" in found["ipc"].detail
    assert found["runtime"].detail == "runsc" and "threads of runsc on the host" in found["pids"].detail


@pytest.mark.parametrize("argument", ["--oci-seccomp", "--oci-seccomp=true", "-oci-seccomp"])
def test_gvisor_that_is_told_to_applies_the_engines_filter(argument: str) -> None:
    told = {**GVISOR, "Runtimes": {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": [argument]}}}
    assert under_gvisor(told)["seccomp"].in_force
    off = {**told, "SecurityOptions": ["name=seccomp,profile=unconfined"]}
    assert not under_gvisor(off)["seccomp"].in_force


def test_gvisor_as_the_engines_default_is_gvisor() -> None:
    facts = container()
    facts["HostConfig"]["Runtime"] = ""
    assert in_force(facts, {**GVISOR, "DefaultRuntime": "runsc"}) == CONTROLS.keys() - NOT_UNDER_GVISOR.keys()


@pytest.mark.parametrize(
    ("name", "entry", "expected"),
    [
        ("runsc", {"path": "runsc"}, True),
        ("stronger", {"path": "/usr/local/bin/runsc"}, True),
        ("g", {"runtimeType": "io.containerd.runsc.v1"}, True),
        ("gvisor-kvm", {}, True),
        ("runc", {"path": "runc"}, False),
        ("runc", {"path": "/opt/runsc/bin/runc"}, False),
        ("kata", {"runtimeType": "io.containerd.kata.v2"}, False),
        ("unknown", None, False),
    ],
)
def test_gvisor_is_known_by_any_of_its_names(name: str, entry: dict[str, Any] | None, expected: bool) -> None:
    assert is_gvisor(name, {"Runtimes": {name: entry}}) is expected


def test_the_limit_of_host_threads_lies_beyond_what_a_jobs_uids_may_start() -> None:
    phases, candidates = 128, 32
    assert host_threads(8) == host_threads(256) >= RUNSC_THREADS + 5.2 * (2 * phases + 12 * candidates)
    assert host_threads(2000) > 2000 * 5.2
    config = container_config(request(), volume="v", quota=False, gvisor=True)
    assert config["HostConfig"]["PidsLimit"] == host_threads(256)


def test_runtimes_are_described_with_version_and_arguments(tmp_path: Path) -> None:
    program = tmp_path / "runsc"
    program.write_text("#!/bin/sh\necho runsc version release-1\necho spec: 1.0.2\n")
    program.chmod(0o755)
    engine = {
        "Runtimes": {"runc": {"path": "runc"}, "runsc": {"path": str(program), "runtimeArgs": ["--platform=kvm"]}}
    }
    assert describe_runtimes(engine, here=True) == ["runc", f"runsc release-1 ({program} --platform=kvm)"]
    assert describe_runtimes(engine, here=False) == ["runc", f"runsc ({program} --platform=kvm)"]
    program.write_text("#!/bin/sh\nexit 1\n")
    assert describe_runtimes(engine, here=True) == ["runc", f"runsc ({program} --platform=kvm)"]
    program.unlink()
    assert describe_runtimes(engine, here=True) == ["runc", f"runsc ({program} --platform=kvm)"]
