"""GPUs that a config asks for reach the engine, and an engine without them is told to the user."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cli.conftest import assert_refused
from tests.integration.cli import cli, write_config
from trace_bench.sandbox.docker import DockerBackend
from trace_bench.sandbox.labels import RUN

pytestmark = pytest.mark.docker


def test_a_run_on_an_engine_without_gpus_ends_with_a_sentence_and_leaves_no_sandbox(
    tmp_path: Path, images: Path
) -> None:
    backend = DockerBackend()
    if "nvidia" in backend.describe()["runtimes"]:
        pytest.skip("this engine has GPUs to give")
    task = {"id": "internal:numeric_param", "sandbox": {"gpus": 1}}
    run_id = f"without-gpus-{tmp_path.name}-{time.time_ns()}"
    path = write_config(tmp_path, tasks=[task], trainers=["NoOp"], run_id=run_id)
    done = cli("run", "--config", str(path), "-q", home=images)
    assert_refused(done, 3)
    assert "the GPUs that sandbox.gpus asks for" in done.stderr and "install" in done.stderr
    assert backend.find({RUN: run_id}) == []
