"""Attempts beside a run: to check problems, to score saved states again, and to measure yardsticks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.execution.answers import ServesAttempts
from trace_bench.execution.attempt import AttemptRunner
from trace_bench.gateway.server import Gateway
from trace_bench.identity import run_id
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.recording import Recording
from trace_bench.sandbox.uids import UidBlocks


@contextmanager
def runner_aside(
    plan: RunPlan,
    purpose: str,
    gateway: Gateway,
    stop_wanted: Callable[[str], str | None],
    recording: Recording | None = None,
    services: ServesAttempts | None = None,
) -> Iterator[AttemptRunner]:
    """A runner on the backend of `plan`, whose files are temporary.

    Its run has an id of its own: a run that is continued must not adopt one of these sandboxes.

    Args:
        purpose: part of that id, a word.
        stop_wanted, recording, services: as of `AttemptRunner`.
    """
    owner, folder = os.getpid(), tempfile.mkdtemp(prefix=f"trace-bench-{purpose}-")
    try:
        yield AttemptRunner(
            backend=plan.backend,
            gateway=gateway,
            uids=UidBlocks(plan.backend.default_uid_base),
            layout=RunLayout(Path(folder) / run_id(datetime.now(UTC), plan.config_hash, purpose)).make(),
            taken=plan.backend.uid_bases_in_use,
            stop_wanted=stop_wanted,
            recording=recording,
            services=services,
        )
    finally:
        if os.getpid() == owner:  # and no fork of it, which ends the block too
            shutil.rmtree(folder, ignore_errors=True)
