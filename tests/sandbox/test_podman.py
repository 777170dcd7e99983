"""Podman's words for what Docker is asked, by what a Podman 4.3 said of a container of ours."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_bench.errors import SandboxError
from trace_bench.sandbox import podman
from trace_bench.sandbox.base import CONTROLS, Resources, SandboxRequest
from trace_bench.sandbox.container import LOG_BYTES, container_config
from trace_bench.sandbox.controls import NOT_YET, read_back
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.errors import ControlMissing
from trace_bench.sandbox.podman_sandbox import PodmanSandbox
from trace_bench.sandbox.uids import DEFAULT_BASE, MAPPED_BASE

SAID: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "podman" / "4.3.json").read_bytes())


def facts(state: str, tmp_path: Path, **oci: Any) -> dict[str, Any]:
    """The inspection of a container in Docker's words; `oci` replaces keys of what its runtime was started with."""
    said = json.loads(json.dumps(SAID[state]))
    if state == "running":
        (tmp_path / "config.json").write_text(json.dumps(SAID["oci"] | oci))
        said["own"]["OCIConfigPath"] = str(tmp_path / "config.json")
    return podman.in_dockers_words(said["container"], said["own"])


def lacking(found: dict[str, Any]) -> set[str]:
    return {control.name for control in read_back(found, SAID["info"]) if not control.in_force}


def test_that_it_is_rootless_is_told_from_another_key_than_dockers() -> None:
    """Only 65536 uids exist in its containers: with any other block a job's folder cannot be made."""
    bases = {
        DockerBackend(engine=SimpleNamespace(info=SAID["info"] | {"Rootless": there}, called=None)).default_uid_base  # type: ignore[arg-type]
        for there in (True, False)
    }
    assert bases == {MAPPED_BASE, DEFAULT_BASE}


def test_it_is_told_from_docker_by_its_version() -> None:
    assert podman.is_podman(SAID["version"])
    assert not podman.is_podman({"Version": "26.1", "Components": [{"Name": "Engine"}]}) and not podman.is_podman({})


def test_every_control_that_is_in_force_is_seen(tmp_path: Path) -> None:
    assert lacking(facts("running", tmp_path)) == {"apparmor"}, "which the host had not"
    details = {c.name: c.detail for c in read_back(facts("running", tmp_path), SAID["info"])}
    assert details["capabilities"] == "CHOWN KILL SETGID SETUID" and details["runtime"] == "runc"
    assert details["log_cap"] == "json-file 1.049MB" and details["ipc"] == "mode none, queues off"


def test_what_no_report_has_before_the_start_is_not_known_then(tmp_path: Path) -> None:
    controls = {control.name: control for control in read_back(facts("created", tmp_path), SAID["info"])}
    assert {name for name, control in controls.items() if not control.known} == {"ipc"}
    assert len(controls) == len(CONTROLS)


@pytest.mark.parametrize(
    ("control", "change"),
    [
        ("capabilities", lambda said: said["own"].update(BoundingCaps=["CAP_CHOWN", "CAP_SYS_ADMIN"])),
        ("log_cap", lambda said: said["own"]["HostConfig"]["LogConfig"].update(Size="0B")),
        ("tmpfs", lambda said: said["container"]["HostConfig"]["Tmpfs"].update({"/var/tmp": "rw,nosuid,nodev"})),
        ("noexec", lambda said: said["container"]["HostConfig"]["Tmpfs"].update({"/var/tmp": "rw,nosuid,nodev"})),
        ("mounts", lambda said: said["container"]["HostConfig"]["Binds"].append("/etc:/etc:rw")),
        ("core", lambda said: said["container"]["HostConfig"].update(Ulimits=[])),
        ("network", lambda said: said["container"]["HostConfig"].update(NetworkMode="bridge")),
    ],
)
def test_a_control_that_is_not_in_force_is_not_taken_for_one(control: str, change: Any, tmp_path: Path) -> None:
    said = json.loads(json.dumps(SAID["running"]))
    change(said)
    (tmp_path / "config.json").write_text(json.dumps(SAID["oci"]))
    said["own"]["OCIConfigPath"] = str(tmp_path / "config.json")
    assert control in lacking(podman.in_dockers_words(said["container"], said["own"]))


