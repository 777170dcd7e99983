"""Makes a task of labelled examples in a CSV file or a file of JSON lines: its ``task.toml``, and the rows of each
split. On the host.

The examples are dealt by the SHA-256 of a seed and their content: two fifths for training, one for validation, two held
out. The file keeps its own column names; the columns that the task does not read are left out.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from trace_bench.arguments import hint
from trace_bench.errors import ConfigError
from trace_bench.suites.base import Columns
from trace_bench.suites.data_files import FOLDER
from trace_bench.suites.hf import wrong_answers
from trace_bench.suites.hf.columns import Row
from trace_bench.suites.hf.described import METRICS
from trace_bench.suites.hf.metrics.number import number_of
from trace_bench.suites.hf.metrics.spans import normalised
from trace_bench.suites.hf.rows import item_of
from trace_bench.suites.splits import SPLITS, Split
from trace_bench.suites.task_files import MAX_TASK_BYTES

KINDS: Mapping[str, str] = {
    "exact": "exact", "contains": "contains", "f1": "hfqa", "number": "gsm8k", "choice": "mcqa", "judge": "judged",
}  # fmt: skip
"""By the name of a metric for users: the kind of question (`trace_bench.suites.hf.described.METRICS`)."""
START = "Answer the question. Put the answer alone on a last line that begins with 'Answer:'."
"""The prompt that a search starts from."""
_WORDS = ("exact", "contains", "span")
"""Metrics that compare words, without punctuation and articles."""
_SHARES: Mapping[Split, int] = {"train": 2, "validate": 1, "test": 2}
_MOST = 100
"""Examples of a split that a job takes, unless its config says otherwise: each is a call of a model."""


@dataclass(frozen=True)
class _Example:
    line: int
    row: Mapping[str, Any]


def task_texts(source: Path, columns: Columns, metric: str, seed: int, title: str) -> dict[str, str]:
    """Return the texts of the files of a task by their paths in its folder.

    Args:
        metric: a key of `KINDS`.
        seed: of the split.

    Raises:
        ConfigError: the metric is unknown, or the file cannot be read, lacks a column, or has too few examples.
    """
    if metric not in KINDS:
        raise ConfigError(f"--metric {metric}: unknown metric{hint(metric, KINDS)}")
    if (metric == "choice") != bool(columns.options):
        raise ConfigError(
            "--metric choice needs --options COLUMN (a list of texts), or --options A,B,C (a column for each option)"
            if metric == "choice"
            else f"--options is for --metric choice, and the metric is {metric}"
        )
    qa = {"task_type": KINDS[metric], "question_field": columns.question, "answer_field": columns.answer}
    if columns.options:
        qa["options_field"] = " / ".join(columns.options)
    content = _content(source)
    examples = _checked(source, _examples(source, content, columns), qa)
    if len(examples) < len(SPLITS):
        raise ConfigError(
            f"{source}: has {len(examples)} different examples; a task needs at least {len(SPLITS)}, one each for "
            "training, validation and the held-out test"
        )
    dealt = _dealt(examples, seed)
    digest = hashlib.sha256(content.encode()).hexdigest()
    texts = {f"{FOLDER}/{split}/rows.jsonl": "".join(lines) for split, lines in dealt.items()}
    return {"task.toml": _toml(_named(source), digest, dealt, qa, seed, title), **texts}


def _content(source: Path) -> str:
    if source.suffix.lower() not in (".csv", ".jsonl", ".ndjson"):
        raise ConfigError(f"--prompt {source}: unknown extension; use .csv or .jsonl")
    try:
        if source.exists() and not source.is_file():
            raise ConfigError(f"{source}: is not a file; name a file of examples")
        if source.stat().st_size > MAX_TASK_BYTES // 2:
            raise ConfigError(f"{source}: has more than {MAX_TASK_BYTES >> 21} MiB; keep some of the examples")
        raw = source.read_bytes()
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read: {error.strerror or error}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{source}, line {line}: is not UTF-8; save the file as UTF-8") from None
    if not text.strip():
        raise ConfigError(f"{source}: is empty; give a header and examples, or JSON lines")
    return text


def _examples(source: Path, content: str, columns: Columns) -> Iterator[_Example]:
    """The examples with the columns that the task reads."""
    wanted = (columns.question, columns.answer, *columns.options)
    read = _csv if source.suffix.lower() == ".csv" else _json_lines
    for line, raw in read(source, content, wanted):
        if any("\ud800" <= c <= "\udfff" for c in json.dumps(raw, ensure_ascii=False)):
            raise ConfigError(f"{source}, line {line}: has half of a surrogate pair; write the character itself")
        for column in wanted:
            if column not in raw:
                raise _missing(source, line, column, raw)
        row = {name: raw[name] for name in (columns.question, columns.answer)}
        if len(columns.options) > 1:
            row[" / ".join(columns.options)] = [raw[name] for name in columns.options if raw[name] not in ("", None)]
        elif columns.options:
            row[columns.options[0]] = _listed(raw[columns.options[0]])
        yield _Example(line, row)


def _missing(source: Path, line: int, column: str, known: Mapping[str, Any] | Sequence[str]) -> ConfigError:
    names = [name for name in known if name]
    return ConfigError(
        f"{source}, line {line}: has no column {column!r}{hint(column, names)}; name yours with --input, --target "
        f"or --options (found: {', '.join(names) or 'none'})"
    )


def _csv(source: Path, content: str, wanted: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    header: list[str] | None = None
    before = 0
    try:
        for cells in reader:
            line, before = before + 1, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                if twice := [name for name in header if name and header.count(name) > 1]:
                    raise ConfigError(f"{source}, line {line}: has two columns {twice[0]!r}; rename one of them")
                if lacking := [name for name in wanted if name not in header]:
                    raise _missing(source, line, lacking[0], header)
            elif len(cells) != len(header):
                raise ConfigError(
                    f"{source}, line {line}: has {len(cells)} cells, and the header has {len(header)}; quote a cell "
                    "with a comma in it"
                )
            else:
                yield line, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise ConfigError(f"{source}, line {before + 1}: is not CSV: {error}") from None


def _json_lines(source: Path, content: str, wanted: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, text in enumerate(content.split("\n"), 1):
        if not text.strip():
            continue
        try:
            row = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{source}, line {line}: is not a JSON object: {error}") from None
        if not isinstance(row, dict):
            raise ConfigError(f"{source}, line {line}: is not a JSON object; give one on each line")
        yield line, row


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"it has the key {twice[0]!r} twice")
    return dict(pairs)


def _listed(value: Any) -> Any:
    """Options of one column: a list, or the JSON text of one in a cell of CSV. Another value is refused later."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _checked(source: Path, examples: Iterator[_Example], qa: Mapping[str, str]) -> list[_Example]:
    """The examples whose question and answer the metric understands. One that is there twice counts once.

    Raises:
        ConfigError: an example cannot be read, or one question has two answers.
    """
    seen: dict[tuple[str, str], _Example] = {}
    kept: list[_Example] = []
    for one in examples:
        where = f"{source}, line {one.line}"
        try:
            item = item_of(one.row, qa)
        except ValueError as error:
            raise ConfigError(f"{where}: {str(error).removeprefix(f'row {Row(one.row).name!r}: ')}") from None
        if METRICS[qa["task_type"]] in _WORDS and not normalised(item.answer):
            raise ConfigError(
                f"{where}: column {qa['answer_field']!r} is {item.answer!r}, which has no words: metrics of words "
                "leave out punctuation and the articles 'a', 'an' and 'the'; use other labels, or --metric choice"
            )
        if METRICS[qa["task_type"]] == "number" and not _same_number(_answer(one, qa)):
            raise ConfigError(
                f"{where}: column {qa['answer_field']!r} is {_answer(one, qa)!r}, in which the metric reads another "
                "number than is meant; write digits with a decimal point, such as 1234.5"
            )
        asked = (item.question, json.dumps(item.options))
        if (before := seen.setdefault(asked, one)) is one:
            kept.append(one)
        elif before.row != one.row:
            raise ConfigError(
                f"{where}: asks the same as line {before.line}, with {qa['answer_field']!r} written otherwise; keep one"
            )
    return kept


