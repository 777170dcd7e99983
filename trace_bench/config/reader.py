"""Reads a config file into tables and rows.

YAML is read with the rules of YAML 1.2's core schema: ``true`` and ``false`` are the only booleans; ``no``, ``off``,
``1:30`` and dates are strings; ``1e-3`` is a number. JSON is read as JSON and then placed by the same reader. Duplicate
keys, foreign tags, alias bombs and numbers that are not finite are problems, each with its line.
"""

from __future__ import annotations

import json
import math
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import yaml

from trace_bench.config.shipped import shipped_configs
from trace_bench.config.source import Problem, Rows, Table
from trace_bench.errors import ConfigError

MAX_BYTES = 1 << 20
"""Of a config file."""
MAX_VALUES = 100_000
"""Of all values of a config once its aliases are written out."""
MAX_DEPTH = 40


def read(path: Path, problems: list[Problem]) -> Table:
    """The mapping in the file at `path`; what is wrong but does not stop the reading is added to `problems`.

    Raises:
        ConfigError: the file cannot be read, or holds no mapping; one sentence.
    """
    text = _text(path)
    stripped = text.lstrip()
    if path.suffix.lower() == ".json" or (stripped[:1] == "{" and _is_json(stripped)):
        text = _checked_json(path, text)
    root = _node(path, text)
    if root is None:
        raise ConfigError(f"{path}: is empty; a config names at least its tasks (see docs/reference/config.md)")
    line = root.start_mark.line + 1
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        raise ConfigError(f"{path}, line {line}: holds {kind}; a config is a mapping of keys to values")
    reader = _Reader(problems)
    try:
        value = reader.value(root, ())
    except _Refused as refusal:
        raise ConfigError(f"{path}, line {refusal.line}: {refusal}") from None
    except RecursionError:
        raise ConfigError(f"{path}, line {line}: is nested too deeply to be a config") from None
    if not isinstance(value, Table):  # a tag on the whole of it
        raise ConfigError(f"{path}, line {problems[-1].line}: {problems[-1].text}")
    return value


def value_of(text: str) -> Any:
    """`text` as the value of a key: ``3`` is a number, ``true`` a boolean, ``[1, 2]`` a list.

    >>> value_of("3"), value_of("1e-3"), value_of("'3'"), value_of("no"), value_of("")
    (3, 0.001, '3', 'no', None)

    Raises:
        ConfigError: it is no value in YAML.
    """
    problems: list[Problem] = []
    try:
        node = _node(Path(), text)
        value = None if node is None else _Reader(problems).value(node, ())
    except (ConfigError, _Refused, RecursionError):
        raise ConfigError(f"{text[:40]!r} is no value in YAML; put it in quotes if it is a text") from None
    if problems:
        raise ConfigError(f"{text[:40]!r}: {problems[0].text}")
    return value


# --------------------------------------------------------------------------------------------------- text


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        near = get_close_matches(path.stem, shipped_configs(), n=1, cutoff=0.6)
        remedy = f"did you mean '{near[0]}.yaml'?" if near else "check the path"
        raise ConfigError(f"{path}: does not exist, and no shipped config has this name; {remedy}") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder; name the config file in it") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise ConfigError(f"{str(path)!r}: is no file name: {error}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {MAX_BYTES >> 20} MiB, which no config is; check the path")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: is not UTF-8; save the file as UTF-8") from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _checked_json(path: Path, text: str) -> str:
    """`text` with tabs between its tokens made spaces, once it is known to be JSON: YAML has no use for them."""

    def refuse(name: str) -> NoReturn:
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        if not text.strip():
            raise ConfigError(
                f"{path}: is empty; a config names at least its tasks (see docs/reference/config.md)"
            ) from None
        raise ConfigError(f"{path}, line {error.lineno}: is not valid JSON: {error.msg}") from None
    except ValueError as error:
        line = next((n for n, row in enumerate(text.splitlines(), 1) if str(error) in row), 1)
        raise ConfigError(f"{path}, line {line}: holds {error}, which is not a finite number") from None
    except RecursionError:
        raise ConfigError(f"{path}, line 1: is nested too deeply to be a config") from None
    # A valid document has no raw tab inside a string.
    return text.replace("\t", " ")


def _node(path: Path, text: str) -> yaml.Node | None:
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_yaml_sentence(path, error)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = f"U+{error.character:04X}"
        raise ConfigError(f"{path}, line {line}: holds the character {code}, which YAML forbids; delete it") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not valid YAML: {_one_line(str(error))}") from None
    except RecursionError:
        raise ConfigError(f"{path}, line 1: is nested too deeply to be a config") from None
    except ValueError as error:  # PyYAML's scanner on numbers such as \UFFFFFFFF
        raise ConfigError(f"{path}: is not valid YAML: {_one_line(str(error))}") from None
    finally:
        if loader is not None:
            loader.dispose()
    return node


