"""The schema of a config file takes what the loader takes, and tells editors what each key means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.config.test_bad_configs import BAD
from tests.config.test_keys import KEYS, around
from tests.integration.cli import REPOSITORY
from trace_bench.artifacts import schema
from trace_bench.config import load_config, parse_config
from trace_bench.config.file_schema import config_file_schema
from trace_bench.config.models import RunConfig
from trace_bench.config.names import keys_of
from trace_bench.config.reader import read
from trace_bench.config.values import Section
from trace_bench.errors import ConfigError

TASKS: dict[str, Any] = {"tasks": ["internal:numeric_param"]}
FILES = sorted(
    path
    for folder in ("configs", "docs", "benchmarks", "trace_bench/cli/scaffold", "tests/data")
    for path in (REPOSITORY / folder).rglob("*.yaml")
    if re.search(r"^tasks:", path.read_text(encoding="utf-8"), re.MULTILINE)
)
"""Every config in the checkout."""
BLOCKS = {
    f"{page.relative_to(REPOSITORY)}:{number}": block
    for page in sorted((*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md"))
    for number, block in enumerate(
        re.findall(r"^```yaml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
    if re.search(r"^tasks:", block, re.MULTILINE)
}
"""Every whole config in a page of the documentation."""


def fits(value: Any) -> bool:
    try:
        schema.validate("config", value)
    except schema.SchemaViolation:
        return False
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_config_fits(path: Path) -> None:
    schema.validate("config", read(path, []), where=str(path))


def test_there_are_configs() -> None:
    assert len(FILES) > 25 and len(BLOCKS) > 3


@pytest.mark.parametrize("name", BLOCKS)
def test_every_config_in_the_documentation_fits(name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(BLOCKS[name], encoding="utf-8")
    schema.validate("config", read(path, []), where=name)


@pytest.mark.parametrize("path", sorted((REPOSITORY / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_snapshot_of_a_config_fits(path: Path) -> None:
    schema.validate("config", parse_config(load_config(path).to_snapshot()).to_snapshot())


@pytest.mark.parametrize(("section", "key"), [(section, key) for section, keys in KEYS.items() for key in keys])
def test_every_key_fits_under_every_name_with_hyphens_and_without(section: type[Section], key: str) -> None:
    value = KEYS[section][key][0]
    for written in {key, key.replace("_", "-")}:
        schema.validate("config", around(section, written, value))


def test_every_name_of_a_key_is_offered() -> None:
    made = config_file_schema()
    for section in KEYS:
        part = made if section is RunConfig else made["$defs"][section.__name__]
        assert list(part["properties"]) == keys_of(section)


@pytest.mark.parametrize(
    "more",
    [
        {"seed": 3}, {"seed": [1, 2]}, {"seeds": []}, {"job_timeout": 0}, {"score-timeout": None},
        {"objective": "pareto"}, {"objective": {"mode": "weighted", "tie-break": "weighted"}},
        {"mirrors": "mlflow"}, {"mirrors": ["mlflow"]}, {"mirrors": {"mlflow": None}}, {"mirrors": {}},
        {"sandbox": {"memory": "1.5g", "disk": "64 MiB", "tmp": 1 << 20}}, {"sandbox": {"memory": " 2GB "}},
        {"trainers": [{"trainer": "NoOp", "logger": " OFF "}, {"key": "NoOp", "logger": None, "guide": None}]},
        {"trainers": [{"name": "PrioritySearch", "params": [{"num_steps": 1}, {}], "ps-mem_update": 2}]},
        {"llms": ["stub", {"model": "scripted:a.yaml"}]}, {"llm": None}, {"data_root": None},
        {"docker": {"hosts": [{"url": "ssh://far", "gpus": 2}, {"context": "near", "gpus": ["0"]}]}},
        {"tasks": ["circle_packing", {"task": "example:x", "sandbox": {"allow-weaker": ["ipc"]}}]},
        {"seeds": [2**63 - 1], "max-workers": 4096},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_loader_takes_fits(more: dict[str, Any]) -> None:
    parse_config({**TASKS, **more})
    schema.validate("config", {**TASKS, **more})


@pytest.mark.parametrize(
    "name",
    [
        "unknown_key", "nested_unknown_key", "top_level_key_in_trainer", "knobs_is_no_key", "no_tasks", "empty_tasks",
        "tasks_no_list", "task_without_id", "task_id_is_number", "no_trainers", "trainer_without_id",
        "params_and_variants", "mode_unknown", "resume_null", "seeds_string", "seeds_negative",
        "workers_negative_alias", "timeout_negative", "timeout_text", "fail_fast_yes", "tags_scalar",
        "size_without_unit", "size_nonsense",
    ],
)  # fmt: skip
def test_a_wrong_config_does_not_fit(name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(BAD[name][0], encoding="utf-8")
    assert not fits(read(path, []))
    with pytest.raises(ConfigError):
        load_config(path)


def test_two_names_of_one_key_do_not_fit() -> None:
    assert fits({**TASKS, "runs_root": "r"}) and fits({**TASKS, "runs_dir": "r"})
    assert not fits({**TASKS, "runs_root": "r", "runs_dir": "r"})
    assert not fits({"tasks": [{"id": "circle_packing", "task": "circle_packing"}]})


def test_a_key_tells_what_it_means() -> None:
    found = config_file_schema()["properties"]
    assert found["n_concurrent"]["description"] == "Another name of `max_workers`. Number of jobs at a time."
    assert found["score_timeout"]["description"].endswith("null is no limit. Unit: seconds.")
