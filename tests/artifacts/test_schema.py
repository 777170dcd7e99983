"""Schemas are current, and say what the models say."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tests.integration.cli import REPOSITORY
from trace_bench.artifacts import schema
from trace_bench.artifacts.records import OTHER_NAMES, Results
from trace_bench.artifacts.writers import csv_line
from trace_bench.errors import HarnessError
from trace_bench.resources import data_dir


def test_the_schemas_in_the_tree_are_current() -> None:
    assert schema.stale(data_dir("schemas")) == [], "run python -m trace_bench.artifacts.schema --write"


def test_check_fails_on_a_stale_a_missing_and_a_foreign_schema(tmp_path: Path) -> None:
    assert len(schema.write(tmp_path)) == len(schema.names()) + 1  # the table's
    assert schema.main(["--check", "--folder", str(tmp_path)]) == 0
    (tmp_path / "job.schema.json").write_text("{}")
    (tmp_path / "lock.schema.json").unlink()
    (tmp_path / "old.schema.json").write_text("{}")
    assert schema.stale(tmp_path) == ["job.schema.json", "lock.schema.json", "old.schema.json"]
    assert schema.main(["--check", "--folder", str(tmp_path)]) == 1
    assert schema.main(["--write", "--folder", str(tmp_path)]) == 0
    assert schema.stale(tmp_path) == []


def test_check_fails_where_the_page_in_the_reference_is_stale(tmp_path: Path) -> None:
    folder, page = tmp_path / "schemas", tmp_path / "docs" / "reference" / "schemas.md"
    folder.mkdir()
    page.parent.mkdir(parents=True)
    assert schema.main(["--write", "--folder", str(folder)]) == 0
    assert page.read_text("utf-8") == (REPOSITORY / "docs" / "reference" / "schemas.md").read_text("utf-8")
    page.write_text("old")
    assert schema.stale(folder) == ["../docs/reference/schemas.md"]
    assert schema.main(["--check", "--folder", str(folder)]) == 1


def test_the_page_has_every_property_and_no_heading_twice() -> None:
    text = (REPOSITORY / "docs" / "reference" / "schemas.md").read_text("utf-8")
    headings = [heading.lower() for heading in re.findall(r"^##+ (.*)", text, re.MULTILINE)]
    assert len(headings) == len(set(headings))
    assert {name for name in schema.names() if name != "config"} <= set(headings)
    rows = set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE))
    described = [place for name in schema.names() if name != "config" for place, _ in properties(name)]
    assert {place.partition(".")[2] for place in described} <= rows
    linked = set(re.findall(r"\(#([^)]*)\)", text))
    assert linked <= {heading.replace(" ", "-") for heading in headings}


def test_the_table_schema_reads_a_table_of_a_run() -> None:
    """Each cell of a real table has the type of its column, and each column of the table's row is described."""
    made = schema.build(schema.TABLE)
    readers = {"string": str, "integer": int, "number": float, "object": json.loads, "boolean": ["false", "true"].index}
    row = Results.model_validate(schema.example("results"))
    cells = dict(zip(Results.model_fields, next(csv.reader([csv_line(list(vars(row).values()))])), strict=True))
    cells |= {name: cells[of] for name, of in OTHER_NAMES.items()}
    assert [field["name"] for field in made["fields"]] == list(cells)
    for field in made["fields"]:
        if (cell := cells[field["name"]]) not in made["missingValues"]:
            readers[field["type"]](cell)
    units = {field["name"]: field.get("unit") for field in made["fields"]}
    assert (units["time_seconds"], units["cost_usd"], units["llm_calls"]) == ("seconds", "US dollars", "calls")


