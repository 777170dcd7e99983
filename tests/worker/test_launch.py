"""The supervisor's command line."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--uid-base is needed"),
        (["--lease"], "--lease is not an argument, or its value is missing"),
        (["--uid-bas", "4096"], "--uid-bas is not an argument"),
        (["4096"], "4096 is not an argument"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_sentence(words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trace_bench.worker", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
