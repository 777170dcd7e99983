"""Makes task folders of the rows of VeriBench that a user has on disk. On the host; no program of a row is executed.

The data set has the columns ``user_query``, ``code``, ``filename`` and ``category``. A row is a Python program and no
Lean: the template and the tests of its task come from annotations and assertions (`asserted`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trace_bench.errors import ConfigError
from trace_bench.suites.base import MadeTasks
from trace_bench.suites.veribench.asserted import Asserted, Untestable, asserted

_PROGRAM = re.compile(r"```(?:python|py)?\n(?P<program>.*?)```", re.S)
_NO_LETTERS = re.compile(r"\W+", re.ASCII)


class Row(NamedTuple):
    """A program of the data set."""

    name: str
    category: str
    program: str


def task_folders(source: Path) -> MadeTasks:
    """The task folders of the rows of `source`: a Parquet file, a file of JSON lines, or a folder with such files or
    with Python programs. A folder's name starts with the row's number, from 0.

    Raises:
        ConfigError: there is no row, or one cannot be read; the message names file and row.
    """
    if not source.exists():
        raise ConfigError(
            f"{source}: does not exist; name a .parquet or .jsonl file of VeriBench, or a folder with them"
        )
    rows = list(_rows(source))
    if not rows:
        raise ConfigError(f"{source}: holds no row; give a .parquet or .jsonl file of VeriBench, or a folder with them")
    made = MadeTasks({}, {})
    for number, row in enumerate(rows):
        name = f"{number:0{len(str(len(rows) - 1))}}_{row.name or f'task_{number}'}"
        try:
            made.folders[name] = _files(row, asserted(row.program))
        except Untestable as error:
            made.left_out[name] = str(error)
    return made


def _rows(source: Path) -> Iterator[Row]:
    try:
        if source.is_dir():
            files = sorted(path for path in source.rglob("*") if path.suffix in (".parquet", ".jsonl"))
            if files:
                for path in files:
                    yield from _rows(path)
            else:
                for path in sorted(source.rglob("*.py")):
                    yield _row({"filename": path.name, "category": path.parent.name, "code": _text(path)}, str(path))
        elif source.suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            try:
                table = pq.read_table(source).to_pylist()
            except pa.ArrowInvalid as error:
                raise ConfigError(f"{source}: is not a Parquet file: {error}") from None
            for number, values in enumerate(table):
                yield _row(values, f"{source}, row {number}")
        else:
            for number, line in enumerate(_text(source).split("\n"), 1):
                if line.strip():
                    yield _row(_object(line, f"{source}, line {number}"), f"{source}, line {number}")
    except OSError as error:
        raise ConfigError(f"{error.filename or source}: cannot be read: {error.strerror or error}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 (byte {error.start}); give a .parquet or .jsonl file") from None


def _object(line: str, place: str) -> Any:
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{place}: is not a JSON object ({error}); give a .parquet or .jsonl file") from None


def _row(values: Any, place: str) -> Row:
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"{place}: is not a JSON object; a row has the columns user_query, code, filename and category"
        )
    texts = {}
    for column in ("user_query", "code", "filename", "category"):
        value = values.get(column)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{place}, {column}: is no text")
        texts[column] = value or ""
    found = _PROGRAM.search(texts["user_query"])
    program = texts["code"] or (found["program"] if found else "")
    if not program.strip():
        columns = ", ".join(map(str, values)) or "nothing"
        raise ConfigError(f"{place}: has no Python program in 'code', nor in 'user_query'; it has {columns}")
    stem = texts["filename"].strip().removesuffix(".py").replace("\\", "/").rpartition("/")[2]
    return Row(_NO_LETTERS.sub("_", stem).strip("_"), texts["category"], program)


def _files(row: Row, found: Asserted) -> dict[str, str]:
    title = row.name.replace("_", " ") or "without a name"
    # Dealt by hashes: neighbours in a file are alike.
    pairs = sorted(found.cases, key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    tags = ["lean", *filter(None, [_NO_LETTERS.sub("_", row.category).strip("_")])]
    return {
        "task.toml": f"""\
suite = "veribench"
title = {_quoted(title[0].upper() + title[1:])}
tags = [{", ".join(map(_quoted, tags))}]
source = "VeriBench"
statement = {_quoted("Translate the program's functions, so that they return the same values.")}

[lean]
defines = [{", ".join(map(_quoted, found.defines))}]

[candidates]
template = "template.lean"
""",
        "program.py": found.program,
        "template.lean": found.template,
        "cases.toml": "".join(
            f"{split} = [\n" + "".join(f"  [{_quoted(call)}, {_quoted(value)}],\n" for call, value in dealt) + "]\n"
            for split, dealt in (("train", pairs[::2]), ("test", pairs[1::2] or pairs))
        ),
    }


def _quoted(text: str) -> str:
    """`text` as a string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
