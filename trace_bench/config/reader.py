"""Reads a config from a file or from Python data into tables and rows.

YAML is read with the rules of YAML 1.2's core schema: ``true`` and ``false`` are the only booleans; ``no``, ``off``,
``1:30`` and dates are strings; ``1e-3`` is a number. JSON is checked as JSON and then read as YAML, for its lines.
Duplicate keys, foreign tags, alias bombs and numbers that are not finite are problems, each with its line.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import yaml

from trace_bench.arguments import describe
from trace_bench.config.secrets import redact
from trace_bench.config.shipped import shipped_configs
from trace_bench.config.source import Path_, Place, Problem, Rows, Source, Table
from trace_bench.errors import ConfigError

MAX_BYTES = 1 << 20
"""Largest size of a config file."""
MAX_VALUES = 100_000
"""Largest number of values in a config. An alias counts as all values that it stands for."""
MAX_DEPTH = 40
_MAX_DIGITS = 400
_COLLECTIONS = (Mapping, list, tuple, range)
_TOO_DEEP = "is nested too deeply to be a config"


class _Refused(Exception):
    """The text or the data cannot be read further; carries the problem."""

    def __init__(self, text: str, line: int | None = None) -> None:
        super().__init__(text)
        self.problem = Problem(line, text)


def read(path: Path, problems: list[Problem]) -> Table:
    """Return the mapping in the file at `path`, and add the problems that do not stop the reading to `problems`.

    Raises:
        ConfigError: the file cannot be read, or holds no mapping; one sentence.
    """
    try:
        node = _node(_as_yaml(path, _text(path)))
        if node is None:
            raise _Refused("is empty; a config names at least its tasks (see docs/reference/config.md)")
        if not isinstance(node, yaml.MappingNode):
            kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
            raise _Refused(f"holds {kind}; a config is a mapping of keys to values", node.start_mark.line + 1)
        table = _value(node, problems)
    except _Refused as refusal:
        raise ConfigError(Source(str(path)).sentence(refusal.problem)) from None
    if not isinstance(table, Table):  # the mapping has a tag
        raise ConfigError(Source(str(path)).sentence(problems[-1]))
    return table


def read_mapping(data: Mapping[str, Any], file: str) -> Table:
    """Return Python data as a table without lines.

    Paths become strings, ranges and tuples become rows, and numbers of NumPy become Python's.

    Args:
        file: the name of `data` in messages.

    Raises:
        ConfigError: `data` is not a mapping, or holds values that no config can hold; one line per problem.
    """
    if not isinstance(data, Mapping):
        raise ConfigError(f"{file}: a config is a mapping of keys to values, not {describe(data)}")
    problems: list[Problem] = []
    try:
        table: Table = _Checker(data, problems).value(data)
    except _Refused as refusal:
        problems = [refusal.problem]
    if problems:
        raise ConfigError(redact("\n".join(map(Source(file).sentence, problems))))
    return table


def value_of(text: str) -> Any:
    """Return `text` as the value of a key: ``3`` is a number, ``true`` a boolean, ``[1, 2]`` a list.

    >>> value_of("3"), value_of("1e-3"), value_of("'3'"), value_of("no"), value_of("")
    (3, 0.001, '3', 'no', None)

    Raises:
        ConfigError: it is not a value in YAML.
    """
    problems: list[Problem] = []
    try:
        node = _node(text)
        value = None if node is None else _value(node, problems)
    except _Refused:
        raise ConfigError(f"{text[:40]!r} is not valid YAML; put text in quotes") from None
    if problems:
        raise ConfigError(f"{text[:40]!r}: {problems[0].text}")
    return value


def locale_here() -> str:
    """Return the variable that sets the locale of this process, and its encoding of file names."""
    name = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "LANG")
    return f"{name}={os.environ.get(name, '')}, {sys.getfilesystemencoding()}"


# --------------------------------------------------------------------------------------------------- text


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        near = get_close_matches(path.stem, shipped_configs(), n=1, cutoff=0.6)
        remedy = f"did you mean '{near[0]}.yaml'?" if near else "check the path"
        raise _Refused(f"does not exist, and no shipped config has this name; {remedy}") from None
    except IsADirectoryError:
        raise _Refused("is a folder; name the config file in it") from None
    except OSError as error:
        raise _Refused(f"cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise ConfigError(f"{str(path)!r}: is not a valid file name: {error}") from None
    if len(data) > MAX_BYTES:
        raise _Refused(f"is larger than {MAX_BYTES >> 20} MiB, the limit for a config; check the path")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Refused("is not UTF-8; save the file as UTF-8", data.count(b"\n", 0, error.start) + 1) from None


def _as_yaml(path: Path, text: str) -> str:
    """Return `text` in which YAML can be read: a JSON document without the tabs between its tokens."""
    named_json = path.suffix.lower() == ".json" and bool(text.strip())
    if not named_json and text.lstrip()[:1] != "{":
        return text
    constants: list[str] = []
    try:
        json.loads(text, parse_constant=constants.append)
    except json.JSONDecodeError as error:
        if named_json:
            raise _Refused(f"is not valid JSON: {error.msg}", error.lineno) from None
        return text
    except RecursionError:
        raise _Refused(_TOO_DEEP, 1) from None
    except ValueError:  # a number with too many digits, which YAML refuses with its line
        constants.clear()
    if constants:
        line = next((n for n, row in enumerate(text.splitlines(), 1) if constants[0] in row), 1)
        raise _Refused(f"holds {constants[0]}, which is not a finite number", line)
    # A valid document has no raw tab inside a string.
    return text.replace("\t", " ")


# --------------------------------------------------------------------------------------------------- YAML

_TAG = "tag:yaml.org,2002:"
_MAP, _SEQ, _STR, _MERGE = (f"{_TAG}{name}" for name in ("map", "seq", "str", "merge"))
_NUMBER = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
_CORE = {
    "null": (re.compile(r"(~|null|Null|NULL)?\Z"), ["", *"~nN"]),
    "bool": (re.compile(r"(true|True|TRUE|false|False|FALSE)\Z"), [*"tTfF"]),
    "int": (re.compile(r"([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), [*"-+0123456789"]),
    "float": (re.compile(rf"({_NUMBER}|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z"), [*"-+.0123456789"]),
    "merge": (re.compile(r"<<\Z"), ["<"]),
}
"""Patterns of YAML 1.2's core schema, with the characters that a value can begin with."""


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with the core schema of YAML 1.2 in place of YAML 1.1's."""


