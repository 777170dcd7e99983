"""The hardened container: everything that is asked of the engine, on one page.

``docs/reference/sandbox-controls.md`` says what each line is for, and how it is read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trace_bench.config.gpus import gpu_kind
from trace_bench.sandbox import labels
from trace_bench.sandbox.base import SandboxRequest
from trace_bench.sandbox.runtimes import host_threads

OUT = "/out"
RUN_BYTES = 16 << 20
CAPABILITIES = ("CHOWN", "KILL", "SETGID", "SETUID")
"""What the supervisor needs to give phases their uids and to sweep them, and nothing else."""

NO_IPC = {
    "fs.mqueue.queues_max": "0",
    "kernel.msgmni": "0",
    "kernel.sem": "0 0 0 0",
    "kernel.shmmni": "0",
}
"""Sysctls that forbid message queues, semaphores and shared memory in the IPC namespace: any uid could use them, and
they outlive the process that made them."""

GPUS = f"{labels.PREFIX}gpus"
"""Label with the number of GPUs that were asked for; a container without GPUs has none."""

LOG_DRIVER = "local"
LOG_BYTES = 1 << 20
"""stdout carries the control stream, so the log is only needed for the end of stderr. ``local`` keeps raw bytes;
``json-file`` would spend CPU on escaping them."""


def container_config(request: SandboxRequest, *, volume: str, quota: bool, gvisor: bool = False) -> dict[str, Any]:
    """The body of the engine's create call.

    Args:
        volume: name of the volume for /out; the engine makes it, labels and all, in the same call.
        quota: let the volume driver hold /out to its size (needs xfs with project quotas below the engine).
        gvisor: the runtime is gVisor's, whose own threads are what the engine's limit of processes counts.
    """
    own_labels = {
        **request.labels,
        labels.UID_BASE: str(request.uid_base),
        labels.VOLUME: volume,
    }
    if request.resources.gpus:
        own_labels[GPUS] = str(request.resources.gpus)
    if request.gpu_names:
        own_labels[labels.DEVICES] = ",".join(request.gpu_names)
    if request.cpuset:
        own_labels[labels.CPUSET] = ",".join(map(str, request.cpuset))
    return {
        "Image": request.image,
        # As the entry point, so that an image's own entry point or command is not used.
        "Entrypoint": list(request.command),
        "Cmd": [],
        "User": "0:0",
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": own_labels,
        "Tty": False,
        "OpenStdin": True,
        # The stream outlives a controller that is attached: a new one can attach.
        "StdinOnce": False,
        "AttachStdin": False,
        "AttachStdout": False,
        "AttachStderr": False,
        "StopTimeout": 1,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(request, volume, quota, gvisor, own_labels),
    }


def _host_config(
    request: SandboxRequest, volume: str, quota: bool, gvisor: bool, own_labels: dict[str, str]
) -> dict[str, Any]:
    resources = request.resources
    weaker = request.allow_weaker
    flags = "rw,nosuid,nodev,exec" if "noexec" in weaker else "rw,nosuid,nodev,noexec"
    volume_options: dict[str, Any] = {"NoCopy": True, "Labels": own_labels}
    if quota:
        volume_options["DriverConfig"] = {"Name": "local", "Options": {"size": str(resources.disk_bytes)}}
    config: dict[str, Any] = {
        "NetworkMode": "none",
        "CapDrop": ["ALL"],
        "CapAdd": list(CAPABILITIES),
        # Seccomp and AppArmor are not named here: naming them is how they are turned off.
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": "read_only_root" not in weaker,
        # Owned by uid 0: phases get folders of their own in it, so that no two uids share a writable folder.
        "Tmpfs": {
            "/tmp": f"{flags},size={resources.tmp_bytes},mode=0755",
            "/run": f"{flags},size={RUN_BYTES},mode=0755",
        },
        # "none" leaves no /dev/shm at all, which any uid could write to.
        "IpcMode": "private" if "ipc" in weaker else "none",
        "Sysctls": {} if "ipc" in weaker else dict(NO_IPC),
        "Memory": resources.memory_bytes,
        "MemorySwap": resources.memory_bytes,
        "NanoCpus": int(resources.cpus * 1e9),
        "PidsLimit": host_threads(resources.pids) if gvisor else resources.pids,
        "Ulimits": [
            {"Name": "nofile", "Soft": resources.nofile, "Hard": resources.nofile},
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "fsize", "Soft": file_bytes(request), "Hard": file_bytes(request)},
        ],
        "Init": True,
        "LogConfig": {
            "Type": LOG_DRIVER,
            "Config": {"max-size": str(LOG_BYTES), "max-file": "1", "compress": "false"},
        },
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "Privileged": False,
        "Mounts": [{"Type": "volume", "Source": volume, "Target": OUT, "VolumeOptions": volume_options}],
    }
    if request.gpu_names:
        config["DeviceRequests"], config["Devices"] = named_gpus(request.gpu_names)
    elif resources.gpus:
        config["DeviceRequests"] = [gpu_request(resources.gpus)]
    if request.cpuset:
        config["CpusetCpus"] = ",".join(map(str, request.cpuset))
    if request.runtime is not None:
        config["Runtime"] = request.runtime
    return config


def gpu_request(count: int) -> dict[str, Any]:
    """Asks the engine for `count` GPUs of its choice by NVIDIA's container toolkit."""
    return {"Driver": "nvidia", "Count": count, "Capabilities": [["gpu"]]}


def named_gpus(names: Sequence[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """``DeviceRequests`` and ``Devices`` that ask the engine for just these.

    Indices and UUIDs go through NVIDIA's container toolkit, CDI devices through the engine's own registry of them (25
    or newer), and nodes are handed in as they are, without the right to make others.
    """
    kinds: dict[str, list[str]] = {"nvidia": [], "cdi": [], "node": []}
    for name in names:
        kinds[gpu_kind(name)].append(name)
    requests: list[dict[str, Any]] = []
    if kinds["nvidia"]:
        requests.append({"Driver": "nvidia", "DeviceIDs": kinds["nvidia"], "Capabilities": [["gpu"]]})
    if kinds["cdi"]:
        requests.append({"Driver": "cdi", "DeviceIDs": kinds["cdi"]})
    nodes = [{"PathOnHost": name, "PathInContainer": name, "CgroupPermissions": "rw"} for name in kinds["node"]]
    return requests, nodes


def file_bytes(request: SandboxRequest) -> int:
    """Largest single file that any process of the sandbox can write."""
    return max(request.resources.disk_bytes, request.resources.tmp_bytes)
