"""Which controls hold in a Modal sandbox: what was asked of the service, and what was read back inside."""

from __future__ import annotations

from collections.abc import Mapping

from trace_bench.sandbox.base import CONTROLS, FEATURES, Control, SandboxRequest
from trace_bench.sandbox.modal.confinement import KEPT
from trace_bench.sandbox.modal.reports import Facts

CANNOT: Mapping[str, str] = {
    "seccomp": "the service's runtime (gVisor) answers system calls itself; candidates have a filter of their own",
    "apparmor": "the service's runtime applies no AppArmor profile",
    "read_only_root": "the service makes the root writable; only uid 0 may write to it",
    "swap": "the service does not say",
    "pids": "the service has no limit of processes; each uid of a job has one of its own",
    "tmpfs": "/tmp and /run are part of the root; the service mounts nothing in memory",
    "noexec": "/tmp and /run are part of the root",
    "ipc": "/dev/shm is uid 0's; queues cannot be turned off, and candidates' own filter refuses the calls",
    "log_cap": "the service keeps what goes over an exec as long as it likes",
    "oom_flag": "the service does not say whether memory ran out",
    "quota": "the root has no size of its own; a watcher in the supervisor stands in",
}
"""What cannot be put in force there, each with the reason."""

CAN = (CONTROLS.keys() | FEATURES.keys()) - CANNOT.keys()


def limits(request: SandboxRequest) -> dict[str, str]:
    """What was asked of the service for `request`, to be kept as labels: the service does not report it afterwards."""
    resources = request.resources
    return {
        "trace-bench.memory": str(resources.memory_bytes),
        "trace-bench.cpus": f"{resources.cpus:g}",
        "trace-bench.nofile": str(resources.nofile),
        "trace-bench.gpus": str(resources.gpus),
    }


def read_back(facts: Facts, labels: Mapping[str, str]) -> list[Control]:
    """One `Control` per name of `CONTROLS`, in its order.

    Args:
        facts: what was read back inside.
        labels: with those of `limits`.
    """
    memory, cpus, nofile, gpus = (labels.get(f"trace-bench.{key}", "") for key in ("memory", "cpus", "nofile", "gpus"))
    held, usable = set(facts.capabilities), set(facts.usable)
    interfaces = ", ".join(facts.interfaces) or "none"
    with_gpus = f"; {gpus} GPUs were asked for" if gpus not in ("", "0") else ""
    verdicts: dict[str, tuple[bool, str]] = {
        "network": (True, f"the service was asked to block it; interfaces inside: {interfaces}"),
        "capabilities": (held <= KEPT.keys() and usable >= KEPT.keys(), " ".join(sorted(held)) or "none"),
        "no_new_privileges": (facts.no_new_privs, "set by the entry point, read back from the kernel"),
        "mounts": (True, f"no volume was asked for; /out is part of the sandbox's own root{with_gpus}"),
        "namespaces": (True, f"a sandbox of the service's own, kernel {facts.kernel}"),
        "memory": (memory.isdigit(), f"{memory or 'no'} bytes were asked for as the limit"),
        "cpus": (bool(cpus), f"{cpus or 'none'} were asked for as the limit"),
        "nofile": (str(facts.nofile) == nofile, str(facts.nofile)),
        "core": (facts.core == 0, str(facts.core)),
        "init": (True, "the entry point reaps orphans"),
        "user": (facts.uid == 0, f"uid {facts.uid} of the sandbox"),
        "disk": (facts.fsize > 0, f"watcher in the supervisor; no single file beyond {facts.fsize} bytes"),
        "runtime": (True, "the service's own (gVisor)"),
    }
    return [
        Control(name, wanted, *verdicts.get(name, (False, CANNOT.get(name, "")))) for name, wanted in CONTROLS.items()
    ]
