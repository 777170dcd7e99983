"""What the documentation says of the program is so: names, values and extras are compared with the code."""

from __future__ import annotations

import re
import shlex
import tomllib
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from tests.console import here
from tests.integration.cli import REPOSITORY
from trace_bench.config.models import RunConfig
from trace_bench.suites.registry import discover, short_names, suite_names

DOCS = REPOSITORY / "docs"
PAGES = [
    REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", DOCS / "README.md",
    *sorted(page for folder in ("how-to", "reference", "tutorial", "design") for page in (DOCS / folder).glob("*.md")),
]  # fmt: skip
THEIRS = {"internal:sum_digits", "llm4ad:my_group/even_load", "llm4ad:x", "trace_examples:x", "terminal_bench:regex"}
"""Ids that a page makes itself, or that stand for any task."""
PLANNED = ("hf", "veribench", "terminal_bench", "rollouts")


@pytest.fixture(scope="module")
def tasks() -> set[str]:
    found = [entry.id for entry in discover(suite_names())]
    return {*found, *short_names(found), *THEIRS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_tasks_that_a_page_names_exist(page: Path, tasks: set[str]) -> None:
    suites = "|".join([*suite_names(), *PLANNED])
    for named in re.findall(rf"(?<![\w-])((?:{suites}):[a-z][a-z0-9_/]*+)(?![\w=*])", page.read_text()):
        folder = any(task.startswith(f"{named}/") for task in tasks)
        assert named.endswith((":all", "/")) or ":my_" in named or named in tasks or folder, named


def test_the_reference_of_the_config_lists_every_word_that_a_key_takes() -> None:
    page = (DOCS / "reference" / "config.md").read_text()
    top = page.split("\n## Top level\n")[1].split("\n## ")[0]
    rows = {row.split("`")[1]: row.split("|")[2] for row in top.splitlines() if row.startswith("| `")}
    chosen = {name: get_args(field.annotation) for name, field in RunConfig.model_fields.items()}
    words = {name: args for name, args in chosen.items() if args and all(isinstance(word, str) for word in args)}
    assert {"mode", "backend", "resume"} <= words.keys()
    for name, args in words.items():
        assert re.findall(r"`([^`]*)`", rows[name]) == list(args), name


def test_the_readme_lists_the_extras_that_install_something() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    section = (REPOSITORY / "README.md").read_text().split("\n## Extras\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)
    assert set(listed) == set(extras) and all(extras.values()), "each extra installs something, and is listed"
    (every,) = extras.pop("all-external")
    assert set(every.removeprefix("trace-bench[").rstrip("]").split(",")) == set(extras)


@cache
def options_of(*command: str) -> set[str]:
    """What ``trace-bench COMMAND --help`` names."""
    done = here(*command, "--help")
    assert done.returncode == 0, (command, done.stderr)
    return set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", done.stdout))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_that_a_page_shows_exist_with_their_options(page: Path) -> None:
    shown = re.findall(r"^ *\$ trace-bench (.*)$", page.read_text(), re.MULTILINE)
    groups = ("new", "llm", "images", "mirror", "data")
    for line in shown:
        words = shlex.split(line.partition("  #")[0])
        command = words[: 2 if words[0] in groups else 1]
        options = {word for word in words if re.match(r"--?[a-zA-Z]", word)}
        if command[0].startswith("-"):
            command = []
        assert options <= options_of(*command) | {"--version"}, (line, options - options_of(*command))


def test_links_of_the_readme_lead_somewhere() -> None:
    readme = REPOSITORY / "README.md"
    for target in re.findall(r"\]\(([^)\s#]+)", readme.read_text()):
        assert "://" in target or (REPOSITORY / target).exists(), target


FOR_USERS = [page for page in PAGES if page.parent in (REPOSITORY, DOCS, DOCS / "how-to", DOCS / "tutorial")]


@pytest.mark.parametrize("page", FOR_USERS, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_pages_for_users_are_in_plain_words(page: Path) -> None:
    assert not re.findall(r"(?i)\b(?:nobody|whoever|somebody|anybody|what became of)\b", page.read_text())
