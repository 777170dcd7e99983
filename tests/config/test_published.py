"""Configs that repeat published settings say whose they are, and have the budget that they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trace_bench.config import load_config
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.matrix import Job, expand
from trace_bench.resources import data_dir

PUBLISHED = sorted(data_dir("configs").glob("published_*.yaml"))
PAGE = (data_dir("configs").parent / "docs" / "reference" / "published-results.md").read_text()
PROGRAMS = {
    "published_co_bench": 64,
    "published_funsearch": 1_000_000,
    "published_mcts_ahd": 1000,
    "published_mcts_ahd_admissible_set": 1000,
    "published_mcts_ahd_bin_packing": 2000,
    "published_reevo": 100,
}
"""How many programs a search may evaluate, as the papers say."""


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_a_published_config_says_whose_settings_it_repeats_and_which_it_does_not(path: Path) -> None:
    text = path.read_text()
    head = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    assert re.search(r"arXiv:\d{4}\.\d{5}|Nature \d+", head), "the paper"
    assert re.search(r"Tables? \d", head), "where in the paper"
    assert "Repeated: " in head and "Not repeated: " in head
    assert f"`configs/{path.name}`" in PAGE, "the page of published results names it"


def jobs_of(name: str) -> list[Job]:
    config = select(load_config(data_dir("configs") / f"{name}.yaml"))
    found = resolve(config)
    return expand(config, found.tasks, found.trainers)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_budget_is_the_start_and_the_number_of_programs_on_each_instance(name: str) -> None:
    budget = load_config(data_dir("configs") / f"{name}.yaml").budget.evaluations
    for job in jobs_of(name):
        judged = job.splits["validate"] or job.splits["train"]
        assert budget == (1 + PROGRAMS[name]) * judged, job.task_id
        steps = {key: value for key, value in job.params.items() if key == "num_steps"}
        assert all(value == 0 for value in steps.values()), "the budget alone ends the search"


def test_generations_of_eoh_ask_for_two_thousand_programs_after_the_initial_ones() -> None:
    (params,) = {tuple(sorted(job.params.items())) for job in jobs_of("published_eoh") if job.trainer_id == "EoH"}
    eoh = dict(params)
    assert (eoh["num_steps"] - 1) * eoh["population_size"] * len(eoh["operators"]) == 2000


def test_every_published_config_has_its_number_of_programs_checked() -> None:
    assert {path.stem for path in PUBLISHED} == {*PROGRAMS, "published_eoh"}