def _yaml_sentence(path: Path, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = f", line {mark.line + 1}" if mark is not None else ""
    problem = _one_line(str(error.problem or error.context))
    if "'\\t'" in problem:
        return f"{path}{line}: is not valid YAML: a tab indents here; use spaces"
    if "found another document" in problem or "expected a single document" in str(error.context):
        return f"{path}{line}: a second document begins here; a config file holds one"
    context = f" ({_one_line(str(error.context))})" if error.context and error.problem else ""
    return f"{path}{line}: is not valid YAML: {problem}{context}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------------------------------------- values

_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL = {"", "~", "null", "Null", "NULL"}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"
_MAX_DIGITS = 400


class _Refused(Exception):
    """The document cannot be read on; carries the line."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with the core schema of YAML 1.2 in place of YAML 1.1's."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        if kind is yaml.MappingNode:
            return f"{_TAG}map"
        if kind is yaml.SequenceNode:
            return f"{_TAG}seq"
        if not implicit[0]:
            return f"{_TAG}str"
        if value == "<<":
            return f"{_TAG}merge"
        if value in _NULL:
            return f"{_TAG}null"
        if value in _BOOL:
            return f"{_TAG}bool"
        if _INT.fullmatch(value):
            return f"{_TAG}int"
        if _FLOAT.fullmatch(value) or _NOT_FINITE.fullmatch(value):
            return f"{_TAG}float"
        return f"{_TAG}str"


class _Reader:
    """Turns YAML nodes into tables, rows and scalars."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._count = 0

    def value(self, node: yaml.Node, above: tuple[int, ...]) -> Any:
        line = node.start_mark.line + 1
        self._count += 1
        if self._count > MAX_VALUES:
            raise _Refused(line, f"aliases make more than {MAX_VALUES} values of this config; write less")
        if id(node) in above:
            raise _Refused(line, "an alias refers to the value that it stands in; write the value out")
        if len(above) > MAX_DEPTH:
            raise _Refused(line, f"is nested deeper than {MAX_DEPTH} levels; no config key is")
        above = (*above, id(node))
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._table(node, above)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            rows = Rows((self.value(item, above) for item in node.value), line)
            rows.lines = [item.start_mark.line + 1 for item in node.value]
            return rows
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, line)
        self._problems.append(Problem(line, f"the tag {_short_tag(node.tag)} has no meaning in a config; delete it"))
        return None

    def _table(self, node: yaml.MappingNode, above: tuple[int, ...]) -> Table:
        table = Table(line=node.start_mark.line + 1)
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == f"{_TAG}merge":
                merged.append(value_node)
                continue
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag != f"{_TAG}str":
                shown = repr(key_node.value)[:40] if isinstance(key_node, yaml.ScalarNode) else "that is no string"
                self._problems.append(Problem(line, f"the key {shown} must be a string; put it in quotes"))
                continue
            key = self._string(key_node.value, line)
            value = self.value(value_node, above)
            if key in table:
                first = table.lines[key]
                self._problems.append(
                    Problem(line, f"the key {key!r} is given twice, first on line {first}; keep one of them")
                )
                continue
            table[key] = value
            table.lines[key] = line
        for other in merged:
            self._merge(table, other, above)
        return table

    def _merge(self, table: Table, node: yaml.Node, above: tuple[int, ...]) -> None:
        """``<<: *anchor``: adds what `table` does not have yet."""
        value = self.value(node, above)
        sources = value if isinstance(value, Rows) else [value]
        if not all(isinstance(source, Table) for source in sources):
            line = node.start_mark.line + 1
            self._problems.append(Problem(line, "'<<' takes a mapping or a list of mappings, such as *anchor"))
            return
        for source in sources:
            for key, item in source.items():
                if key not in table:
                    table[key] = item
                    table.lines[key] = source.lines[key]

    def _scalar(self, node: yaml.ScalarNode, line: int) -> Any:
        text: str = node.value
        match node.tag.removeprefix(_TAG):
            case "str":
                return self._string(text, line)
            case "null" if text in _NULL:
                return None
            case "bool" if text in _BOOL:
                return _BOOL[text]
            case "int" if _INT.fullmatch(text) and len(text) <= _MAX_DIGITS:
                return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
            case "int" | "float" if len(text) <= _MAX_DIGITS and _FLOAT.fullmatch(text):
                number = float(text)
                if math.isfinite(number):
                    return number
                self._problems.append(Problem(line, f"{text} is too large for a number; give a finite one"))
                return None
            case "int" | "float" if len(text) > _MAX_DIGITS:
                self._problems.append(Problem(line, f"a number of {len(text)} characters is too long; shorten it"))
                return None
            case "float" if _NOT_FINITE.fullmatch(text):
                self._problems.append(Problem(line, f"{text} is not a finite number; give one or leave the key out"))
                return None
        tag = _short_tag(node.tag)
        self._problems.append(Problem(line, f"the tag {tag} does not fit here or has no meaning; delete it"))
        return None

    def _string(self, text: str, line: int) -> str:
        """`text` with the surrogate pairs of JSON escapes joined."""
        if not any("\ud800" <= c <= "\udfff" for c in text):
            return text
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._problems.append(Problem(line, "a string holds half of a surrogate pair; write the character itself"))
            return text.encode("utf-8", "replace").decode()


def _short_tag(tag: str) -> str:
    return repr(f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag)
