"""``run`` from options alone: the same jobs as from the file that would say the same."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import assert_refused
from tests.console import here
from tests.integration.cli import Done
from trace_bench import api
from trace_bench.cli.options import seed_list
from trace_bench.config import load_config, parse_config
from trace_bench.config.models import BudgetConfig, RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.errors import ConfigError
from trace_bench.identity import config_hash
from trace_bench.matrix import expand
from trace_bench.planning.completion import complete_models

TASKS = ("internal:numeric_param", "llm4ad:circle_packing")
BOTH = ("-t", TASKS[0], "-t", TASKS[1])
LOCAL = ("--backend", "local")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "home"))


def said(*arguments: str) -> str:
    done = here(*arguments)
    assert_refused(done, 2)
    return done.stderr.removeprefix("error: ").rstrip("\n")


def planned(*arguments: str) -> dict[str, Any]:
    done: Done = here(*arguments, *LOCAL, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def written(name: str = "config.yaml", **config: Any) -> str:
    Path(name).write_text(yaml.safe_dump(config))
    return name


def identity(config: RunConfig) -> tuple[str, list[str]]:
    config = complete_models(select(config))
    resolved = resolve(config)
    hashes = {name: task.content_hash for name, task in resolved.tasks.items()}
    jobs = expand(config, resolved.tasks, resolved.trainers)
    return config_hash(config.to_snapshot(), hashes), [job.job_id for job in jobs]


# -------------------------------------------------------------------------------------------------- equal to a file


@pytest.mark.parametrize(
    ("options", "file"),
    [
        ({"task": [TASKS[0]]}, {"tasks": [TASKS[0]]}),
        (
            {"task": [*TASKS], "trainer": ["PrioritySearch", "NoOp"], "seeds": [1, 2], "param": ["num_steps=3"]},
            {"tasks": [*TASKS], "trainers": ["PrioritySearch", "NoOp"], "seeds": [1, 2],
             "trainer_kwargs": {"num_steps": 3}},
        ),
        (
            {"task": ["circle_packing"], "trainer": ["GEPA-Base"], "param": ["GEPA-Base.num_iters=2"]},
            {"tasks": [TASKS[1]], "trainers": [{"id": "GEPA-Base", "params": {"num_iters": 2}}]},
        ),
        ({"task": ["llm4ad:tag=routing"], "model": ["stub"]}, {"tasks": ["llm4ad:tag=routing"], "mode": "stub"}),
        (
            {"task": [TASKS[0]], "model": ["openai/gpt-4o-mini"]},
            {"tasks": [TASKS[0]], "mode": "real", "llm": {"model": "openai/gpt-4o-mini"}},
        ),
        (
            {"task": [TASKS[0]], "model": ["openai/gpt-4o-mini", "stub"]},
            {"tasks": [TASKS[0]], "mode": "real", "llms": ["openai/gpt-4o-mini", "stub"]},
        ),
    ],
)  # fmt: skip
def test_jobs_ids_and_hash_are_those_of_the_file(options: dict[str, Any], file: dict[str, Any]) -> None:
    assert identity(parse_config({}, options)) == identity(load_config(written(**file)))


def test_a_run_from_options_leaves_a_config_that_runs_again() -> None:
    done = here("run", *BOTH[:2], "-T", "NoOp", "-T", "BasicSearch", "-p", "num_steps=1", "--seeds", "1,2",
                "--run-id", "first", "-q", *LOCAL)  # fmt: skip
    assert done.returncode == 0 and "4 of 4 jobs ok" in done.stdout, done.stderr
    snapshot = Path("runs/first/meta/config.snapshot.yaml")
    assert yaml.safe_load(snapshot.read_text())["trainer_kwargs"] == {"num_steps": 1}
    plan = planned("run", str(snapshot))
    assert plan["continued"] and plan["counts"]["reuse"] == 4


def test_the_stub_answers_where_no_model_is_named_and_a_real_one_needs_nothing_but_its_name() -> None:
    assert {job["model"] for job in planned("run", *BOTH)["jobs"]} == {"stub"}
    jobs = planned("run", *BOTH, "-m", "ollama/tiny")["jobs"]
    assert {job["model"] for job in jobs} == {"tiny"} and len(jobs) == 2


def test_without_litellm_one_sentence_names_the_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trace_bench.planning.prices.has_litellm", lambda: False)
    done = here("run", *BOTH, "-m", "ollama/tiny", "-q", *LOCAL)
    assert_refused(done, 3)
    assert "litellm, which is not installed: pip install 'trace-bench[llm]'" in done.stderr
    assert not Path("runs").exists()


def test_a_number_of_seeds_counts_from_the_default_seed() -> None:
    assert seed_list("3") == [123, 124, 125] and seed_list("1,2,7") == [1, 2, 7] and seed_list("7,") == [7]
    assert [job["seed"] for job in planned("run", *BOTH[:2], "--seeds", "2")["jobs"]] == [123, 124]
    assert (
        planned("run", *BOTH[:2])["jobs"][0]["job_id"] == planned("run", *BOTH[:2], "--seeds", "1")["jobs"][0]["job_id"]
    )


# ------------------------------------------------------------------------------------------------------- with a file


def test_options_choose_among_what_a_file_says_and_add_to_it() -> None:
    file = written(
        tasks=[{"id": TASKS[0], "sandbox": {"memory": "1GiB"}}, TASKS[1]],
        trainers=[{"id": "PrioritySearch", "params": {"num_steps": 2}}, "NoOp"],
    )
    config = load_config(file, {"task": [TASKS[0]], "trainer": ["PrioritySearch", "BasicSearch"], "seeds": [7]})
    (task,) = config.tasks
    assert task.sandbox is not None and task.sandbox.memory == 1 << 30
    assert [dict(trainer.params_variants[0]) for trainer in config.trainers] == [{"num_steps": 2}, {}]
    assert config.seeds == (7,)


@pytest.mark.parametrize(
    ("in_the_file", "option"),
    [
        ("llm4ad:optimization/tsp_construct", "tsp_construct"),
        ("tsp_construct", "llm4ad:optimization/tsp_construct"),
        ("optimization/tsp_construct", "llm4ad:optimization/tsp_construct"),
    ],
)
def test_a_task_is_the_same_under_its_short_name(in_the_file: str, option: str) -> None:
    file = written(tasks=[{"id": in_the_file, "eval_kwargs": {"n_instance": 3}}, TASKS[0]])
    (task,) = select(load_config(file, {"task": [option]})).tasks
    assert (task.id, dict(task.eval_kwargs)) == ("llm4ad:optimization/tsp_construct", {"n_instance": 3})


def test_a_parameter_goes_over_what_the_file_says() -> None:
    variants = [{"num_steps": 1}, {"num_steps": 2}, {"num-steps": 2, "num_proposals": 3}]
    file = written(tasks=[TASKS[0]], trainers=[{"id": "PrioritySearch", "params_variants": variants}, "NoOp"])
    config = load_config(file, {"param": ["num_steps=5"]})
    assert [dict(v) for v in config.trainers[0].params_variants] == [{}, {"num_proposals": 3}]
    resolved = resolve(config)
    steps = [job.params.get("num_steps") for job in expand(config, resolved.tasks, resolved.trainers)]
    assert steps == [5, 5, None], "variants that the option makes equal are one"
    config = load_config(file, {"param": ["PrioritySearch.num_steps=5"]})
    assert [v["num_steps"] for v in config.trainers[0].params_variants] == [5, 5]


def test_a_parameter_that_the_file_sets_under_another_name_is_refused_and_not_dropped() -> None:
    file = written(tasks=[TASKS[0]], trainers=[{"id": "PrioritySearch", "params": {"ps_steps": 1}}])
    assert said("run", file, "-p", "num_steps=5", *LOCAL) == (
        f"option -p: num_steps is what {file}, line 6: trainers[0].params.ps_steps sets; write ps_steps in the option"
    )


def test_another_model_keeps_sampling_and_limits_and_drops_what_belongs_to_the_model() -> None:
    llm = {
        "model": "m",
        "provider": "openrouter",
        "id": "x",
        "max_tokens": 9,
        "temperature": 0.5,
        "prices": {"prompt": 1},
    }
    config = load_config(written(tasks=[TASKS[0]], mode="real", llm=llm), {"model": ["openai/gpt-4o-mini"]})
    assert config.llm is not None and (config.mode, config.llm.model) == ("real", "openai/gpt-4o-mini")
    assert (config.llm.max_tokens, config.llm.temperature) == (9, 0.5)
    assert config.llm.provider is config.llm.id is config.llm.prices is None
    stub = load_config("config.yaml", {"model": ["stub"]})
    assert (stub.mode, stub.llm) == ("stub", None)


# ---------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-t", "numeric_parm"], "-t: there is no task 'llm4ad:numeric_parm'; did you mean 'internal:numeric_param'?"),
        (["-t", "llm4ad:tag=routin"], "-t: 'llm4ad:tag=routin' fits no task; did you mean 'routing'?"),
        (["-t", "circle_packing", "-t", TASKS[1]], "-t: 'llm4ad:circle_packing' is given twice; give it once"),
        ([*BOTH, "-T", "Priority"], "-T: unknown trainer 'Priority'; did you mean 'PrioritySearch'?"),
        ([*BOTH, "-p", "num_stepz=3"], "-p: num_stepz: no trainer of this config takes 'num_stepz'; did you mean"),
        ([*BOTH, "-p", "num_steps=x"], "-p: num_steps must be a whole number, not 'x'"),
        ([*BOTH, "-p", "num_steps"], "-p: 'num_steps' is not a parameter; write KEY=VALUE, such as num_steps=3"),
        ([*BOTH, "-p", "num_steps=[1"], "-p: num_steps: '[1' is not valid YAML; put text in quotes"),
        ([*BOTH, "-p", "NoOp.x=1"], "-p: NoOp.x: no trainer of this run is called 'NoOp'; known are PrioritySearch"),
        ([*BOTH, "-p", "num_steps=sk-or-abcdefgh12345"], "-p: num_steps holds a secret; take it out"),
        ([*BOTH, "-m", "nonsense"], "-m: the provider of the model 'nonsense' is not known; write it as"),
        ([*BOTH, "-m", "scripted:nope.yaml"], "-m: the script nope.yaml does not exist; check its path"),
        ([*BOTH, "--seeds", "many"], "--seeds must be a number of seeds, such as 5, or seeds with commas"),
        ([*BOTH, "--seeds", "0"], "--seeds must be a number of seeds"),
        ([*BOTH, "--seeds", "1,1"], "--seeds: seeds[1] is the same seed as seeds[0]"),
        ([*BOTH, "--seeds", "99999999999"], "--seeds must be a number of seeds"),
        (["-T", "NoOp"], "nothing is named to run; name a config, or tasks with -t"),
        ([TASKS[0]], f"{TASKS[0]}: there is no such config; a task is named with -t: trace-bench run -t {TASKS[0]}"),
        (["smok.yaml"], "smok.yaml: does not exist, and no shipped config has this name; did you mean 'smoke.yaml'?"),
        (["smoke.yaml", "--config", "smoke.yaml"], "two configs are given, smoke.yaml and --config smoke.yaml"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_option_names_the_option(arguments: list[str], sentence: str) -> None:
    assert said("run", *arguments, *LOCAL).removeprefix("option ").startswith(sentence)
    assert list(Path().iterdir()) == []


def test_a_model_is_not_asked_in_a_replay() -> None:
    assert here("run", *BOTH[:2], "-T", "NoOp", "--run-id", "first", "-q", *LOCAL).returncode == 0
    assert said("run", "--replay", "first", "-m", "stub", *LOCAL).startswith(
        "option -m: 'stub' is not asked in mode replay"
    )


def test_a_value_is_read_as_yaml_reads_it() -> None:
    from trace_bench.config.reader import value_of

    texts = ("3", "0.5", "true", "no", "'3'", "[1, 2]", "{a: 1}", "", "a b")
    assert [value_of(text) for text in texts] == [3, 0.5, True, "no", "3", [1, 2], {"a": 1}, None, "a b"]
    with pytest.raises(ConfigError, match="is not valid YAML"):
        value_of("{")


# -------------------------------------------------------------------------------------------------------- positional


def test_a_config_is_found_by_its_name_with_or_without_the_option() -> None:
    ids = [[job["job_id"] for job in planned("run", *words)["jobs"]]
           for words in (["smoke.yaml"], ["smoke"], ["-c", "smoke.yaml"], ["configs/smoke.yaml"])]  # fmt: skip
    assert len(ids[0]) == 2 and all(other == ids[0] for other in ids)


@pytest.mark.parametrize("command", ["validate", "doctor"])
def test_other_commands_take_a_config_in_the_same_way(command: str) -> None:
    wrong = written(tasks=[])
    for words in ([wrong], ["--config", wrong]):
        done = here(command, *words)
        assert f"{wrong}, line 1: tasks is empty" in done.stdout + done.stderr, (done.stdout, done.stderr)


# ----------------------------------------------------------------------------------------------------------- budgets


def budget_of(text: str, **file: Any) -> dict[str, Any]:
    return parse_config({"tasks": [TASKS[0]], **file}, {"budget": text}).budget.model_dump(exclude_none=True)


def test_a_budget_is_what_the_file_would_say_and_leaves_that_of_the_run() -> None:
    assert budget_of("evaluations=200,calls=60,usd=1.5") == {"evaluations": 200, "calls": 60, "usd": 1.5, "run": {}}
    file = {"budget": {"calls": 5, "tokens": 7, "run": {"usd": 2}}}
    assert budget_of("calls=9", **file) == {"calls": 9, "run": {"usd": 2.0}}
    assert budget_of("none", **file) == {"run": {"usd": 2.0}}


def test_a_budget_from_python_leaves_that_of_the_run_too() -> None:
    config = {"tasks": [TASKS[0]], "budget": {"calls": 5, "run": {"usd": 2}}}
    for given in ("calls=9", BudgetConfig(calls=9)):
        for whole in (config, parse_config(config, {})):
            found = api._loaded(whole, given).budget
            assert found.model_dump(exclude_none=True) == {"calls": 9, "run": {"usd": 2.0}}
    with pytest.raises(ConfigError, match=r"its run limits the whole run; write that into the config \(budget.run\)"):
        api._loaded(config, BudgetConfig.model_validate({"run": {"usd": 1}}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "60",
            "option --budget: '60' is not a limit; write one of calls, tokens, usd, seconds, evaluations with a number",
        ),
        ("evals=3", "option --budget: 'evals=3' is not a limit; "),
        ("calls=many", "option --budget: budget.calls must be a whole number"),
        ("calls=-1", "option --budget: budget.calls"),
        ("calls=[", "option --budget: calls: "),
        ("", "option --budget: '' is not a limit; "),
        ("calls=", "option --budget: calls has no number; write one, or leave it out"),
        ("calls=60,usd=1,calls=70", "option --budget: calls is given twice; give it once"),
    ],
)
def test_what_is_no_budget_is_refused(text: str, says: str) -> None:
    assert said("run", "-t", TASKS[0], "--budget", text).startswith(says)


def test_dollars_alone_end_no_search_whose_model_costs_nothing() -> None:
    command = ("run", "-t", TASKS[0], "-T", "PrioritySearch", *LOCAL, "--dry-run", "--budget")
    assert "calls of stub cost nothing, so that PrioritySearch would never end; add a budget of calls" in said(
        *command, "usd=1"
    )
    assert here(*command, "usd=1,seconds=9").returncode == here(*command, "none").returncode == 0


def test_several_searches_get_a_budget_that_is_printed() -> None:
    trainers = ("-T", "NoOp", "-T", "EoH", "-T", "PrioritySearch")
    done = here("run", "-t", TASKS[1], *trainers, *LOCAL, "--dry-run")
    assert done.returncode == 0
    assert "budget: calls=60 for each job, as several trainers are compared and none is given; --budget " in done.stderr
    assert "room for 60 proposals" in done.stdout
    for others in (("--budget", "none"), ("--budget", "calls=9"), ("--trainer", "NoOp")):
        chosen = trainers[:4] if others[0] == "--trainer" else trainers
        again = here("run", "-t", TASKS[1], *chosen, *(others if others[0] == "--budget" else ()), *LOCAL, "--dry-run")
        assert "as several trainers are compared" not in again.stderr
    config = written(tasks=[TASKS[1]], trainers=["EoH", "PrioritySearch"])
    done = here("run", config, *LOCAL, "--dry-run")
    assert "budget: no budget limits what a job spends, so that EoH and PrioritySearch" in done.stderr


def test_a_plan_for_programs_has_what_searches_cost() -> None:
    plan = planned("run", "-t", TASKS[1], "-T", "EoH", "--budget", "evaluations=2")
    assert plan["notes"] == [
        "EoH on llm4ad:circle_packing: evaluations=2 has room for 1 proposal after the start, and evaluations=4 for 3"
    ]
    (search,) = plan["searches"]
    assert search["proposal"] == {"evaluations": 1, "calls": 1} and search["room_for"] == 1


def test_tables_say_who_spent_more_and_who_had_no_room(tmp_path: Path) -> None:
    run = ("run", "-t", TASKS[0], "-T", "PrioritySearch", "-T", "BestOfN", *LOCAL, "--quiet")
    apart = here(*run, "--budget", "none", "--run-id", "apart", "-p", "PrioritySearch.num_steps=1")
    assert apart.returncode == 0
    sentence = re.search(
        r"^BestOfN asked the model \d+ times a job, PrioritySearch asked \d+ times: set --budget .*$",
        apart.stdout,
        re.M,
    )
    assert sentence
    for command in (("show",), ("results",), ("compare", "--by", "trainer")):
        told = here(command[0], "apart", *command[1:])
        assert sentence[0].rstrip(".") in " ".join(told.stdout.split()), command
    done = here("report", "apart", "-o", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "page.html").read_text().partition("<p class=outcome>")[2].partition("</p>")[0]
    assert sentence[0] in html.unescape(first)
    small = here(*run, "--budget", "evaluations=2", "--run-id", "small")
    assert "2 jobs judged no proposal before their budget ended" in small.stdout
    assert "2 jobs judged no proposal" in here("results", "small").stdout
