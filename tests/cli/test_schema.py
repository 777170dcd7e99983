"""`schema` prints the schema of every file, of the table of results, and of a config."""

from __future__ import annotations

import json

from tests.cli.conftest import refused
from tests.console import here
from trace_bench.artifacts import schema


def test_the_names_are_listed() -> None:
    assert here("schema").stdout.split() == sorted([*schema.names(), schema.TABLE])


def test_the_schema_of_a_config_is_printed() -> None:
    printed = json.loads(here("schema", "config").stdout)
    assert printed == schema.build("config")
    assert printed["properties"]["max_workers"]["description"] == "Number of jobs at a time."


def test_the_columns_of_the_results_are_printed_with_type_unit_and_meaning() -> None:
    columns = {field["name"]: field for field in json.loads(here("schema", "results.csv").stdout)["fields"]}
    assert columns["score_best"] | {"example": 0} == {
        "name": "score_best",
        "type": "number",
        "description": "Official mean score of the best state of the search, on the same split. "
        "Unit: natural unit of the task's score. Better: as `score_direction` of the job says.",
        "unit": "natural unit of the task's score",
        "better": "as `score_direction` of the job says",
        "example": 0,
    }


def test_an_unknown_name_is_refused() -> None:
    assert "there is no schema 'result.csv'; known are audit, checkpoint, config," in refused("schema", "result.csv")
