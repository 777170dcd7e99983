"""A real MLflow server, one for all tests here, and a small copy of the recorded run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trace_bench.artifacts.layout import RunLayout

STARTS = 300.0
"""Seconds that the server may take on a busy machine."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an MLflow server with a database and files of its own."""
    pytest.importorskip("mlflow")
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {
        **os.environ, "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # it would import litellm, which asks the network
    }  # fmt: skip
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "files")),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{port}"
        until = time.monotonic() + STARTS
        while not _healthy(address):
            assert process.poll() is None and time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.1)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def small(copied: RunLayout) -> RunLayout:
    """Four jobs of the recorded run: one of each seed of a search, and NoOp."""
    keep(copied, lambda job: "knapsack" in job["task_id"] and "num_steps=1" not in job["variant"])
    return copied


def keep(run: RunLayout, wanted: Callable[[dict[str, Any]], bool]) -> None:
    """Leave only the jobs that `wanted` says in the manifest of `run`."""
    manifest = json.loads(run.manifest.read_text())
    manifest["jobs"] = [job for job in manifest["jobs"] if wanted(job)]
    assert manifest["jobs"]
    run.manifest.write_text(json.dumps(manifest))
