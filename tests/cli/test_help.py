"""The command line explains itself, in a pipe as on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

import trace_bench
from tests.cli.conftest import refused
from tests.integration.cli import cli

COMMANDS = (
    "", "run", "list-tasks", "list-trainers", "schema", "doctor", "clean", "images",
    "ls", "show", "logs", "ps", "cancel",
    "images build", "images list", "images verify", "images lock", "images push", "images pull",
)  # fmt: skip


def test_version() -> None:
    done = cli("--version")
    assert (done.returncode, done.stdout) == (0, f"trace-bench {trace_bench.__version__}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_summary_and_an_example(command: str) -> None:
    done = cli(*command.split(), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Usage: trace-bench {command}".rstrip()) and lines[2].strip().endswith(".")
    assert lines[-1].startswith(f"  Example: trace-bench {command}".rstrip())


def test_help_in_a_pipe_is_not_wrapped() -> None:
    top = cli("--help", COLUMNS="40").stdout
    assert max(len(line) for line in top.splitlines()) > 80
    assert "..." not in top.replace("[ARGS]...", "")


def test_help_on_a_terminal_fits_it() -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "trace_bench", "--help"]
    with subprocess.Popen(command, stdout=follower, env={**os.environ, "COLUMNS": "60", "TERM": "dumb"}) as process:
        os.close(follower)
        said = b""
        while True:
            try:
                chunk = os.read(leader, 4096)
            except OSError:
                break
            said += chunk
        assert process.wait(timeout=30) == 0
    os.close(leader)
    assert max(len(line) for line in said.decode().splitlines()) <= 60


@pytest.mark.parametrize("command", ["", "images"])
def test_no_command_prints_the_help_and_is_a_mistake(command: str) -> None:
    done = cli(*command.split())
    assert done.returncode == 2 and done.stdout.startswith("Usage: ") and done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "error: No such command 'nope'; see trace-bench --help"),
        (["run"], "error: Missing option '--config' / '-c'; see trace-bench run --help"),
        (["run", "--nope"], "error: No such option: --nope"),
        (["run", "--config"], "error: Option '--config' requires an argument"),
        (["run", "--config", "x", "--max-workers", "x"], "error: Invalid value for '--max-workers'"),
        (["schema", "a", "b"], "error: Got unexpected extra argument"),
        (["images", "nope"], "error: No such command 'nope'; see trace-bench images --help"),
        (["images", "push", "core"], "error: Missing option '--registry'; see trace-bench images push --help"),
        (["images", "pull"], "error: Missing argument 'REPOSITORY@sha256:DIGEST'"),
    ],
)
def test_a_mistake_in_the_arguments_is_one_line(arguments: list[str], said: str) -> None:
    assert refused(*arguments).startswith(said)


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    command = [sys.executable, "-m", "trace_bench", "schema", "job_meta"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 0
