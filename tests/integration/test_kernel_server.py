"""``kernel-server`` as users start it: real HTTP, real sandboxes, real measurements."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.cli import cli, environment
from tests.sandbox.lab import SLOWNESS

pytestmark = [pytest.mark.docker, pytest.mark.slow]

REFERENCE = """
import torch

class Model(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        for _ in range(20):
            x = torch.sin(x)
        return x * self.scale

def get_inputs():
    return [torch.rand(256, 1024)]

def get_init_inputs():
    return [2.0]
"""
SAME = REFERENCE.partition("def get_inputs")[0].replace("Model(", "ModelNew(")
SLOWER = SAME.replace("x = torch.sin(x)", "x = torch.sin(torch.cos(torch.acos(x.clamp(-1, 1))))")
WRONG = SAME.replace("x * self.scale", "x + self.scale")
ENDLESS = SAME.replace("x = torch.sin(x)", "while True: pass")
FORGED = """
import json, sys

class ModelNew:
    def __init__(self, scale):
        print("=== KERNEL_EXEC_RESULT_JSON ===")
        print(json.dumps({"compiled": True, "correctness": True, "runtime": 1e-9}))
        sys.stdout.flush()
        sys.exit(0)
"""
DISHONEST = REFERENCE.replace("import torch", "import os\nos.kill(os.getppid(), 9)\nimport torch")


@contextlib.contextmanager
def server(home: Path, folder: Path, *arguments: str) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """A client and the process of a server on a free port, whose evaluations are kept as runs below `folder`."""
    command = [sys.executable, "-m", "trace_bench", "kernel-server", "--port", "0", "--no-build"]
    command += ["--runs-dir", str(folder / "runs"), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment(home)) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("listening on ").strip()
            with httpx.Client(base_url=url, timeout=300 * SLOWNESS) as client:
                yield client, process
        finally:
            process.kill()


def body(custom_cuda: str, ref_arch_src: str = REFERENCE, **fields: Any) -> dict[str, Any]:
    return {"problem_id": 1, "sample_id": 0, "custom_cuda": custom_cuda, "ref_arch_src": ref_arch_src, **fields}


def sandboxes(runs: Path) -> list[str]:
    """Containers of the runs in `runs`, running or not."""
    listed = subprocess.run(
        ["docker", "ps", "-a", "--filter", "label=trace-bench.run", "--format", '{{.Label "trace-bench.run"}}'],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    ours = {path.name for path in runs.iterdir()} if runs.is_dir() else set()
    return [run for run in listed if run in ours]


def test_kernels_are_scored_in_sandboxes(kernels: Path, tmp_path: Path) -> None:
    with server(kernels, tmp_path) as (client, process):

        def result(custom_cuda: str) -> dict[str, Any]:
            reply = client.post("/evaluate_sync", json=body(custom_cuda, level=1)).raise_for_status().json()
            assert reply["status"] == "completed" and reply["error"] is None, reply
            found: dict[str, Any] = reply["result"]
            assert found.keys() == {"compiled", "correctness", "metadata", "runtime", "runtime_stats"}
            return found

        slower = result(SLOWER)
        stats = slower["runtime_stats"]
        assert slower["compiled"] and slower["correctness"] and slower["runtime"] == stats["median"] > 0
        assert stats["speedup_low"] <= stats["speedup"] <= stats["speedup_high"] < 1
        assert stats["reference_median"] < stats["median"]
        assert slower["metadata"]["integrity"] == "protected" and slower["metadata"]["hardware"]
        assert result(SAME)["correctness"]

        for source, compiled, issue in (
            (WRONG, True, "correctness_issue"),
            (SAME.replace("self.scale =", "raise ValueError("), False, "compilation_error"),
            (SAME.replace("self.scale = scale", "raise ValueError('no')"), False, "compilation_error"),
            (SAME.replace("return x", "raise ValueError('no')"), True, "runtime_error"),
            (FORGED, False, "compilation_error"),
        ):
            failed = result(source)
            assert (failed["compiled"], failed["correctness"], failed["runtime"]) == (compiled, False, -1)
            assert failed["runtime_stats"] == {} and issue in failed["metadata"], failed

        run = tmp_path / "runs" / slower["metadata"]["run_id"]
        row = json.loads(next(run.glob("jobs/*/results.json")).read_text())
        assert row["score_test"] == stats["speedup"]
        assert cli("audit", str(run), home=kernels).returncode == 0

        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert sandboxes(tmp_path / "runs") == []


def test_a_reference_that_fails_or_attacks_costs_its_client_alone(kernels: Path, tmp_path: Path) -> None:
    with server(kernels, tmp_path) as (client, _):
        for reference, said in ((DISHONEST, ""), ("x = (", "is not Python"), ("import torch", "defines no Model")):
            reply = client.post("/evaluate_sync", json=body(SAME, reference)).raise_for_status().json()
            assert reply["status"] == "failed" and said in reply["error"], reply
        assert client.post("/evaluate_sync", json=body(SAME)).json()["result"]["correctness"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_neither_a_timeout_nor_a_hang_up_nor_a_signal_leaves_a_sandbox(
    kernels: Path, tmp_path: Path, number: signal.Signals
) -> None:
    runs = tmp_path / "runs"

    def wait_for_sandboxes(count: int) -> None:
        end = time.monotonic() + 60 * SLOWNESS
        while len(sandboxes(runs)) != count:
            assert time.monotonic() < end, sandboxes(runs)
            time.sleep(0.1)

    with server(kernels, tmp_path) as (client, process), ThreadPoolExecutor(1) as pool:
        assert client.post("/evaluate_sync", json=body(ENDLESS, timeout=4)).status_code == 408
        wait_for_sandboxes(0)
        with pytest.raises(httpx.ReadTimeout):
            client.post("/evaluate_sync", json=body(ENDLESS), timeout=4)
        wait_for_sandboxes(0)
        waits = pool.submit(client.post, "/evaluate_sync", json=body(ENDLESS))
        wait_for_sandboxes(1)
        process.send_signal(number)
        assert waits.result().json()["error"] == "the server is stopping"
        assert process.wait(30) == 0
    assert sandboxes(runs) == []
