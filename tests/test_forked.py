"""A forked command is a process of its own, with arguments, environment, folder, output and exit as of a new one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests import forked
from tests.integration.cli import cli, environment, start, started


@pytest.mark.parametrize(
    "arguments", [("--version",), ("no-such-command",), ("show", "x", "--runs-dir", "nowhere"), ("schema", "results")]
)
def test_it_says_and_returns_what_a_new_interpreter_does(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert cli(*arguments, cwd=tmp_path) == started(*arguments, cwd=tmp_path)


def test_folder_and_variables_are_those_that_were_given_and_stay_there(tmp_path: Path) -> None:
    here, before = Path.cwd(), dict(os.environ)
    done = cli("ls", "--runs-dir", "runs", cwd=tmp_path, COLUMNS="40")
    assert "runs" in done.stdout + done.stderr
    assert (Path.cwd(), dict(os.environ)) == (here, before)


def test_one_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run(("validate", "--strict"), environment=environment(), cwd=tmp_path, timeout=0.001)
    assert time.monotonic() - began < 60


WATCH = ("ps", "--watch", "--json", "--backend", "local")


def test_one_that_runs_can_be_read_from_and_interrupted(tmp_path: Path) -> None:
    with start(*WATCH, home=tmp_path, cwd=tmp_path) as process:
        assert isinstance(process, forked.Command) and process.stdout is not None
        assert process.stdout.readline().startswith("[") and process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, process.poll(), err) == (130, 130, "error: interrupted\n")


def test_one_that_is_killed_says_by_which_signal(tmp_path: Path) -> None:
    with start(*WATCH, home=tmp_path, cwd=tmp_path) as process:
        process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LD_PRELOAD", "LC_ALL"])
def test_what_is_read_when_a_process_starts_takes_a_new_one(name: str) -> None:
    assert forked.can_run(os.environ | {"HOME": "/nowhere"})
    assert not forked.can_run(os.environ | {name: "other"})
