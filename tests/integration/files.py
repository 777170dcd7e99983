"""What a whole run looks like on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from trace_bench.artifacts.derived import FilesIndex
from trace_bench.artifacts.jsonio import read_model
from trace_bench.artifacts.layout import RunLayout, schema_of
from trace_bench.artifacts.schema import validate
from trace_bench.artifacts.usage import NO_ANSWER


def check_files(folder: str | Path) -> int:
    """Every file of the run is indexed, and fits its schema; returns how many values were checked."""
    layout = RunLayout(Path(folder))
    index = read_model(FilesIndex, layout.files_index.read_bytes())
    on_disk = {layout.relative(p) for p in layout.root.rglob("*") if p.is_file()} - {"meta/files_index.json"}
    assert {entry.path for entry in index.files} == on_disk
    checked = 0
    for entry in index.files:
        schema = schema_of(entry.path)
        assert entry.schema_name == schema
        if schema is not None:
            for value in values_in(layout.root / entry.path):
                validate(schema, value)
                checked += 1
    return checked


def values_in(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return [yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)]


def paid_calls(folder: str | Path) -> list[tuple[str, str, str]]:
    """Job, slot and request of every call that a provider answered, from the cassettes."""
    found = []
    for path in Path(folder, "jobs").glob("*/llm.jsonl"):
        for line in path.read_text().splitlines():
            if line.endswith("}"):
                call = json.loads(line)
                if call["reused_from"] is None and call["status"] != NO_ANSWER:
                    found.append((path.parent.name, str(call["slot"]), str(call["request_hash"])))
    return found
