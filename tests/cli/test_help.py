"""The command line explains itself, in a pipe as on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import trace_bench
from tests import forked
from tests.cli.conftest import refused
from tests.console import here
from tests.integration.cli import REPOSITORY, cli
from trace_bench.cli.app import ORDER, PANELS, root_command
from trace_bench.cli.mistakes import near_option

COMMANDS = (
    "", "run", "validate", "tasks", "trainers", "list-tasks", "list-trainers", "schema", "doctor", "clean", "images",
    "check-task", "evaluate", "kernel-server", "new", "new config", "new task", "new trainer",
    "ls", "show", "logs", "ps", "cancel",
    "llm", "llm ls", "llm show", "llm cache",
    "reproduce", "results", "export", "import", "rebuild", "diff", "rm", "gc",
    "mirror", "report", "compare",
    "data", "data fetch", "data list",
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


def test_every_command_is_told_in_a_line_of_80_columns_in_the_readmes_order() -> None:
    text = on_a_terminal("--help", columns=80)
    panels = re.findall(r"^([A-Z][a-z ]+):\n((?:  [a-z].*\n)+)", text, re.MULTILINE)
    assert [title for title, _ in panels] == list(PANELS)
    listed = [line for _, lines in panels for line in lines.splitlines()]
    assert [line.split()[0] for line in listed] == list(ORDER)
    readme = (REPOSITORY / "README.md").read_text()
    table = readme[readme.index("| command |") : readme.index("Exit codes:")]
    told = list(dict.fromkeys(re.findall(r"(?:trace-bench |, `)([a-z][a-z-]+)", table)))
    assert told == list(ORDER)
    for group in ("data", "images", "llm"):
        listed += on_a_terminal(group, "--help", columns=80).split("Commands:")[1].split("\n\n")[0].splitlines()[1:]
    for line in listed:
        assert line.rstrip().endswith(".") and "..." not in line and len(line) <= 80, line
        assert len(line.split(maxsplit=1)[1].rstrip()) <= 60, line


def test_arguments_have_names_and_no_braces_types_or_odd_defaults() -> None:
    assert cli("cancel", "--help").stdout.startswith("Usage: trace-bench cancel [OPTIONS] RUN [JOB]...\n")
    assert cli("show", "--help").stdout.startswith("Usage: trace-bench show [OPTIONS] RUN [JOB]\n")
    for command in COMMANDS:
        text = here(*command.split(), "--help").stdout
        assert "{" not in text and "<" not in text and "[[" not in text and "[default: 0]" not in text, command


def test_help_on_a_terminal_fits_it() -> None:
    assert max(len(line) for line in on_a_terminal("--help", columns=60).splitlines()) <= 60


def on_a_terminal(*arguments: str, columns: int) -> str:
    leader, follower = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb"}
    with forked.start(*arguments, stdout=follower, env=env) as process:
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
    return said.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("command", ["", "images", "llm"])
def test_no_command_prints_the_help_and_is_a_mistake(command: str) -> None:
    done = cli(*command.split())
    assert done.returncode == 2 and done.stdout.startswith("Usage: ") and done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "error: No such command 'nope'; see trace-bench --help"),
        (["run"], "error: nothing is named to run; name a config, or tasks with -t; see trace-bench run --help"),
        (["validate"], "error: no config is named; name one, such as trace-bench validate smoke.yaml"),
        (["run", "a.yaml", "-c", "b.yaml"], "error: two configs are given, a.yaml and --config b.yaml; give one"),
        (["run", "--nope"], "error: No such option: --nope"),
        (["run", "--config"], "error: Option '--config' requires an argument"),
        (["run", "--config", "x", "--max-workers", "x"], "error: --max-workers must be a whole number, not 'x'; see"),
        (["runn"], "error: No such command 'runn'; did you mean 'run'? See trace-bench --help"),
        (["show", "--stat", "ok"], "error: No such option: --stat; did you mean --status? See trace-bench show --help"),
        (["logs", "latest", "-n", "1.5"], "error: --lines must be a whole number, not '1.5'; see trace-bench logs"),
        (["show", ""], "error: the name of the run is empty; name a run by its folder, by its id in runs, or latest"),
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


def options_of(command: Any) -> list[str]:
    return [name for parameter in command.params for name in parameter.opts if name.startswith("--")]


def commands_of(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield (*words, name), command
        if hasattr(command, "list_commands"):
            yield from commands_of(command, (*words, name))


def test_a_misspelt_option_is_told_an_option_of_that_very_command() -> None:
    for words, command in commands_of(root_command()):
        own = options_of(command)
        for option in own:
            for wrong in {option[:-1], f"--{option[2:].replace('-', '_')}", option + "x", option[:3] + option[4:]}:
                if wrong in own or len(wrong) < 6:
                    continue
                told = re.search(r"did you mean (--[a-z-]+)\?", near_option(wrong, SimpleNamespace(command=command)))
                assert told and told[1] in own, (words, wrong)


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        ("run --confg x", "--config"),
        ("run --max-worker 3", "--max-workers"),
        ("run --workers 2", "--max-workers"),
        ("run --seed 3", "--seeds"),
        ("run --tasks x", "--task"),
        ("run --timeout 3", "--job-timeout"),
        ("results latest --group-by x", "--by"),
        ("trainer", "'trainers'"),
        ("rnu", "'run'"),
        ("images biuld", "'build'"),
    ],
)
def test_the_nearest_name_is_named_alone(arguments: str, near: str) -> None:
    said = here(*arguments.split()).stderr
    assert f"; did you mean {near}? See trace-bench" in said, said


@pytest.mark.parametrize("arguments", ["show latest --confidential", "run --zzzz", "qqqqq"])
def test_what_is_near_nothing_is_told_nothing(arguments: str) -> None:
    assert "did you mean" not in here(*arguments.split()).stderr


def test_options_before_the_command_are_told_their_place() -> None:
    assert "No such option: --config; options stand behind the command" in here("--config", "x", "run").stderr
