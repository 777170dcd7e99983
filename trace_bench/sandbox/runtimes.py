"""The engine's runtimes: which one a sandbox gets, and whether that one brings a kernel of its own (gVisor's runsc).

Under gVisor system calls of the sandbox never reach the host's kernel. gVisor applies most settings of the engine, but
not all. A control that it does not apply is reported as not in force.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Facts = Mapping[str, Any]

NOT_UNDER_GVISOR: Mapping[str, str] = {
    "seccomp": "gVisor answers system calls itself, behind a filter of its own towards the host",
    "apparmor": "gVisor applies no AppArmor profile",
    "ipc": "gVisor applies no limits of queues and shared memory; the worker's filter refuses the calls to candidates",
}
"""Controls that gVisor does not put in force and that are not required there, each with the reason."""

OCI_SECCOMP = "--oci-seccomp"
"""Argument with which runsc applies the engine's system-call filter to the sandbox."""

FEWEST_HOST_THREADS = 4096
HOST_THREADS = 6
RUNSC_THREADS = 160


def host_threads(pids: int) -> int:
    """The engine's limit of processes for a gVisor sandbox, where it counts gVisor's threads on the host.

    A process inside costs up to 5.2 threads on the host (measured with the ptrace platform), runsc itself 55. Reaching
    the limit ends the whole sandbox, for runsc cannot go on without a thread. So the limit is beyond what all uids of a
    job may start together by RLIMIT_NPROC, which gVisor applies.
    """
    return max(FEWEST_HOST_THREADS, RUNSC_THREADS + HOST_THREADS * pids)


def runtime_of(asked: str | None, engine: Facts) -> str:
    """Name of the runtime that a sandbox gets; empty if it is unknown.

    Args:
        engine: the engine's ``info``.
    """
    return asked or str(engine.get("DefaultRuntime") or "")


def is_gvisor(runtime: str, engine: Facts) -> bool:
    """Whether `runtime` is gVisor's, by its own name and those of its program and shim."""
    entry = _entry(runtime, engine)
    names = (runtime, Path(str(entry.get("path") or "")).name, str(entry.get("runtimeType") or ""))
    return any(word in name.lower() for name in names for word in ("runsc", "gvisor"))


def applies_seccomp(runtime: str, engine: Facts) -> bool:
    """Whether gVisor's `runtime` applies the engine's system-call filter."""
    return any(str(word).lstrip("-") in ("oci-seccomp", "oci-seccomp=true") for word in arguments_of(runtime, engine))


def arguments_of(runtime: str, engine: Facts) -> list[str]:
    """The arguments that the engine starts `runtime` with."""
    return [str(word) for word in _entry(runtime, engine).get("runtimeArgs") or []]


def describe_runtimes(engine: Facts, *, here: bool) -> list[str]:
    """One text for each runtime: ``runsc 0.0~20221219.0 (/usr/bin/runsc --platform=ptrace --network=none)``.

    Args:
        here: the engine runs on this machine, so gVisor's program can report its version. (The engine's ``version``
            holds that of runc.)
    """
    return [_describe(name, engine, here) for name in sorted(engine.get("Runtimes") or {})]


def missing_runtime(runtime: str, known: object = None) -> str:
    """The error message for a runtime that the engine does not have; `known` are the runtimes that it has."""
    has = f" (it has {', '.join(str(name) for name in known)})" if isinstance(known, list) and known else ""
    return (
        f"the engine has no runtime {runtime!r}{has}; make it one of the engine's runtimes as in "
        "docs/how-to/stronger-runtime.md, or take sandbox.runtime out of the config."
    )


def _describe(name: str, engine: Facts, here: bool) -> str:
    path = str(_entry(name, engine).get("path") or "")
    version = _version(path) if here and is_gvisor(name, engine) else ""
    started = " ".join([path, *arguments_of(name, engine)]).strip()
    return name + (f" {version}" if version else "") + (f" ({started})" if started not in ("", name) else "")


def _version(path: str) -> str:
    """The version by ``runsc --version``; empty if it does not run."""
    if not Path(path).is_file():
        return ""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""  # a fact for the record, and no reason to fail
    first = said.strip().partition("\n")[0]
    return first.removeprefix("runsc version ")[:80] if first.startswith("runsc version ") else ""


def _entry(runtime: str, engine: Facts) -> Facts:
    found = (engine.get("Runtimes") or {}).get(runtime)
    return found if isinstance(found, Mapping) else {}