@pytest.mark.parametrize(
    "oci",
    [
        {"linux": {"sysctl": {}, "namespaces": [{"type": "ipc"}]}},
        {"linux": {**SAID["oci"]["linux"], "namespaces": [{"type": "pid"}]}},
        {"linux": {**SAID["oci"]["linux"], "namespaces": [{"type": "ipc", "path": "/proc/1/ns/ipc"}]}},
        {"mounts": [*SAID["oci"]["mounts"], {"destination": "/dev/shm", "type": "bind"}]},
    ],
)
def test_queues_and_shared_memory_are_read_from_what_the_runtime_was_given(oci: dict[str, Any], tmp_path: Path) -> None:
    found = facts("running", tmp_path, **oci)
    assert "ipc" in lacking(found) and "ipc" not in found[NOT_YET]


def test_what_is_asked_of_it_says_what_podman_would_add_by_itself() -> None:
    request = SandboxRequest(name="a", image="i", command=("c",), labels={}, uid_base=200_000, resources=Resources())
    config = container_config(request, volume="v", quota=False)
    asked = podman.asked(config, LOG_BYTES)
    host = asked["HostConfig"]
    assert "Healthcheck" not in asked and "VolumeOptions" not in host["Mounts"][0]
    assert host["Tmpfs"]["/var/tmp"].startswith("ro,") and set(host["Tmpfs"]) == {"/tmp", "/run", "/var/tmp"}
    assert host["LogConfig"] == {"Type": "k8s-file", "Config": {"max-size": str(LOG_BYTES)}}
    assert "nproc" in [limit["Name"] for limit in host["Ulimits"]]
    assert config["HostConfig"]["Tmpfs"].keys() == {"/tmp", "/run"}, "what Docker is asked stays as it is"


def packed(names: dict[str, bytes | None], *, end: bool = True) -> bytes:
    """A tar of files, and of folders and links where there is no content."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in names.items():
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.size, member.uid = len(content or b""), 77
            archive.addfile(member, io.BytesIO(content or b""))
    whole = data.getvalue()
    return whole if end else whole[:1024]


def members(data: bytes) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            content = archive.extractfile(member)
            found[member.name] = content.read() if content else None
            assert member.uid == 77
    return found


WANTED = {
    "out": None,
    "out/a": b"x" * 5000,
    "out/d": None,
    "out/d/ä" + "n" * 200: b"",
    "out/out": None,
    "out/out/b": b"1",
}


@pytest.mark.parametrize("size", [1, 700, 1 << 20])
@pytest.mark.parametrize("ended", [False, True])
def test_an_archive_has_its_root_whether_the_container_runs_or_has_ended(ended: bool, size: int) -> None:
    given = {name.removeprefix("out") or "/": data for name, data in WANTED.items()} if ended else WANTED
    data = packed(given)  # type: ignore[arg-type]
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert members(b"".join(podman.archive("out", lambda: iter(chunks)))) == WANTED


def test_an_archive_that_comes_empty_while_the_container_ends_is_asked_for_again() -> None:
    answers: Iterator[list[bytes]] = iter([[], [], [packed({"/": None})]])
    assert members(b"".join(podman.archive("out", lambda: next(answers)))) == {"out": None}


@pytest.mark.parametrize(
    "data", [packed({"/a": b"x" * 900}, end=False), packed({"/": None, "/a": b"x"})[:512], b"no tar"]
)
def test_an_archive_that_is_cut_is_an_error(data: bytes) -> None:
    with pytest.raises(SandboxError, match="archive of a sandbox"):
        b"".join(podman.archive("out", lambda: [data]))


def test_a_control_that_is_not_known_after_the_start_either_ends_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the engine is on another machine, whose files cannot be read."""
    engine: Any = SimpleNamespace(
        client=SimpleNamespace(start=lambda _: None), errors=lambda *_, **__: nullcontext(), info=SAID["info"]
    )
    sandbox = PodmanSandbox(engine, "id", "name", {})
    said = SAID["running"]
    monkeypatch.setattr(sandbox, "facts", lambda: podman.in_dockers_words(said["container"], said["own"]))
    sandbox.check(frozenset({"network", "ipc"}))
    with pytest.raises(ControlMissing, match=r"cannot put in force: ipc \(mode default"):
        sandbox.start()
    sandbox = PodmanSandbox(engine, "id", "name", {})
    monkeypatch.setattr(sandbox, "facts", lambda: podman.in_dockers_words(said["container"], said["own"]))
    sandbox.check(frozenset({"network"}))
    sandbox.start()
