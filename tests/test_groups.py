"""A run of the tests says which groups were left out, and fails where one of them was required."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("required", "code"), [("", 0), ("docker", 1)])
def test_container_tests_without_an_engine_are_named_and_fail_where_they_are_required(
    required: str, code: int, tmp_path: Path
) -> None:
    env = os.environ | {
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
        "TRACE_BENCH_REQUIRE": required,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/integration/test_isolation.py"]
    done = subprocess.run(command, cwd=TOP, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert "x no engine answers" in done.stdout
    assert ("REQUIRED BUT NOT RUN: docker" in done.stdout) == bool(required)


def test_ci_requires_the_container_tests() -> None:
    text = (TOP / ".ci" / "run").read_text()
    assert "export TRACE_BENCH_REQUIRE=docker" in text and "scripts/test" in text
