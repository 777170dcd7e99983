"""A YAML file that lists data sets, in the prototype's format, becomes folders of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trace_bench.cli.new import new_tasks
from trace_bench.errors import ConfigError
from trace_bench.suites.hf.entries import task_folders
from trace_bench.suites.registry import discover
from trace_bench.suites.spec import load_task_spec

MINE: dict[str, Any] = {
    "id": "mine", "dataset_id": "me/mine", "dataset_config": "main", "train_split": "train", "test_split": "test",
    "num_train": 5, "num_validate": 6, "num_test": 7, "question_field": "q", "answer_field": "a",
    "options_field": "choices", "answer_index_base": 1, "context_format": "none", "task_type": "mcqa",
    "agent_class": "bbeh", "description": 'Questions of "mine"', "objective": "Do it.\nAnd well.\n",
}  # fmt: skip
SUBTASKS = {
    "id": "hard", "dataset_id": "me/hard", "question_field": "input", "answer_field": "target",
    "context_format": "none", "agent_class": "bbeh", "subtasks": ["one", "two_words"],
}  # fmt: skip


def _file(folder: Path, *entries: Any) -> Path:
    path = folder / "sets.yaml"
    path.write_text(yaml.safe_dump(list(entries)), encoding="utf-8")
    return path


def test_an_entry_becomes_a_task_that_is_found_and_read(tmp_path: Path) -> None:
    made = new_tasks("hf", _file(tmp_path, MINE, SUBTASKS), tmp_path / "tasks")
    assert set(made.folders) == {"mine", "hard/one", "hard/two_words"}
    found = {entry.id: load_task_spec(entry.folder) for entry in discover(["hf"], [tmp_path / "tasks"])}
    mine = found["hf:mine"]
    assert mine.qa is not None and (mine.title, mine.statement) == ('Questions of "mine"', "Do it.\nAnd well.")
    assert (mine.qa.question_field, mine.qa.options_field, mine.qa.answer_index_base) == ("q", "choices", 1)
    assert (mine.splits.train, mine.splits.validate_, mine.splits.test) == (5, 6, 7)
    assert mine.eval_kwargs["agent"].default == "extractor" and mine.eval_kwargs["num_test"].default == 7
    hard = found["hf:hard/two_words"]
    assert hard.qa is not None and hard.title == "hard: two words"
    assert (hard.qa.train_split, hard.qa.test_split, hard.qa.task_type) == ("two_words", "two_words", "bbeh")


def test_one_split_for_all(tmp_path: Path) -> None:
    entry = {**MINE, "split": "test"}
    del entry["train_split"], entry["test_split"]
    text = task_folders(_file(tmp_path, entry)).folders["mine"]["task.toml"]
    assert 'train_split = "test"' in text and 'test_split = "test"' in text


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({**MINE, "question_feild": "q"}, "unknown key 'question_feild'; did you mean 'question_field'"),
        ({**MINE, "agent_class": "bbh"}, "unknown agent_class 'bbh'; did you mean 'bbeh'"),
        ({**MINE, "task_type": "essay"}, "task_type: input should be 'hfqa'"),
        ({**MINE, "id": "a b"}, "'id' must be a name"),
        ({"id": "mine"}, "dataset_id: field required"),
        ("mine", "must be a list of data sets"),
    ],
    ids=["key", "agent", "type", "id", "data set", "shape"],
)
def test_a_wrong_entry_is_named(tmp_path: Path, entry: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        task_folders(_file(tmp_path, entry))
    assert str(raised.value).startswith(str(tmp_path / "sets.yaml"))


def test_two_entries_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is a task 'mine' already"):
        task_folders(_file(tmp_path, MINE, MINE))


@pytest.mark.parametrize("text", ["- id: [", "\t- a", ""], ids=["syntax", "tab", "empty"])
def test_a_file_that_is_no_yaml_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sets.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"sets\.yaml: (is not valid YAML|must be a list)"):
        task_folders(path)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        task_folders(tmp_path / "none.yaml")