_Loader.yaml_implicit_resolvers = {
    first: [(_TAG + name, pattern) for name, (pattern, begins) in _CORE.items() if first in begins]
    for first in {character for _, begins in _CORE.values() for character in begins}
}


def _node(text: str) -> yaml.Node | None:
    """Parse `text`; None if it is empty."""
    try:
        return _Loader(text).get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _Refused(f"holds the character U+{error.character:04X}, which YAML forbids; delete it", line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem, context = (" ".join((part or "").split()) for part in (error.problem, error.context))
        sentence = f"is not valid YAML: {problem}" + (f" ({context})" if context else "")
        if "'\\t'" in problem:
            sentence = "is not valid YAML: a tab indents here; use spaces"
        elif "found another document" in problem:
            sentence = "a second document begins here; a config file holds one"
        raise _Refused(sentence, mark.line + 1 if mark is not None else None) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML on numbers such as \UFFFFFFFF
        raise _Refused(f"is not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise _Refused(_TOO_DEEP, 1) from None


def _value(node: yaml.Node, problems: list[Problem]) -> Any:
    """Return the value of `node`. Aliases are written out; problems that leave a value are added to `problems`."""
    try:
        value = _Builder(problems).value(node)
    except RecursionError:
        raise _Refused(_TOO_DEEP, 1) from None
    return _Checker(value, problems).value(value)


class _Builder:
    """Turns YAML nodes into tables, rows and scalars. A node with several aliases becomes one shared value."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._values: dict[yaml.Node, Any] = {}
        """Values by node; ``self`` for a node whose value is not complete."""

    def value(self, node: yaml.Node) -> Any:
        if node not in self._values:
            self._values[node] = self
            self._values[node] = self._made(node)
        elif self._values[node] is self:
            text = "an alias refers to the value that it stands in; write the value out"
            raise _Refused(text, node.start_mark.line + 1)
        return self._values[node]

    def _made(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if node.tag == _MAP and isinstance(node, yaml.MappingNode):
            return self._table(node)
        if node.tag == _SEQ and isinstance(node, yaml.SequenceNode):
            rows = Rows(map(self.value, node.value), node.start_mark.line + 1)
            rows.lines = [item.start_mark.line + 1 for item in node.value]
            return rows
        self._problem(node, f"the tag {_short(node.tag)} has no meaning in a config; delete it")
        return None

    def _table(self, node: yaml.MappingNode) -> Table:
        table = Table(line=node.start_mark.line + 1)
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            key, line = key_node.value, key_node.start_mark.line + 1
            if key_node.tag == _MERGE:
                merged.append(value_node)
            elif key_node.tag != _STR or not isinstance(key_node, yaml.ScalarNode):
                shown = f"the key {describe(key)}" if isinstance(key_node, yaml.ScalarNode) else "a key"
                self._problem(key_node, f"{shown} must be a string; put it in quotes")
            elif key in table:
                first = table.place(key).line
                self._problem(key_node, f"the key {key!r} is given twice, first on line {first}; keep one of them")
            else:
                table.put(key, self.value(value_node), Place(line))
        for other in merged:  # "<<: *anchor" adds what the table does not have
            value = self.value(other)
            sources = value if isinstance(value, Rows) else [value]
            if not all(isinstance(source, Table) for source in sources):
                self._problem(other, "'<<' takes a mapping or a list of mappings, such as *anchor")
                continue
            for source in sources:
                for key, item in source.items():
                    if key not in table:
                        table.put(key, item, source.place(key))
        return table

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text, kind = node.value, node.tag.removeprefix(_TAG)
        if kind == "str":
            return text
        if kind in ("null", "bool", "int", "float") and _CORE[kind][0].match(text):
            if kind == "null":
                return None
            if kind == "bool":
                return text.lower() == "true"
            if len(text) > _MAX_DIGITS:
                self._problem(node, f"a number of {len(text)} characters is too long; shorten it")
                return None
            if kind == "int":
                return int(text, 0) if text[:2] in ("0x", "0o") else int(text)
            return float(re.sub(r"\.(?=[a-z])", "", text.lower()))
        self._problem(node, f"the tag {_short(node.tag)} does not fit here or has no meaning; delete it")
        return None

    def _problem(self, node: yaml.Node, text: str) -> None:
        self._problems.append(Problem(node.start_mark.line + 1, text))


def _short(tag: str) -> str:
    return repr(f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag)


# ------------------------------------------------------------------------------------------------- values


class _Checker:
    """Copies the values of a config, and checks their number, depth and kinds. A problem names its key."""

    def __init__(self, root: Any, problems: list[Problem]) -> None:
        self._source = Source(root=root)
        self._noun = "the config" if isinstance(root, Mapping) else "the value"
        self._problems = problems
        self._count = 0

    def value(self, value: Any, path: Path_ = (), above: tuple[int, ...] = ()) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            text = f"holds more than {MAX_VALUES} values (aliases count), the limit for a config"
            raise _Refused(text, self._source.problem(path, "").line)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._string(str(value), path)
        if not isinstance(value, _COLLECTIONS):
            return self._scalar(value, path)
        line = getattr(value, "line", None)
        if id(value) in above:
            raise _Refused(f"{self._source.shown(path)} contains itself; write the value out", line)
        if len(above) > MAX_DEPTH:
            raise _Refused(f"is nested deeper than {MAX_DEPTH} levels, the limit for a config", line)
        above = (*above, id(value))
        if not isinstance(value, Mapping):
            rows = Rows((self.value(item, (*path, index), above) for index, item in enumerate(value)), line)
            rows.lines = list(getattr(value, "lines", ()))
            return rows
        table = Table(line=line)
        table.places = dict(getattr(value, "places", {}))
        for key, item in value.items():
            if isinstance(key, str):
                table[self._string(key, path)] = self.value(item, (*path, key), above)
            else:
                self._problem(path, f"has the key {describe(key)}; a key is a string")
        return table

    def _scalar(self, value: Any, path: Path_) -> Any:
        if isinstance(value, os.PathLike):
            return self._string(os.fsdecode(value), path)
        if isinstance(value, Integral):
            return int(value)
        if not isinstance(value, Real):
            text = f"is {describe(value)}; write a string, a number, true or false, a list or a mapping"
        elif not math.isfinite(value):
            text = f"is {float(value)}; give a finite number or leave the key out"
        else:
            return float(value)
        self._problem(path, text)
        return None

    def _string(self, text: str, path: Path_) -> str:
        """Return `text` with the surrogate pairs of JSON escapes joined.

        Python makes lone surrogates of bytes that are not text in the locale, such as those of a file's name.
        """
        try:
            text.encode()
            return text
        except UnicodeEncodeError:
            pass
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            of_bytes = all("\udc80" <= character <= "\udcff" for character in re.findall("[\ud800-\udfff]", text))
            if of_bytes and self._source.problem(path, "").line is None:
                remedy = f"({locale_here()}); set a UTF-8 locale, or rename the file in UTF-8"
                self._problem(path, f"is not valid text in this locale {remedy}")
            else:
                self._problem(path, "holds half of a surrogate pair; write the character itself")
            return text.encode("utf-8", "replace").decode()

    def _problem(self, path: Path_, text: str) -> None:
        self._problems.append(self._source.problem(path, f"{self._source.shown(path) or self._noun} {text}"))
