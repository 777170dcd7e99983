"""The columns of ``results.csv`` as a table schema (https://datapackage.org/standard/table-schema/)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.artifacts.records import OTHER_NAMES, Results
from trace_bench.config.described import DescribedSchema, measure_of

_PROFILE = "https://datapackage.org/profiles/2.0/tableschema.json"
_DESCRIPTION = (
    "Cells are text: an empty one is null, and a mapping is JSON. `evaluations_saved` and the columns after it are "
    "left out where no job of the run has a value. Before the last columns, `score_val` and its like, comes one for "
    "each metric and each state that has it, such as `metric_best:NAME`."
)


def results_table(example: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the table: name, type, unit and meaning of each column.

    Args:
        example: a row, from which each column has an example.
    """
    row = Results.model_json_schema(schema_generator=DescribedSchema)
    fields = {name: _field(name, value, row["$defs"], example) for name, value in row["properties"].items()}
    return {
        "$schema": _PROFILE,
        "title": "results.csv: one row for each job of a run",
        "description": _DESCRIPTION,
        "fields": [*fields.values(), *(_again(name, fields[of]) for name, of in OTHER_NAMES.items())],
        "missingValues": [""],
        "primaryKey": ["run_id", "job_id"],
    }


def _again(name: str, field: Mapping[str, Any]) -> dict[str, Any]:
    """The column `field` under another name."""
    return {**field, "name": name, "description": f"The same as `{field['name']}`, under the prototype's name."}


def _field(name: str, value: Mapping[str, Any], parts: Mapping[str, Any], example: Mapping[str, Any]) -> dict[str, Any]:
    kind = _without_null(value, parts)
    made: dict[str, Any] = {"name": name, "type": kind["type"], "description": value["description"]}
    made |= {key: found for key in ("unit", "better") if (found := measure_of(value).get(key))}
    if kind.get("enum"):
        made["constraints"] = {"enum": kind["enum"]}
    if example.get(name) is not None:
        made["example"] = example[name]
    return made


def _without_null(value: Mapping[str, Any], parts: Mapping[str, Any]) -> Mapping[str, Any]:
    """`value` as the one kind that it has besides null."""
    if "anyOf" in value:
        return _without_null(next(kind for kind in value["anyOf"] if kind.get("type") != "null"), parts)
    if "$ref" in value:
        return _without_null(parts[value["$ref"].rpartition("/")[2]], parts)
    return value
