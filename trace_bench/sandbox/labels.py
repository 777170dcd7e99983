"""Labels of sandboxes. Adoption, sweeping and ``ps`` find sandboxes by these alone."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

PREFIX = "trace-bench."
RUN = PREFIX + "run"
"""Run id."""
JOB = PREFIX + "job"
"""Job id."""
OWNER = PREFIX + "owner"
"""Host and user whose controllers may adopt or sweep it; see `owner`."""
LEASE = PREFIX + "lease"
"""Seconds that the supervisor runs on without a heartbeat."""
CREATED = PREFIX + "created"
"""When it was requested: whole seconds since 1970, by the clock of its controller."""
UID_BASE = PREFIX + "uid-base"
"""First uid of its block; set by the backend."""
DEVICES = PREFIX + "devices"
"""GPUs that it holds a lease of, with commas between; set by the backend."""
CPUSET = PREFIX + "cpuset"
"""Cores that it holds a lease of, with commas between; set by the backend."""
EXCLUSIVE = PREFIX + "exclusive"
"""``1`` if no other sandbox may run on its host; else missing."""
VOLUME = PREFIX + "volume"
"""Name of the volume at /out; set by the backend."""


def owner() -> str:
    """This host and user as 16 hex digits: stable over reboots, different for each user of a shared engine."""
    machine = Path("/etc/machine-id")
    host = machine.read_text().strip() if machine.is_file() else ""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    return hashlib.sha256(f"{host or platform.node()}\0{user}".encode()).hexdigest()[:16]


def job_labels(run_id: str, job_id: str, lease: float, *, exclusive: bool = False) -> dict[str, str]:
    """The labels of one job's sandbox. `exclusive`: nothing else may run on its host.

    >>> sorted(job_labels("r", "j", 60))
    ['trace-bench.created', 'trace-bench.job', 'trace-bench.lease', 'trace-bench.owner', 'trace-bench.run']
    """
    found = {RUN: run_id, JOB: job_id, OWNER: owner(), LEASE: f"{lease:g}", CREATED: f"{time.time():.0f}"}
    return {**found, EXCLUSIVE: "1"} if exclusive else found


LONGEST_NAME = 120


def sandbox_name(run_id: str, job_id: str) -> str:
    """Name of one job's sandbox, unlike that of any other job. A long run id is cut, and its hash added.

    >>> sandbox_name("r", "j")
    'trace-bench-r-j'
    >>> sandbox_name("r" * 128, "j") == sandbox_name("r" * 127, "j")
    False
    """
    name = f"trace-bench-{run_id}-{job_id}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(run_id.encode()).hexdigest()[:16]
    room = LONGEST_NAME - len(f"trace-bench--{digest}-{job_id}")
    return f"trace-bench-{run_id[:room]}-{digest}-{job_id}"


def age(labels: Mapping[str, str], now: float) -> float | None:
    """Age in seconds of a sandbox with `labels`; None if they do not say.

    >>> age({CREATED: "100"}, 130.5)
    30.5
    """
    created = labels.get(CREATED, "")
    return max(0.0, now - int(created)) if created.isascii() and created.isdigit() and len(created) < 16 else None


def uid_base(labels: Mapping[str, str]) -> int | None:
    """The first uid of a sandbox with `labels`; None if they hold no valid one.

    >>> uid_base({UID_BASE: "1048576"}), uid_base({UID_BASE: "²"}), uid_base({UID_BASE: "9" * 5000}), uid_base({})
    (1048576, None, None, None)
    """
    text = labels.get(UID_BASE, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def uid_bases(several: Iterable[Mapping[str, str]]) -> frozenset[int]:
    """The first uids of sandboxes with these labels, of those that have one."""
    return frozenset(base for labels in several if (base := uid_base(labels)) is not None)


def matches(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """True if `labels` has every pair of `wanted`."""
    return all(labels.get(key) == value for key, value in wanted.items())
