"""An evaluator in a container: the same scores as on this machine, in a sandbox that is gone with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import trace_bench
from tests.engine import on_runtime

pytestmark = pytest.mark.docker
PROGRAM = "llm4ad:circle_packing"


def containers() -> set[str]:
    found = subprocess.run(["docker", "ps", "-aq"], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


def test_candidates_in_a_container_score_as_they_do_here(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(images))
    before = containers()
    config = {"sandbox": found} if (found := on_runtime({})) else {}
    with trace_bench.evaluator(PROGRAM, backend="docker", config=config) as evaluator:
        (ours,) = containers() - before
        start = evaluator()
        spoilt = evaluator("import socket\ndef solve(*a, **k):\n    socket.create_connection(('10.0.0.1', 80))\n")
        again = evaluator(evaluator.initial)
    assert ours not in containers()
    assert start == again and start.failed == 0 < start.score and spoilt.failed == len(spoilt.examples)
    with trace_bench.evaluator(PROGRAM, backend="local") as here:
        assert here().score == start.score
