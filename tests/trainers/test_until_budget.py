"""A search without a bound goes on until its budget ends, or until it spends nothing any more."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.artifacts.samples import ENTRY
from tests.searches import SEARCHES, endless, only_programs
from tests.trainers.memory_context import MemoryContext, greeting, numeric, suggest
from tests.trainers.program_search import constant, program
from trace_bench.artifacts.records import ManifestEntry
from trace_bench.config.loader import load_config, parse_config
from trace_bench.config.resolve import resolve
from trace_bench.errors import ConfigError
from trace_bench.matrix import expand
from trace_bench.planning.recording import recorded_defaults
from trace_bench.trainers.base import Budget, Slot
from trace_bench.trainers.priority_search import PrioritySearch
from trace_bench.worker.problem import Problem
from trace_bench.worker.stall import MOST_CALLS, MOST_REQUESTS

ALLOWED = 300


def params_of(name: str, **config: Any) -> dict[str, Any]:
    """The parameters that a config with one trainer, and nothing about it, gives to the job."""
    loaded = parse_config({"tasks": ["internal:numeric_param"], "trainers": [name], **config})
    found = resolve(loaded)
    (job,) = expand(loaded, found.tasks, found.trainers)
    return dict(job.params)


def inventive(messages: Any, slot: Slot, variables: Any) -> str:
    """A model that has something new to say at each place of a search."""
    number = random.Random(str(slot)).uniform(-9.0, 9.0)
    return suggest(**{v["name"]: number if v["kind"] == "float" else program(number) for v in variables})


def repeating(messages: Any, slot: Slot, variables: Any) -> str:
    """A model that says what it has said before."""
    return suggest(**{v["name"]: 1.0 if v["kind"] == "float" else program(1.0) for v in variables})


def problem_of(name: str) -> Problem:
    """Four training and three validation examples, for the search `name`."""
    if only_programs(name):
        return constant([3.0] * 4, [3.0] * 3)
    return numeric(train=4, validate=3, score_range=(-13.0, 0.0))


@pytest.mark.parametrize("name", SEARCHES)
def test_a_budget_and_no_bound_let_a_search_use_its_evaluations(context: Any, name: str) -> None:
    params = params_of(name, budget={"evaluations": ALLOWED})
    memory: MemoryContext = context(problem_of(name), inventive, budget=Budget(evaluations=ALLOWED))
    memory.search(SEARCHES[name], **params)
    assert memory.stop_reason == "budget" and 0.9 * ALLOWED <= memory.evaluations <= ALLOWED


@pytest.mark.parametrize("name", [name for name, trainer in SEARCHES.items() if trainer.uses_llm])
def test_a_search_that_finds_nothing_new_ends_by_itself(context: Any, name: str) -> None:
    memory: MemoryContext = context(problem_of(name), repeating, budget=Budget(evaluations=10_000))
    final = memory.search(SEARCHES[name], **params_of(name, budget={"evaluations": 10_000}))
    (stalled,) = memory.told("search.stalled")
    assert memory.stop_reason == "completed" and final == memory.best_state
    assert stalled["calls"] >= MOST_CALLS or stalled["requests"] >= MOST_REQUESTS
    assert memory.evaluations <= 4 * 4 + 3 * 4, "of a few states only"


def test_a_search_that_has_nothing_to_gain_and_asks_no_model_ends_by_itself(context: Any) -> None:
    memory = context(numeric(start=3.0, score_range=(-13.0, 0.0)), inventive, budget=Budget(calls=10))
    memory.search(SEARCHES["GEPA-Base"], **endless("GEPA-Base"))
    assert memory.told("search.stalled") == [{"calls": 0, "requests": MOST_REQUESTS}] and memory.calls == []


@pytest.mark.slow
def test_a_stalled_search_with_an_agent_ends_as_well(context: Any) -> None:
    memory = context(greeting(), lambda *_: "nothing that can be used", budget=Budget(evaluations=1000))
    memory.search(PrioritySearch, **endless("PrioritySearch"))
    assert memory.stop_reason == "completed" and memory.told("search.stalled")
    assert (memory.evaluations, len(memory.calls)) == (2, MOST_CALLS)


def test_where_a_search_stalls_does_not_depend_on_threads(context: Any) -> None:
    found = []
    for threads in (1, 3):
        memory = context(numeric(train=2), repeating, budget=Budget(evaluations=1000))
        memory.search(PrioritySearch, **endless("PrioritySearch"), num_threads=threads)
        found.append((len(memory.calls), memory.evaluations, memory.saved, memory.events))
    assert found[0] == found[1] and found[0][0] >= MOST_CALLS


def test_a_number_of_steps_is_kept_whatever_the_budget_and_never_stalls(context: Any) -> None:
    steps = MOST_CALLS + 50
    memory = context(numeric(), repeating, budget=Budget(evaluations=1000))
    memory.search(PrioritySearch, num_steps=steps, num_candidates=1, num_proposals=1)
    assert len(memory.calls) == steps and memory.told("search.stalled") == []


@pytest.mark.parametrize("name", SEARCHES)
def test_each_search_has_a_bound_with_a_default(name: str) -> None:
    bounds = endless(name)
    assert bounds and {k: v for k, v in params_of(name).items() if k in bounds} != bounds


@pytest.mark.parametrize(
    ("budget", "num_steps"),
    [
        ({}, 5),
        ({"evaluations": 10}, 0),
        ({"calls": 10}, 0),
        ({"tokens": 10}, 0),
        ({"usd": 1.0}, 0),
        ({"seconds": 9.0}, 0),
        # Jobs take what they need of a run's budget, in order: the first one would take all of it.
        ({"run": {"calls": 10}}, 5),
    ],
)
def test_a_budget_of_the_job_takes_the_place_of_a_bound_that_is_not_given(budget: Any, num_steps: int) -> None:
    assert params_of("PrioritySearch", budget=budget)["num_steps"] == num_steps


@pytest.mark.parametrize(
    ("layer", "given"),
    [
        ("variant", {"num_steps": 5}),
        ("variant", {"num_epochs": 1}),
        ("entry", {"ps_steps": 5}),
        ("all", {"num_steps": 5}),
    ],
)
def test_a_bound_that_is_given_anywhere_holds(given: dict[str, int], layer: str) -> None:
    entry: dict[str, Any] = {"id": "PrioritySearch"}
    config: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": [entry], "budget": {"calls": 3}}
    if layer == "variant":
        entry["params_variants"] = [given]
    elif layer == "entry":
        entry.update(given)
    else:
        config["trainer_kwargs"] = given
    loaded = parse_config(config)
    found = resolve(loaded)
    (job,) = expand(loaded, found.tasks, found.trainers)
    assert job.params["num_steps"] == 5


@pytest.mark.parametrize(
    ("trainers", "line", "key"),
    [
        ("trainers:\n  - id: PrioritySearch\n    params_variants:\n      - {num_steps: 0}\n", 5, "num_steps"),
        ("trainers:\n  - id: GEPA-Base\n    gepa_iters: 0\n", 4, "num_iters"),
        ("trainer_kwargs: {num_steps: 0}\ntrainers: [PrioritySearch]\n", 2, "num_steps"),
    ],
)
def test_without_a_budget_it_is_refused_with_the_line_and_what_to_do(
    tmp_path: Path, trainers: str, line: int, key: str
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("tasks: ['internal:numeric_param']\n" + trainers)
    config = load_config(path)
    found_error = None
    try:
        found = resolve(config)
        expand(config, found.tasks, found.trainers)
    except ConfigError as error:
        found_error = str(error)
    assert found_error is not None and found_error.count("\n") == 0
    assert f"line {line}" in found_error and f"{key} is 0" in found_error and "set budget.evaluations" in found_error
    path.write_text(path.read_text() + "budget: {run: {calls: 5}}\n")
    config = load_config(path)
    found = resolve(config)
    assert expand(config, found.tasks, found.trainers)


@pytest.mark.parametrize(
    ("recorded", "taken"),
    [
        ({"num_steps": 5}, {"num_steps": 5}),
        ({"num_steps": 0}, {"num_steps": 0}),
        ({"num_steps": 6}, {"num_steps": 0}),  # which never was the default
        ({"num_steps": 5.0}, {"num_steps": 0}),
        ({"num_proposals": 7}, {"num_proposals": 7}),  # which was
        ({"num_proposals": 8}, {"num_proposals": 2}),
        ({"no_such_parameter": 1}, {}),
    ],
)
def test_a_run_of_an_earlier_version_has_the_defaults_that_there_were(
    recorded: dict[str, Any], taken: dict[str, Any]
) -> None:
    loaded = parse_config({
        "tasks": ["internal:numeric_param"], "trainers": ["PrioritySearch"], "budget": {"evaluations": 9},
    }).with_recorded_defaults({"PrioritySearch": recorded})  # fmt: skip
    changed = tuple(replace(p, formerly=(7,)) if p.name == "num_proposals" else p for p in PrioritySearch.params)
    trainers = {"PrioritySearch": type("Changed", (PrioritySearch,), {"params": changed})}
    (job,) = expand(loaded, resolve(loaded).tasks, trainers)
    assert {name: job.params[name] for name in taken} == taken


def test_defaults_of_a_run_are_what_no_variant_gave() -> None:
    def entry(raw: dict[str, Any], **resolved: Any) -> ManifestEntry:
        return ManifestEntry.model_validate({**ENTRY, "trainer_id": "T", "raw_params": raw,
                                             "resolved_trainer_kwargs": resolved})  # fmt: skip

    jobs = [entry({}, a=1, b=2, c=[]), entry({"a": 7}, a=7, b=2, c=[]), entry({}, a=1, b=3, c=[])]
    assert recorded_defaults(jobs) == {"T": {"a": 1, "c": []}}
