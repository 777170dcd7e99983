"""The benchmark of the gateway still runs. What it measures is not looked at: a busy machine fails nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "perf" / "gateway.py"


@pytest.mark.slow
def test_every_part_that_needs_no_engine_comes_to_its_end() -> None:
    command = [sys.executable, str(SCRIPT), "--quick", "--only", "latency,reuse,replay,memory"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    for part in ("through a scope", "recorded answers", "in mode replay", "growth since the first"):
        assert part in done.stdout