def test_the_command_works_from_outside() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trace_bench.artifacts.schema", "--check"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", schema.names())
def test_each_schema_is_valid_draft_2020_12_and_has_an_example_that_fits(name: str) -> None:
    built = schema.build(name)
    jsonschema.Draft202012Validator.check_schema(built)
    assert built["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert built["$id"] == f"urn:trace-bench:schema:1:{name}"
    assert len(built["examples"]) == 1
    schema.validate(name, built["examples"][0])


WITHOUT_A_UNIT = {"code", "contract", "exit_code", "reader", "schema_version", "seed", "seeds", "status"}
"""Numbers that measure and count nothing."""


def properties(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property of the schema `name`, those of its parts included, as ``Model.property``."""
    built = schema.build(name)
    for model, part in {**built.get("$defs", {}), name: built}.items():
        for key, value in part.get("properties", {}).items():
            yield f"{model}.{key}", value


def types(value: dict[str, Any]) -> set[str]:
    """The JSON types of a property's values: of the entries, where it is a list or a mapping."""
    parts = [
        value.get("items"),
        value.get("additionalProperties"),
        *value.get("anyOf", []),
        *value.get("prefixItems", []),
    ]
    found = {value.get("type")} | {each for part in parts if isinstance(part, dict) for each in types(part)}
    return found - {None, "null", "array", "object"}


@pytest.mark.parametrize("name", schema.names())
def test_every_property_has_a_description(name: str) -> None:
    lacking = [
        place for place, value in properties(name) if not re.fullmatch(r"\S.{7,}[.]", value.get("description", ""))
    ]
    assert lacking == [], "write a docstring below the field"


@pytest.mark.parametrize("name", schema.names())
def test_every_number_has_a_unit_and_every_score_a_direction(name: str) -> None:
    for place, value in properties(name):
        key, text = place.partition(".")[2], value["description"]
        if types(value) and types(value) <= {"integer", "number"} and key not in WITHOUT_A_UNIT:
            assert " Unit: " in text or re.search(r"(^|[.] )Number", text), place
        if re.match("(best_)?score(?!_timeout)|metrics|hypervolume", key) and types(value) == {"number"}:
            assert " Better: " in text, place


def test_a_property_says_its_meaning_its_unit_and_its_direction() -> None:
    found = dict(properties("results"))
    assert found["results.score_test"]["description"] == (
        "Official mean score of the best state on held-out data. Unit: natural unit of the task's score. Better: as "
        "`score_direction` of the job says."
    )
    assert found["results.cost_usd"]["description"] == "Cost of calls over all attempts. Unit: US dollars."


def test_a_violation_names_file_path_and_problem() -> None:
    broken = schema.example("manifest")
    broken["jobs"][0]["seed"] = "7"
    with pytest.raises(schema.SchemaViolation) as caught:
        schema.validate("manifest", broken, where="meta/manifest.json")
    assert str(caught.value) == "meta/manifest.json: $.jobs[0].seed: '7' is not of type 'integer'"


def test_a_violation_is_one_line_however_hostile_the_value() -> None:
    with pytest.raises(schema.SchemaViolation) as caught:
        schema.validate("git", {"commit": {"\x1b[31m\n" * 1000: 1}})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_an_unknown_schema_is_a_defect_of_ours() -> None:
    with pytest.raises(HarnessError, match="no schema named 'jobs'"):
        schema.validate("jobs", {})


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in `value`."""
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += _paths(child, (*path, key))
    return found


@st.composite
def broken_samples(draw: st.DrawFn) -> tuple[str, Any]:
    name = draw(st.sampled_from([name for name in schema.names() if name != "config"]))  # the loader takes other forms
    value = {"": schema.example(name)}
    path = draw(st.sampled_from(_paths(value)[1:]))
    holder: Any = value
    for key in path[:-1]:
        holder = holder[key]
    new: Any = draw(
        st.sampled_from([None, True, -1, 0, 1.5, 10**30, "", "x", "2026-01-02T03:04:05Z", [], {}, {"x": 1}])
    )
    action = draw(st.sampled_from(["replace", "drop", "add"]))
    if action == "drop" and len(path) > 1:
        del holder[path[-1]]
    elif action == "add" and isinstance(holder, dict) and len(path) > 1:
        holder["surprise"] = new
    else:
        holder[path[-1]] = new
    return name, value[""]


@given(broken_samples())
def test_schema_and_model_agree_on_what_is_right(case: tuple[str, Any]) -> None:
    name, value = case
    kind, _ = schema._TITLES[name]
    try:
        TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
        fits_model = True
    except ValidationError:
        fits_model = False
    try:
        schema.validate(name, value)
        fits_schema = True
    except schema.SchemaViolation:
        fits_schema = False
    assert fits_model == fits_schema
