"""The benchmark of many jobs at once still runs. What it measures is not looked at: a busy machine fails nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "perf" / "scheduling.py"


def test_a_few_jobs_keep_all_limits() -> None:
    """The script itself refuses to end well if they are passed, or an attempt is lost."""
    command = [sys.executable, str(SCRIPT), "--jobs", "20", "--compress", "10", "--rate", "20", "--slots", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    for part in ("bound by creations", "against the bound", "refused creations", "peak of memory"):
        assert part in done.stdout