def _same_number(answer: str) -> bool:
    """Whether the metric reads the number that `answer` was taken for, as it does not in "3,5"."""
    taken = wrong_answers.number_of(answer)
    return taken is not None and Fraction(taken) == number_of(answer)


def _answer(one: _Example, qa: Mapping[str, str]) -> str:
    return str(one.row[qa["answer_field"]]).rpartition("####")[2].strip()


def _named(source: Path) -> str:
    """The name of the file, with U+FFFD for what is not UTF-8."""
    return source.name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _dealt(examples: Sequence[_Example], seed: int) -> dict[Split, list[str]]:
    """The lines of each split, of which none is empty."""
    lines = [json.dumps(one.row, ensure_ascii=False) + "\n" for one in examples]
    lines.sort(key=lambda line: hashlib.sha256(f"trace-bench/examples/{seed}/{line}".encode()).digest())
    sizes = {split: max(1, len(lines) * _SHARES[split] // sum(_SHARES.values())) for split in ("validate", "test")}
    ends = (len(lines) - sizes["validate"] - sizes["test"], len(lines) - sizes["test"])
    return {"train": lines[: ends[0]], "validate": lines[ends[0] : ends[1]], "test": lines[ends[1] :]}


def _toml(
    name: str, digest: str, dealt: Mapping[Split, Sequence[str]], qa: Mapping[str, str], seed: int, title: str
) -> str:
    counts = ", ".join(f"{split} {len(lines)}" for split, lines in dealt.items())
    made = f"{name} (SHA-256 {digest}), dealt by seed {seed}: {counts}"
    table = {"rows": "folder", "dataset_id": name, **qa, "initial_instructions": START}
    lines = [
        f"title = {_text(title)}",
        'tags = ["agent", "question answering"]',
        "# The examples of a split follow from their content and the seed alone. Held-out ones are in data/test.",
        f"source = {_text(made)}",
        "",
        "[qa]",
        *(f"{key} = {_text(value)}" for key, value in table.items()),
        "",
        "# Examples that a job takes of each split. Each is a call of a model.",
        "[splits]",
        *(f"{split} = {min(len(rows), _MOST)}" for split, rows in dealt.items()),
    ]
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    """`value` as TOML, whose strings are JSON's."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
