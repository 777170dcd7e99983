"""Each row of the tables for users of the Trace-Bench prototype is as it says: taken, or refused with the remedy."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.console import here
from tests.integration.cli import REPOSITORY
from trace_bench.artifacts.records import OTHER_NAMES as SCORE_NAMES
from trace_bench.config.loader import parse_config
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.errors import ConfigError
from trace_bench.matrix import Job, expand
from trace_bench.records.rows import FIELDS
from trace_bench.suites.former import OTHER_NAMES, remedies
from trace_bench.suites.terminal_bench import host
from trace_bench.trainers.names import REMEDIES

PAGE = REPOSITORY / "docs" / "how-to" / "coming-from-the-prototype.md"


def rows(heading: str) -> list[tuple[str, ...]]:
    """The cells of the table below `heading`."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]


def written(cell: str) -> Any:
    return yaml.safe_load(cell.strip("` "))


def planned(data: dict[str, Any]) -> tuple[RunConfig, Job]:
    config = select(parse_config(data))
    found = resolve(config)
    (job,) = expand(config, found.tasks, found.trainers)
    return config, job


def refusal(data: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        planned(data)
    return str(caught.value)


@pytest.mark.parametrize(("task", "given", "here"), rows("Arguments of tasks"))
def test_each_argument_of_a_task_is_taken_or_refused_with_the_remedy(task: str, given: str, here: str) -> None:
    entry = {"id": task.strip("`"), "eval_kwargs": written(given)}
    data = {"tasks": [entry], "trainers": ["NoOp"]}
    ((key, value),) = entry["eval_kwargs"].items()
    if here.startswith("refused: "):
        said = refusal(data)
        assert here.removeprefix("refused: ") in said and key in said
        if "secret" not in said:  # and at the top level
            assert here.removeprefix("refused: ") in refusal(
                {"tasks": [entry["id"]], "trainers": ["NoOp"], "eval_kwargs": entry["eval_kwargs"]}
            )
        return
    assert here.startswith("taken")
    config, job = planned(data)
    other = re.match(r"taken as `([^`]*)`", here)
    if other is None:
        assert job.eval_kwargs[key] == value and not config.warnings
    elif other[1].startswith("["):
        assert list(job.eval_kwargs[key]) == written(other[1])
        assert job.job_id == planned({**data, "tasks": [{**entry, "eval_kwargs": {key: written(other[1])}}]})[1].job_id
    else:
        assert job.eval_kwargs[other[1]] == value and key not in job.eval_kwargs
        assert job.job_id == planned({**data, "tasks": [{**entry, "eval_kwargs": {other[1]: value}}]})[1].job_id


@pytest.mark.parametrize(("trainer", "given", "here"), rows("Parameters of trainers"))
def test_each_parameter_of_a_trainer_is_taken_or_refused_with_the_remedy(trainer: str, given: str, here: str) -> None:
    task = "hf:hotpot_qa" if "DSPy" in trainer else "internal:numeric_param"
    variant = written(given)
    data = {"tasks": [task], "trainers": [{"id": trainer.strip("`"), "params_variants": [variant]}]}
    if here.startswith("refused: "):
        said = refusal(data)
        assert here.removeprefix("refused: ") in said and all(key in said for key in variant)
        return
    config, job = planned(data)
    assert bool(config.warnings) == (here == "left out with a warning")
    assert job.trainer_id == ("DSPyTrainer" if "DSPy" in trainer else trainer.strip("`"))


@pytest.mark.parametrize(("given", "here"), rows("Keys of the config"))
def test_each_other_key_is_refused_with_the_remedy(given: str, here: str) -> None:
    said = refusal({"mode": "real", "tasks": ["internal:numeric_param"], "trainers": ["NoOp"], **written(given)})
    assert here.startswith("refused: ") and here.removeprefix("refused: ") in said


def test_the_page_lists_every_second_name_and_every_remedy_of_tasks() -> None:
    page = {key for _, given, _ in rows("Arguments of tasks") for key in written(given)}
    beside = ["n_items", "max_demand", "n_subsets", "problem_size", "n_partitions"]
    assert page >= {name for names in OTHER_NAMES.values() for name in names} | remedies(beside).keys()


def test_a_remedy_is_for_tasks_that_it_is_true_of() -> None:
    said = refusal({"tasks": [{"id": "internal:numeric_param", "eval_kwargs": {"n_obj": 3}}], "trainers": ["NoOp"]})
    assert "takes no 'n_obj'" in said and "three objectives" not in said


@pytest.mark.parametrize("key", sorted(REMEDIES))
def test_every_remedy_of_a_trainer_is_one_clause(key: str) -> None:
    said = refusal({"tasks": ["internal:numeric_param"], "trainers": [{"id": "NoOp", "params_variants": [{key: "x"}]}]})
    assert said.endswith(f"trainer 'NoOp' takes no {key!r}; {REMEDIES[key]}") or "holds a secret" in said


def test_variables_for_harbor_come_from_the_config_and_from_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYTONA_API_KEY", "of this machine")
    given = ["HARBOR_LOG=debug", 'VERSION="3"', "COUNT=3", "DAYTONA_API_KEY"]
    assert host._variables(given) == {
        "HARBOR_LOG": "debug", "VERSION": "3", "COUNT": "3", "DAYTONA_API_KEY": "of this machine",
    }  # fmt: skip


@pytest.mark.parametrize("value", [["DAYTONA_API_KEY=dtn_123"], {"MY_TOKEN": "abc"}, ["my_password=x"]])
def test_no_variable_for_harbor_holds_a_secret(value: Any) -> None:
    said = refusal(
        {"tasks": [{"id": "terminal_bench:x", "eval_kwargs": {"harbor_extra_env": value}}], "trainers": ["NoOp"]}
    )
    assert "harbor_extra_env: [NAME]" in said and "dtn_123" not in said and "abc" not in said


@pytest.mark.parametrize("name", ["WandbLogger", "TensorBoardLogger", "consolelogger"])
def test_a_logger_that_does_not_exist_is_the_default_with_a_warning(name: str, tmp_path: Path) -> None:
    data = {"tasks": ["a"], "trainers": [{"id": "NoOp", "logger": name, "logger_kwargs": {"project": "p"}}]}
    config = parse_config(data)
    assert config.trainers[0].logger == "default" and not config.trainers[0].logger_kwargs
    (warning,) = config.warnings
    assert f"trainers[0].logger: there is no logger {name!r} here" in warning
    assert "known are default, none, ConsoleLogger" in warning
    assert ("a service on the network" in warning) == (name == "WandbLogger")


def test_a_logger_that_an_option_names_is_warned_of_with_the_option() -> None:
    config = parse_config({"tasks": ["a"], "trainers": ["NoOp", "PrioritySearch"]}, {"logger": "WandbLogger"})
    assert [entry.logger for entry in config.trainers] == ["default", "default"]
    (warning,) = config.warnings
    assert warning.startswith("option --logger: logger: there is no logger 'WandbLogger' here")


@pytest.mark.parametrize(("command", "here_"), rows("Commands"))
def test_each_command_is_taken_or_refused_with_the_remedy(
    command: str, here_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, name, *words = shlex.split(command.strip("`"))
    assert program == "trace-bench"
    words = [str(REPOSITORY / word) if word.startswith("benchmarks/") else word for word in words]
    monkeypatch.chdir(tmp_path)
    if name == "validate":  # builds in a sandbox; a config without a task of the suite builds nothing
        words[words.index("internal")] = "veribench"
    if name == "run":
        words += ["--backend", "local", "--dry-run"]
    done = here(name, *words)
    if here_.startswith("refused: "):
        assert done.returncode == 2 and here_.removeprefix("refused: ") in done.stderr
        return
    assert here_.startswith("taken")
    if "--resume" in words:
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "resume is failed, but no run of this config" in done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_each_column_of_the_prototype_is_there_or_has_its_place_named() -> None:
    columns = {*FIELDS, *SCORE_NAMES}
    listed = rows("Columns of results.csv")
    assert sum(len(re.findall(r"`\w+`", names)) for names, _ in listed) == 33, "all of the prototype's columns"
    for names, here_ in listed:
        for name in re.findall(r"`(\w+)`", names):
            assert (name in columns) != here_.startswith("not there: "), name
