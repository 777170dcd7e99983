"""list-tasks, list-trainers, schema: what there is, one a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import NO_ENGINE, refused
from tests.console import here
from tests.integration.cli import REPOSITORY, TASKS, cli


def test_all_tasks_are_listed_one_a_line() -> None:
    done = cli("list-tasks")
    ids = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert len(ids) == 168 and ids == sorted(ids) and all(id_.count(":") == 1 for id_ in ids)


@pytest.mark.parametrize("separator", [",", "+", ", "])
def test_suites_are_joined_by_commas_or_plus_signs(separator: str) -> None:
    done = cli("list-tasks", "--bench", f"llm4ad{separator}trace_examples")
    assert {line.partition(":")[0] for line in done.stdout.splitlines()} == {"llm4ad", "trace_examples"}


def test_an_unknown_suite_lists_the_known_ones() -> None:
    said = refused("list-tasks", "--bench", "internal,nope")
    assert "no suite nope" in said and "internal, kernelbench, llm4ad" in said


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_known_suite_without_tasks_lists_nothing_and_says_so_apart(form: list[str]) -> None:
    done = cli("list-tasks", "--bench", "rollouts", *form)
    assert done.returncode == 0 and done.stdout == ("[]\n" if form else "")
    assert done.stderr == "note: suite rollouts has no tasks here\n"


def test_tasks_as_json() -> None:
    rows = json.loads(cli("list-tasks", "--json").stdout)
    assert len(rows) == 168 and all(Path(row["folder"], "task.toml").is_file() for row in rows)


def test_a_further_root_adds_its_tasks() -> None:
    done = cli("list-tasks", "--root", str(TASKS), "--bench", "internal")
    assert {"internal:probe", "internal:slow", "internal:numeric_param"} <= set(done.stdout.split())


def test_a_root_that_is_no_folder_is_refused() -> None:
    assert "/nonexistent: no such folder" in refused("list-tasks", "--root", "/nonexistent")


def test_listing_works_from_anywhere_without_an_engine(tmp_path: Path) -> None:
    done = cli("list-tasks", cwd=tmp_path, DOCKER_HOST=NO_ENGINE)
    assert len(done.stdout.split()) == 168 and list(tmp_path.iterdir()) == []


def test_trainers_are_listed_with_what_they_take() -> None:
    listed = cli("list-trainers").stdout.splitlines()
    assert listed == sorted(listed) and {"NoOp\tavailable", "PrioritySearch\tavailable"} <= set(listed)
    assert all(line.endswith("\tavailable") for line in listed)
    every = cli("list-trainers", "--all").stdout.splitlines()
    assert set(listed) | {"NoOpTrainer\tavailable\tis NoOp"} <= set(every)
    assert "BeamsearchHistoryAlgorithm\tavailable\tis BeamSearch with max_history_size 10" in every
    (template,) = [line for line in every if line.startswith("SearchTemplate\t")]
    assert template.startswith("SearchTemplate\tunavailable\tis the base class")
    rows = {row["id"]: row for row in json.loads(cli("list-trainers", "--json").stdout)}
    names = {parameter["name"] for parameter in rows["PrioritySearch"]["params"]}
    assert {"num_steps", "num_candidates", "num_proposals"} <= names
    assert rows["PrioritySearch"]["summary"] and rows["PrioritySearch"]["available"]


def test_a_trainer_is_shown_with_its_semantics_under_any_of_its_names() -> None:
    shown = cli("list-trainers", "PrioritySearch", "NoOpTrainer").stdout
    assert "PrioritySearch: Explores the best" in shown and "arXiv:2603.14769" in shown and "NoOp: Evaluates" in shown
    assert "ucb_exploration_constant: float = 1.0" in shown and "only with score_function ucb" in shown
    (row,) = json.loads(cli("list-trainers", "NoOpTrainer", "--json").stdout)
    assert row["id"] == "NoOp" and row["aliases"] == ["NoOpTrainer"] and "baseline" in row["semantics"]
    assert "unknown trainer 'NoOpp'; did you mean 'NoOp'?" in refused("list-trainers", "NoOpp")
    assert "'SearchTemplate' is not available: it is the base class" in refused("list-trainers", "SearchTemplate")


def test_schemas_are_those_of_the_folder() -> None:
    names = cli("schema").stdout.split()
    assert names == sorted(p.name.removesuffix(".schema.json") for p in (REPOSITORY / "schemas").glob("*.json"))
    shown = json.loads(cli("schema", "results").stdout)
    assert shown == json.loads((REPOSITORY / "schemas" / "results.schema.json").read_text())
    assert shown == json.loads(cli("schema", "results.json").stdout), "the name of the file is as good"


def test_an_unknown_schema_lists_the_known_ones() -> None:
    assert "no schema 'nope'; known are audit, checkpoint, config, env" in refused("schema", "nope")


def test_tasks_are_shown_with_title_tags_and_what_they_ask_for() -> None:
    lines = here("tasks").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == here("list-tasks").stdout.splitlines()
    assert all(len(line.split("\t")) == 4 and line.split("\t")[1] and line.split("\t")[3] for line in lines)
    (row,) = json.loads(here("tasks", "llm4ad:circle_packing", "--json").stdout)
    assert row["title"].startswith("Circle packing") and "packing" in row["tags"] and row["direction"] == "maximize"
    assert row["summary"].endswith(".") and row["folder"].endswith("circle_packing") and row["suite"] == "llm4ad"


@pytest.mark.parametrize(
    ("words", "few", "one"),
    [
        (["PACKING"], 2, "llm4ad:circle_packing"),
        (["llm4ad:tag=routing"], 2, "llm4ad:optimization/tsp_construct"),
        (["--tag", "routing"], 2, "llm4ad:optimization/tsp_construct"),
        (["*tsp_construct", "--bench", "llm4ad"], 1, "llm4ad:optimization/tsp_construct"),
        (["internal:all"], 2, "internal:numeric_param"),
        (["travelling", "--tag", "routing", "--tag", "graph"], 1, "llm4ad:optimization/tsp_construct"),
    ],
)
def test_tasks_are_chosen_by_pattern_selector_and_tag(words: list[str], few: int, one: str) -> None:
    ids = [line.split("\t")[0] for line in here("tasks", *words).stdout.splitlines()]
    assert one in ids and few <= len(ids) < 40


def test_a_pattern_or_tag_that_fits_nothing_is_a_mistake() -> None:
    assert "no task has 'pakcing' in its id or title; did you mean 'packing'?" in here("tasks", "pakcing").stderr
    assert "--tag routin: no task has this tag; did you mean 'routing'?" in here("tasks", "--tag", "routin").stderr
    assert here("tasks", "qqqqq").returncode == 2


def test_a_task_that_cannot_be_read_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "task.toml").write_text("title = 3")
    done = here("tasks", "--root", str(tmp_path), "bad")
    assert done.returncode == 0 and "internal:bad\t\t\tbroken: " in done.stdout


def test_trainers_have_a_line_each_and_all_about_one() -> None:
    rows = dict(line.split("\t") for line in here("trainers").stdout.splitlines())
    assert rows["NoOp"].endswith(".") and "NoOpTrainer" not in rows
    every = dict(line.split("\t") for line in here("trainers", "--all").stdout.splitlines())
    assert every["NoOpTrainer"] == "is NoOp" and every["SearchTemplate"].startswith("unavailable: ")
    assert here("trainers", "PrioritySearch").stdout == here("list-trainers", "PrioritySearch").stdout
    assert here("trainers", "--json").stdout == here("list-trainers", "--json").stdout


def test_a_root_without_tasks_is_no_error_for_suites_that_have_theirs_elsewhere(tmp_path: Path) -> None:
    done = cli("list-tasks", "--bench", "terminal_bench", "--root", ".", cwd=tmp_path)
    assert done.returncode == 0 and "terminal_bench:regex-log" in done.stdout.splitlines()
    assert done.stderr == "note: --root . has no task of terminal_bench\n"
    assert "the task root . has no task" in refused("list-tasks", "--bench", "llm4ad", "--root", ".", cwd=tmp_path)
    assert "the task root . has no task" in refused("list-tasks", "--root", ".", cwd=tmp_path)


@pytest.mark.parametrize("written", [["--dataset-name", "internal"], ["--dataset-name=internal"]])
def test_the_older_name_of_bench_is_taken(written: list[str]) -> None:
    for command in ("list-tasks", "tasks"):
        assert here(command, *written).stdout == here(command, "--bench", "internal").stdout


def test_an_older_name_is_taken_by_commands_that_have_the_option_alone() -> None:
    assert "--output-dir" not in here("ls", "--help").stdout
    assert "No such option: --output-dir" in refused("doctor", "--output-dir", "x")
    assert "--dataset-name" in refused("list-tasks", "--", "--dataset-name")


def test_every_command_with_a_folder_of_runs_takes_its_older_name(tmp_path: Path) -> None:
    done = here("ls", "--output-dir", str(tmp_path / "none"))
    assert done.stdout == here("ls", "--runs-dir", str(tmp_path / "none")).stdout and done.returncode == 0
