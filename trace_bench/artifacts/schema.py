"""JSON Schemas (draft 2020-12) of every file that a run writes or reads and of a config, exported from the models.

``python -m trace_bench.artifacts.schema --write`` renews ``schemas/`` and, in a checkout, their page in the reference;
``--check`` fails where one is stale. The examples in ``schemas/examples/`` are from runs; they become part of the
schemas.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
from pydantic import TypeAdapter

from trace_bench.artifacts import audits, calls, contract, derived, outputs, records, reproduction
from trace_bench.artifacts.columns import results_table
from trace_bench.artifacts.jsonio import json_path
from trace_bench.artifacts.schema_page import page
from trace_bench.artifacts.writers import write_text
from trace_bench.config.described import DescribedSchema
from trace_bench.config.file_schema import config_file_schema
from trace_bench.config.models import RunConfig
from trace_bench.display.text import quoted
from trace_bench.errors import HarnessError, TraceBenchError
from trace_bench.resources import data_dir

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TITLES: dict[str, tuple[Any, str]] = {
    "job": (contract.JobSpec, "job.json: what a sandbox gets to know"),
    "event": (outputs.Event, "a line of events.jsonl"),
    "checkpoint": (outputs.CheckpointHead | outputs.CheckpointLine, "a line of checkpoint.jsonl"),
    "history": (outputs.HistoryLine, "a line of state_history.jsonl"),
    "state": (contract.State, "a saved state: parameter name to value"),
    "states": (outputs.States, "states.json: the states a sandbox hands back"),
    "result": (outputs.WorkerResult, "result.json: what a sandbox found"),
    "job_meta": (records.JobMeta, "job_meta.json: what a job is, and its outcome"),
    "results": (records.Results, "results.json: one row of results.csv"),
    "pareto": (derived.ParetoFront, "pareto.json: the states of a search that none dominates"),
    "llm_call": (calls.LlmCall, "a line of llm.jsonl, the cassette"),
    "service_call": (calls.ServiceRecord, "a line of services.jsonl: what a job asked a service of the host"),
    "manifest": (records.Manifest, "manifest.json: every job of a run"),
    "lock": (records.Lock, "lock.json: everything that determines a run"),
    "env": (records.EnvInfo, "env.json: the machine and its settings"),
    "git": (records.GitInfo, "git.json: the code that ran"),
    "files_index": (derived.FilesIndex, "files_index.json: every file of a run"),
    "yardsticks": (derived.Yardsticks, "yardsticks.json: what gaps are measured by"),
    "replay": (derived.ReplayReport, "replay.json: how a replay compares with its recording"),
    "reproduction": (reproduction.Reproduction, "reproduction.json: what came of making a run again"),
    "summary": (derived.Summary, "summary.json: counts of a run"),
    "audit": (audits.AuditReport, "the result of an audit of a run"),
    "config": (RunConfig, "a config file"),
}
TABLE = "results.csv"
"""The table that has a table schema."""
PAGE = "../docs/reference/schemas.md"
"""The page about all schemas, from their folder in a checkout."""


class SchemaViolation(TraceBenchError, ValueError):
    """A value does not fit its schema. The message names file, JSON path and what is wrong."""


def names() -> tuple[str, ...]:
    """The names of all JSON Schemas."""
    return tuple(_TITLES)


@functools.cache
def adapter(name: str) -> TypeAdapter[Any]:
    """A validator that agrees with the schema `name`, and is a hundred times as fast."""
    return TypeAdapter(_TITLES[name][0])


def build(name: str) -> dict[str, Any]:
    """The schema `name`, made from its model; of `TABLE` its table schema."""
    if name == TABLE:
        return results_table(example("results"))
    kind, title = _TITLES[name]
    made = (
        config_file_schema() if kind is RunConfig else TypeAdapter(kind).json_schema(schema_generator=DescribedSchema)
    )
    made.pop("title", None)
    head = {"$schema": _DIALECT, "$id": f"urn:trace-bench:schema:{contract.CONTRACT}:{name}", "title": title}
    return {**head, **made, "examples": [example(name)]}


def example(name: str) -> Any:
    """A value that fits the schema `name`, from a run."""
    return json.loads((data_dir("schemas") / "examples" / f"{name}.json").read_text(encoding="utf-8"))


def render(name: str) -> str:
    """The text of ``<name>.schema.json``."""
    return json.dumps(build(name), indent=2, ensure_ascii=False) + "\n"


def file_name(name: str) -> str:
    """The file name of the schema `name` in ``schemas/``."""
    return f"{name}.schema.json"


def validate(name: str, value: Any, *, where: str = "") -> None:
    """Check `value` (parsed JSON) against the shipped schema `name`.

    Args:
        where: the file it came from, for the message.

    Raises:
        SchemaViolation: ``FILE: $.path: what is wrong``, for the most telling of the problems.
    """
    problem = jsonschema.exceptions.best_match(_validator(name).iter_errors(value))
    if problem is None:
        return
    place = f"{where}: " if where else ""
    raise SchemaViolation(f"{place}{json_path(problem.absolute_path)}: {quoted(problem.message, 200)}")


def stale(folder: Path) -> list[str]:
    """The files of `folder` that are missing, differ from the models, or belong to none; in a checkout also `PAGE`."""
    files = [*folder.glob("*.schema.json"), *(path for path in [folder / PAGE] if path.exists())]
    texts = {os.path.relpath(path, folder): path.read_text(encoding="utf-8") for path in files}
    current = _texts(folder)
    return sorted(name for name in texts.keys() | current.keys() if texts.get(name) != current.get(name))


def write(folder: Path) -> list[str]:
    """Renew `folder`; returns the names of changed files."""
    changed = stale(folder)
    current = _texts(folder)
    for file in changed:
        if file in current:
            write_text(folder / file, current[file])
        else:
            (folder / file).unlink()
    return changed


def _texts(folder: Path) -> dict[str, str]:
    """The text of each file that belongs into `folder`, and of `PAGE` if there is a reference beside it."""
    texts = {file_name(name): render(name) for name in (*names(), TABLE)}
    if (folder / PAGE).parent.is_dir():
        texts[PAGE] = page({name: build(name) for name in names() if name != "config"}, build(TABLE))
    return texts


@functools.cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    if name not in _TITLES:
        raise HarnessError(f"there is no schema named {name!r}; there are {', '.join(names())}")
    text = (data_dir("schemas") / file_name(name)).read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 if nothing is (or was left) stale, else 1."""
    parser = argparse.ArgumentParser(prog="python -m trace_bench.artifacts.schema", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="renew the schemas")
    action.add_argument("--check", action="store_true", help="fail if any is stale")
    parser.add_argument("--folder", type=Path, default=None, help="where they lie (default: schemas/)")
    options = parser.parse_args(argv)
    folder = options.folder or data_dir("schemas")
    if options.write:
        for name in write(folder):
            sys.stdout.write(f"wrote {name}\n")
        return 0
    for name in (left := stale(folder)):
        sys.stderr.write(f"{folder / name} is stale; run python -m trace_bench.artifacts.schema --write\n")
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(main())
