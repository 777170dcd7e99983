"""A small image with a Python in it, for tests that need a real engine but none of the benchmark images."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BASE_IMAGE = "trace-bench-test/base:py311"
RUNTIME = os.environ.get("TRACE_BENCH_RUNTIME") or None
"""The runtime that tests of sandboxes, jobs and attacks ask for, such as ``runsc``; None is the engine's default."""


def on_runtime(sandbox: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of ``sandbox`` in a config, with the runtime of these tests where it names none."""
    return {**({"runtime": RUNTIME} if RUNTIME else {}), **sandbox}


def engine_answers() -> bool:
    """True if the `docker` client reaches an engine."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def base_image() -> str:
    """The tag of the test image; makes it first if the engine does not have it (half a minute, once)."""
    lock_file = Path(__file__).parents[1] / ".cache" / "test-image.lock"  # of all groups of tests
    lock_file.parent.mkdir(exist_ok=True)
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _has(BASE_IMAGE):
            subprocess.run(["docker", "tag", _base(), BASE_IMAGE], check=True)
    return BASE_IMAGE


def _has(tag: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", tag], capture_output=True, check=False).returncode == 0


def _base() -> str:
    """The base that images are built on here, so that only one is made."""
    from trace_bench.images.base import resolve_base, wanted_base
    from trace_bench.images.engine import connect
    from trace_bench.images.lock import Lock

    return resolve_base(connect(None), wanted_base(), Lock(), lambda _: None).ref
