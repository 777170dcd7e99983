"""The engine's runtimes: which one a sandbox gets, and whether that one brings a kernel of its own (gVisor's runsc).

Under gVisor system calls of the sandbox never reach the host's kernel; what answers them heeds most of what the engine
asks for, and not all of it. What it does not heed is a control that is not in force, and is said to be so.
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
    "ipc": "gVisor heeds no limits of queues and shared memory; the worker's filter refuses the calls to candidates",
}
"""Controls that gVisor does not put in force and that are not required there, each with the reason."""

OCI_SECCOMP = "--oci-seccomp"
"""Argument with which runsc applies the engine's system-call filter to the sandbox."""

FEWEST_HOST_THREADS = 4096
HOST_THREADS = 6
RUNSC_THREADS = 160


def host_threads(pids: int) -> int:
    """What the engine's limit of processes must be where it counts gVisor's threads on the host, not the sandbox's.

    A process inside costs up to 5.2 threads on the host (measured with the ptrace platform), runsc itself 55. Whoever
    reaches the limit ends the whole sandbox, for runsc cannot go on without a thread; so it must lie beyond what all
    uids of a job may start together by RLIMIT_NPROC, which gVisor heeds.
    """
    return max(FEWEST_HOST_THREADS, RUNSC_THREADS + HOST_THREADS * pids)


def runtime_of(asked: str | None, engine: Facts) -> str:
    """Name of the runtime that a sandbox gets; empty if nobody knows.

    Args:
        engine: the engine's ``info``.
    """
    return asked or str(engine.get("DefaultRuntime") or "")


def is_gvisor(runtime: str, engine: Facts) -> bool:
    """By the names of the runtime, of its program and of its shim: the engine says no more of it."""
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
        here: the engine's files are this machine's, so that gVisor's program can be asked for its version. (Versions
            of runc are the engine's to say, and stand in its ``version``.)
    """
    return [_describe(name, engine, here) for name in sorted(engine.get("Runtimes") or {})]


def missing_runtime(runtime: str, known: object = None) -> str:
    """The sentence for a runtime that the engine does not have; `known` are those that it has, if that is known."""
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
    """What ``runsc --version`` says; empty if it cannot be asked."""
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
