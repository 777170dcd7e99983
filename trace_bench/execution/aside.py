"""Attempts beside a run: to check problems, to score saved states again, and to measure yardsticks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.execution.answers import ServesAttempts
from trace_bench.execution.attempt import RunResources
from trace_bench.gateway.server import Gateway
from trace_bench.identity import run_id
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.recording import Recording


@contextmanager
def resources_aside(
    plan: RunPlan,
    purpose: str,
    gateway: Gateway,
    recording: Recording | None = None,
    services: ServesAttempts | None = None,
) -> Iterator[RunResources]:
    """Resources for attempts on the backend of `plan`, whose files are temporary.

    Its run has an id of its own: a run that is continued must not adopt one of these sandboxes.

    Args:
        purpose: part of that id, a word.
        recording, services: as of `RunResources`.
    """
    owner, folder = os.getpid(), tempfile.mkdtemp(prefix=f"trace-bench-{purpose}-")
    try:
        yield RunResources(
            backend=plan.backend,
            gateway=gateway,
            layout=RunLayout(Path(folder) / run_id(datetime.now(UTC), plan.config_hash, purpose)).make(),
            recording=recording,
            services=services,
        )
    finally:
        if os.getpid() == owner:  # and no fork of it, which ends the block too
            shutil.rmtree(folder, ignore_errors=True)
