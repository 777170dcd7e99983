"""The reference pages of the suite say what its folders say."""

from __future__ import annotations

import json
import re

import pytest

from benchmarks.LLM4AD.pages import DOCS, PICTURES, judged_hash, measured_file, up_to_date
from benchmarks.LLM4AD.published import PAGE, REPORTED, with_table
from tests.suites.llm4ad.conftest import folders
from trace_bench.resources import data_dir
from trace_bench.suites.registry import discover

PAGES = data_dir("benchmarks").parent / DOCS


def test_every_page_is_what_its_folder_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PAGES.parents[2])
    wanted = up_to_date(discover(["llm4ad"]))
    there = {str(path.relative_to(PAGES)): path.read_text() for path in PAGES.rglob("*.md")}
    there[f"../{PAGE}"] = (PAGES.parent / PAGE).read_text()
    stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
    assert stale == [], "run python -m benchmarks.LLM4AD.pages --write"


def test_measured_numbers_are_of_the_programs_and_evaluators_that_are_there() -> None:
    measured = json.loads(measured_file().read_text())
    assert measured.keys() == folders().keys()
    stale = [task for task, folder in folders().items() if measured[task]["judged"] != judged_hash(folder)]
    assert stale == [], "measure them: trace-bench check-task … --json, then benchmarks.LLM4AD.pages --measured"


def test_a_template_takes_less_than_five_seconds_where_it_was_measured() -> None:
    for task, seen in json.loads(measured_file().read_text()).items():
        (template,) = [program for program in seen["programs"] if program["role"] == "template"]
        assert template["seconds"] < 5, task


def test_links_and_pictures_of_the_pages_are_there() -> None:
    used = set()
    for page in PAGES.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()):
            found = (page.parent / target).resolve()
            assert found.is_file(), f"{page.name}: {target}"
            used.add(found.name)
    assert {picture.name for picture in (PAGES / PICTURES).glob("*.svg")} <= used


def test_ten_tasks_stand_beside_what_papers_report() -> None:
    page = (PAGES.parent / PAGE).read_text()
    assert len(REPORTED) == 10 and REPORTED.keys() <= {task.partition(":")[2] for task in folders()}
    for name, (_, said) in REPORTED.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| [{name.rpartition('/')[2]}](")]
        assert row.endswith(f"| {said} |")
    assert with_table(page, "new") != page and "new" in with_table(page, "new")
    numbers = re.findall(r"\d+\.\d{2,}", " ".join(said for _, said in REPORTED.values()))
    above = page.partition("## FunSearch")[2] + "AlphaEvolve 2.635"
    assert [number for number in numbers if number not in above] == [], "the sections say where they are from"
