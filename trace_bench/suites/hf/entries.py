"""Makes task folders of a YAML file that lists data sets, with the keys of the Trace-Bench prototype's file. On the
host.

    - id: gsm8k
      dataset_id: openai/gsm8k
      dataset_config: main
      train_split: train
      test_split: test
      num_train: 128
      question_field: question
      answer_field: answer
      task_type: gsm8k
      agent_class: bbeh
      description: Word problems of arithmetic

An entry with ``subtasks`` becomes a task for each of them: a split of the data set has its rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trace_bench.arguments import hint
from trace_bench.errors import ConfigError
from trace_bench.suites.base import MadeTasks
from trace_bench.suites.spec_tables import QaSpec

AGENTS: Mapping[str, str] = {"hfqa": "instructions", "bbeh": "extractor", "code": "code", "chain": "chain"}
"""The prototype's names of agents, and ours."""
_SIZES = ("train", "validate", "test")
_OF_TASK = ("id", "description", "objective", "subtasks", "agent_class", "split", *(f"num_{split}" for split in _SIZES))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


def task_folders(source: Path) -> MadeTasks:
    """The task folders of the entries of `source`.

    Raises:
        ConfigError: the file cannot be read, or an entry is wrong; one line for each problem.
    """
    try:
        entries = yaml.safe_load(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries) or not entries:
        raise ConfigError(f"{source}: must be a list of data sets, each with 'id' and 'dataset_id'")
    made, problems = MadeTasks({}, {}), list[str]()
    for number, entry in enumerate(entries, 1):
        where = f"{source}, entry {number} ({entry.get('id', 'without id')})"
        for name, text in _folders(entry, where, problems):
            if name in made.folders:
                problems.append(f"{where}: there is a task {name!r} already; choose another id")
            made.folders[name] = {"task.toml": text}
    if problems:
        raise ConfigError("\n".join(problems))
    return made


def _folders(entry: Mapping[str, Any], where: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    """Name and ``task.toml`` of each task of an entry."""
    known = {*_OF_TASK, *QaSpec.model_fields}
    for key in entry:
        if key not in known:
            problems.append(f"{where}: unknown key {key!r}{hint(str(key), known)}")
    if not isinstance(entry.get("id"), str) or not _NAME.fullmatch(entry["id"]):
        problems.append(f"{where}: 'id' must be a name of letters, digits, '_' and '-'")
        return
    agent = entry.get("agent_class", "hfqa")
    if agent not in AGENTS:
        problems.append(f"{where}: unknown agent_class {agent!r}{hint(str(agent), AGENTS)}")
        return
    table: dict[str, Any] = {"agent": AGENTS[agent]}
    if "split" in entry:
        table |= {"train_split": entry["split"], "test_split": entry["split"]}
    table |= {key: value for key, value in entry.items() if key in QaSpec.model_fields and key != "agent"}
    table.setdefault("task_type", agent if agent in ("hfqa", "bbeh") else "hfqa")
    if table.get("context_format") == "bbeh":
        table["context_format"] = "plain"
    subtasks = entry.get("subtasks") or [""]
    for subtask in subtasks:
        own = {**table, "train_split": subtask, "test_split": subtask} if subtask else table
        try:
            QaSpec.model_validate(own)
        except ValidationError as error:
            problems += [f"{where}: {'.'.join(map(str, e['loc']))}: {e['msg'].lower()}" for e in error.errors()]
            return
        name = f"{entry['id']}/{subtask}" if subtask else entry["id"]
        yield name, _toml(entry, str(subtask), own)


def _toml(entry: Mapping[str, Any], subtask: str, table: Mapping[str, Any]) -> str:
    title = str(entry.get("description") or entry["id"])
    if subtask:
        title = f"{title}: {subtask.replace('_', ' ')}"
    tags = ["agent", "code" if table["task_type"] == "code_exec" else "question answering"]
    lines = ['suite = "hf"', f"title = {_text(title)}", f"tags = {_text(tags)}"]
    if entry.get("objective"):
        lines.append(f"statement = {_text(str(entry['objective']).strip())}")
    lines += ["", "[qa]", *(f"{key} = {_text(value)}" for key, value in table.items())]
    sizes = {split: entry[f"num_{split}"] for split in _SIZES if f"num_{split}" in entry}
    if sizes:
        lines += ["", "[splits]", *(f"{split} = {size}" for split, size in sizes.items())]
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    """`value` as TOML, whose strings and numbers are JSON's."""
    return json.dumps(value, ensure_ascii=False)
