"""A config that is a Python mapping: read as the same config in a file is, with the same complaints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from trace_bench.config import load_config
from trace_bench.errors import ConfigError
from trace_bench.resources import data_dir

GOOD: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["PrioritySearch"]}


def refused(data: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(data)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("path", sorted(data_dir("configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_mapping_is_the_config_that_its_file_is(path: Path) -> None:
    data = yaml.safe_load(path.read_text())
    assert load_config(data) == load_config(path)
    assert load_config(data, {"max_workers": 7}).max_workers == 7


def test_values_of_python_that_have_an_obvious_meaning_are_taken(tmp_path: Path) -> None:
    params = {"num_steps": np.int64(3), "exploration": np.float64(0.5)}
    data = {
        **GOOD, "seeds": range(3), "task_roots": (tmp_path,), "trainers": [{"id": "PrioritySearch", "params": params}],
    }  # fmt: skip
    config = load_config(data)
    assert config.seeds == (0, 1, 2) and config.task_roots == (str(tmp_path),)
    (variant,) = config.trainers[0].params_variants
    assert variant == {"num_steps": 3, "exploration": 0.5} and type(variant["num_steps"]) is int


@pytest.mark.parametrize("wrong", [
    {"max_workers": "many"}, {"trainers": [{"id": 3}]}, {"max_wokers": 2}, {"seeds": [1, 1]}, {"tasks": []},
    {"sandbox": {"cap_add": ["ALL"]}}, {"trainers": [{"id": "NoOp", "name": "NoOp"}]}, {"budget": {"usd": -1}},
])  # fmt: skip
def test_a_mistake_is_told_in_the_words_that_a_file_gets(wrong: dict[str, Any], tmp_path: Path) -> None:
    data = {**GOOD, **wrong}
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    in_file = [line.partition(": ")[2] for line in str(caught.value).splitlines()]
    told = refused(data)
    assert all(line.startswith("<dict>: ") for line in told)
    said = sorted(line.removeprefix("<dict>: ").split(" on line ")[0].split(";")[0] for line in told)
    assert said == sorted(line.split(" on line ")[0].split(";")[0] for line in in_file)


def test_what_no_file_can_hold_is_refused_by_its_place() -> None:
    entry = {"id": "PrioritySearch", "params": {"num_steps": float("nan"), "x": {1, 2}, "\ud800": 1, 4: 5}}
    told = refused({**GOOD, "trainers": ["NoOp", entry], "seeds": np.array([1, 2])})
    assert told == [
        "<dict>: trainers[1].params.num_steps is nan; give a finite number or leave the key out",
        "<dict>: trainers[1].params.x is a set; write a string, a number, true or false, a list or a mapping",
        "<dict>: trainers[1].params holds half of a surrogate pair; write the character itself",
        "<dict>: trainers[1].params has the key the number 4; a key is a string",
        "<dict>: seeds is a ndarray; write a string, a number, true or false, a list or a mapping",
    ]


def test_data_that_contains_itself_or_grows_without_end_is_refused() -> None:
    inside: dict[str, Any] = {}
    inside["again"] = [inside]
    (told,) = refused({**GOOD, "eval_kwargs": inside})
    assert told == "<dict>: eval_kwargs.again[0] contains itself; write the value out"
    many: Any = 0
    for _ in range(30):
        many = [many, many]
    assert refused({**GOOD, "tags": many}) == [
        "<dict>: holds more than 100000 values (aliases count), the limit for a config"
    ]
    deep: Any = 0
    for _ in range(3000):
        deep = [deep]
    assert refused({**GOOD, "tags": deep}) == ["<dict>: is nested deeper than 40 levels, the limit for a config"]


def test_a_number_that_is_too_long_to_be_printed_is_refused() -> None:
    told = refused({**GOOD, "max_workers": 10**5000, "tags": 10**5000})
    assert told == [
        "<dict>: max_workers must be at most 4096, not a huge number",
        "<dict>: tags must be a list, not a huge number",
    ]


def test_what_is_no_config_is_called_so() -> None:
    assert refused(["internal:numeric_param"]) == ["<dict>: a config is a mapping of keys to values, not a list"]
    assert refused({}) == ["<dict>: tasks is missing; a config names at least one task"]


def test_a_key_of_a_provider_in_a_mapping_is_refused_and_not_shown() -> None:
    llm = {"model": "openai/x", "options": {"api_key": "sk-" + "a1B2" * 12}}
    told = refused({**GOOD, "llm": llm, "mode": "real"})
    assert told[0].startswith("<dict>: llm.options.api_key") and not [line for line in told if "a1B2" in line]


def test_a_shipped_config_is_found_by_its_name_and_a_near_one_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = load_config(data_dir("configs") / "smoke.yaml")
    assert load_config("smoke.yaml") == load_config(Path("configs/smoke.yaml")) == shipped
    with pytest.raises(ConfigError, match=r"^smok\.yaml: does not exist.*; did you mean 'smoke\.yaml'\?$"):
        load_config("smok.yaml")
    with pytest.raises(ConfigError, match=r"elsewhere/smoke\.yaml: does not exist"):
        load_config("elsewhere/smoke.yaml")
    (tmp_path / "smoke.yaml").write_text("tasks: [mine]\n")
    assert load_config("smoke.yaml").tasks[0].id == "llm4ad:mine"
