"""The documentation does what it says: its commands run, its links lead somewhere, its options exist."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from tests.console import here
from tests.integration.cli import REPOSITORY, Done, cli
from trace_bench.cli.app import OLDER_OPTIONS

DOCS = REPOSITORY / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "CHANGELOG.md"]
COMMANDS = (
    "run", "validate", "tasks", "trainers", "schema", "doctor", "clean", "check-task", "evaluate", "kernel-server",
    "new config", "new task", "new trainer",
    "ls", "show", "logs", "ps", "attach", "cancel", "llm ls", "llm show", "llm cache",
    "reproduce", "results", "export", "import", "rebuild", "diff", "rm", "gc", "data fetch",
    "report", "compare", "audit", "mirror mlflow", "mirror tensorboard",
)  # fmt: skip
CHEAP = ("--version", "tasks", "trainers", "schema")


def commands_of(page: str) -> list[list[str]]:
    """The arguments of every ``$ trace-bench …`` of the page's console blocks."""
    blocks = re.findall(r"^```console\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[2:] for line in lines if line.startswith("$ trace-bench ")]


def write_files_of(page: str, folder: Path) -> list[str]:
    """Write what the page shows as a file: a code block under a paragraph that begins with a name in backquotes."""
    paragraph = r"^`([\w./-]+\.\w+)`(?:[^\n]|\n(?!\n))*\n\n"
    shown = re.findall(paragraph + r"```(?!console)\w+\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    for name, text in shown:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [name for name, _ in shown]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        assert found.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", found.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}, target


@pytest.mark.parametrize("page", ["files", "config", "cli", "events", "trainers", "gateway-api"])
def test_no_table_of_the_reference_says_one_thing_twice(page: str) -> None:
    tables = re.findall(r"(?:^\|.*\n)+", (DOCS / "reference" / f"{page}.md").read_text(), re.MULTILINE)
    assert tables
    for table in tables:
        rows = [re.split(r"(?<!\\)\|", line)[1:3] for line in table.splitlines()[2:]]
        assert not [row for row in rows if rows.count(row) > 1]


def test_the_index_knows_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#\s]+)", (DOCS / "README.md").read_text()))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}
    pages = {page for page in pages if not page.startswith("reference/tasks/") or page.endswith("/llm4ad.md")}
    pages = {page for page in pages if not page.startswith("examples/") or page.endswith("/README.md")}
    assert pages == linked


@cache
def help_of(command: str) -> str:
    return here(*command.split(), "--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_reference(command: str) -> None:
    text = (DOCS / "reference" / "cli.md").read_text()
    for option in set(re.findall(r"--[a-z][a-z-]+", help_of(command))) - {"--help"}:
        assert f"`{option}" in text, f"{command} {option}"


def test_the_reference_names_no_option_that_is_not_there() -> None:
    known = {option for command in COMMANDS for option in re.findall(r"--[a-z-]+", help_of(command))}
    known |= {
        "--base",
        "--opentrace",
        "--toolchain",
        "--checksum",
        "--registry",
        "--python",
        "--install-completion",
        "--show-completion",
        *OLDER_OPTIONS,
    }
    for option in re.findall(r"--[a-z][a-z-]+", (DOCS / "reference" / "cli.md").read_text()):
        assert option in known, option


def test_the_cheap_commands_of_the_tutorial_run(tmp_path: Path) -> None:
    commands = [command for command in commands_of("tutorial/first-run.md") if command[0] in CHEAP]
    assert len(commands) == 4
    for command in commands:
        done = cli(*command, cwd=tmp_path)
        assert done.returncode == 0 and done.stdout, command


@pytest.mark.docker
def test_the_tutorial_runs_from_end_to_end(tmp_path: Path, home: Path) -> None:
    ran: list[Done] = []
    for command in commands_of("tutorial/first-run.md"):
        ran.append(cli(*command, cwd=tmp_path, home=home, timeout=900))
        assert ran[-1].returncode == 0, (command, ran[-1].stderr)
    runs = [done for done in ran if "2 of 2 jobs ok" in done.stdout]
    assert len(runs) == 2 and runs[1].stderr.count("reused") == 2
    page = (DOCS / "tutorial" / "first-run.md").read_text()
    for name in re.findall(r"`((?:jobs|meta)/[^`]+|[a-z_]+\.csv)`", page):
        assert (tmp_path / "runs" / "first" / name).is_file(), name
    (line,) = [line for line in page.splitlines() if line.startswith("    ok     ")]
    scores = re.search(r"\S+ -> \S+", line)
    assert line.split()[1] in runs[0].stderr and scores and scores[0] in runs[0].stderr


def test_the_task_of_the_how_to_works(tmp_path: Path) -> None:
    names = write_files_of("how-to/write-an-evaluator.md", tmp_path)
    assert len(names) == 5
    new, check = commands_of("how-to/add-a-task.md")
    listed, run = commands_of("how-to/write-an-evaluator.md")
    assert (new[0], check[0], check[-1]) == ("new", "check-task", f"llm4ad:{new[2]}")
    assert cli(*new, cwd=tmp_path).returncode == 0
    assert check[-1] in cli("list-tasks", *check[1:-1], cwd=tmp_path).stdout.split()
    assert "internal:sum_digits" in cli(*listed, cwd=tmp_path).stdout.split()
    done = cli(*run, "--backend", "local", cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("internal:sum_digits")]
    assert len(rows) == 2 and "PrioritySearch" in rows[0], "the search finds the right program"


@pytest.mark.slow
def test_the_config_of_the_how_to_runs_and_continues(tmp_path: Path) -> None:
    assert write_files_of("how-to/run-a-config.md", tmp_path) == ["compare.yaml"]
    options, first, again, local = commands_of("how-to/run-a-config.md")
    done = cli(*options, "--backend", "local", cwd=tmp_path)
    assert done.returncode == 0 and "4 of 4 jobs ok" in done.stdout, done.stderr
    assert first == again and local[-2:] == ["--backend", "local"]
    done = cli(*local, cwd=tmp_path)
    assert done.returncode == 0 and "12 of 12 jobs ok" in done.stdout, done.stderr
    assert cli(*local, cwd=tmp_path).stderr.count("reused") == 12
