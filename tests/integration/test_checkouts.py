"""Foreign folders as they are published: checkouts that two variables name, against what the how-to says of them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY, cli
from trace_bench.suites import foreign
from trace_bench.suites.registry import discover
from trace_bench.suites.spec import load_task_spec

PAGE = (REPOSITORY / "docs" / "how-to" / "foreign-tasks.md").read_text()
SECTION = PAGE.partition("## The 65 folders of doxav/Trace-Bench\n")[2].partition("\n## ")[0]
COUNTS = re.compile(
    r"Of the (\d+) folders of its `LLM4AD/benchmark_tasks` (\d+) build and (\d+) of their templates score"
)
OF_CO_BENCH = 35
"""Folders that lack their data."""


def checkout(variable: str, folder: str) -> Path:
    """The folder that `variable` names, the `folder` of a checkout. The test is skipped where it names none."""
    named = os.environ.get(variable)
    if not named:
        pytest.skip(f"{variable} is not set: it names the folder {folder}, in a checkout")
    return Path(named).resolve()


@pytest.fixture
def incumbent() -> Path:
    return checkout("TRACE_BENCH_INCUMBENT_ROOT", "LLM4AD/benchmark_tasks of doxav/Trace-Bench")


@pytest.fixture
def llm4ad() -> Path:
    return checkout("TRACE_BENCH_LLM4AD_ROOT", "llm4ad/task of Optima-CityU/LLM4AD")


def described(suite: str, root: Path) -> int:
    """The number of foreign folders of `root`, each of which is described from its source."""
    entries = [entry for entry in discover([suite], [root]) if entry.folder.resolve().is_relative_to(root)]
    for entry in entries:
        assert foreign.module_of(entry.folder) is not None
        assert load_task_spec(entry.folder).title
    return len(entries)


def excepted() -> set[str]:
    """The folders that the page lists as not scoring, by the ends of their ids."""
    _, others, *rows = re.findall(r"^\| (.+?) \| .+? \|$", SECTION, re.MULTILINE)
    assert others == f"{OF_CO_BENCH} of `optimization/co_bench`"
    return {row.strip("`") for row in rows}


def test_the_page_says_how_many_folders_score() -> None:
    found = COUNTS.search(SECTION)
    assert found is not None
    total, built, scored = map(int, found.groups())
    builds = len(re.findall(r"^\| .+? \| builds; .+? \|$", SECTION, re.MULTILINE))
    assert len(excepted()) == total - OF_CO_BENCH - built + builds
    assert scored == built - builds


def test_all_folders_are_found_and_described(incumbent: Path) -> None:
    found = COUNTS.search(SECTION)
    assert found is not None
    assert described("llm4ad", incumbent) == int(found[1])


def test_all_folders_of_llm4ad_are_found_and_described(llm4ad: Path) -> None:
    found = re.search(r"Of LLM4AD's own folders .* all (\d+) are found", SECTION)
    assert found is not None
    assert described("llm4ad_pkg", llm4ad) == int(found[1])


@pytest.mark.docker
@pytest.mark.slow
def test_as_many_folders_build_and_score_as_the_page_says(incumbent: Path, images: Path) -> None:
    done = cli("check-task", "llm4ad:all", "--root", str(incumbent), "--json", home=images, timeout=3600)
    tasks: list[dict[str, Any]] = json.loads(done.stdout)["tasks"]
    counts = COUNTS.search(SECTION)
    assert counts is not None
    built = [task for task in tasks if task["programs"]]
    scored = [task for task in built if not task["problems"]]
    assert [str(len(found)) for found in (tasks, built, scored)] == list(counts.groups())
    failed = {task["id"].removeprefix("llm4ad:") for task in tasks if task["problems"]}
    rest = {id for id in failed if not any(id.endswith(name) for name in excepted())}
    assert len(rest) == OF_CO_BENCH and all(id.startswith("optimization/co_bench/") for id in rest)
