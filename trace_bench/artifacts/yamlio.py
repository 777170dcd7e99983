"""State files: YAML in which code reads as code, and from which exactly the same text comes back.

PyYAML writes a text with a trailing blank or a tab as one long quoted line. Code has many of those, so text
of several lines is written here as a literal block wherever YAML can hold it exactly, and quoted where it
cannot (``\\r`` and other characters that a YAML reader turns into line ends, control characters) or where it would
not be seen for what it is (text that is turned around, characters without width).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from trace_bench.artifacts.contract import Value
from trace_bench.artifacts.writers import write_text
from trace_bench.display.text import HIDDEN, quoted
from trace_bench.errors import HarnessError

# What a YAML reader leaves alone inside a literal block: printable, and not one of its line ends but "\n".
_LITERAL = re.compile("[\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]*")
_INDENT = "  "
_LONGEST_KEY = 1000


def dump_state(state: Mapping[str, Value]) -> str:
    """`state` as YAML.

    Raises:
        HarnessError: the text does not read back to `state` (a value that is not text or a finite number).
    """
    text = "".join(f"{_key(name)}: {_value(value)}\n" for name, value in state.items()) or "{}\n"
    try:
        text.encode("utf-8")
        same = _identical(load_state(text), dict(state))
    except ValueError:
        same = False
    if not same:
        raise HarnessError(
            f"the state of {quoted(', '.join(map(str, state)))} cannot be written as YAML; "
            "values are text and finite numbers"
        )
    return text


def dump_document(document: Mapping[str, Any]) -> str:
    """Plain data as YAML, keys in their order."""
    text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=120)
    return text


def load_state(text: str) -> dict[str, Value]:
    """The state in `text`.

    Raises:
        ValueError: it is not a mapping of names to text and numbers.
    """
    try:
        state: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"it is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(state, dict):
        raise ValueError("a state is a mapping of parameter names to values")
    for name, value in state.items():
        if not isinstance(name, str) or isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"the parameter {name!r} must be text or a number")
        if isinstance(value, str) and not _encodable(value):
            raise ValueError(f"the parameter {name!r} holds half of a surrogate pair")
    return state


def write_state(path: Path, state: Mapping[str, Value], *, durable: bool = True) -> None:
    """Replace `path` by `state` in one step."""
    write_text(path, dump_state(state), durable=durable)


def read_state(path: Path) -> dict[str, Value]:
    """The state in `path`.

    Raises:
        ValueError: as `load_state`, with the path.
    """
    try:
        # Not read_text: it would turn "\r\n" into "\n".
        return load_state(path.read_bytes().decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _value(value: Value) -> str:
    if isinstance(value, str) and "\n" in value and _is_literal(value) and value.strip("\n"):
        return _block(value)
    return _scalar(value)


def _is_literal(text: str) -> bool:
    """True for what reads in a block as it is. Source that is written to be misread is quoted, with escapes."""
    return _LITERAL.fullmatch(text) is not None and HIDDEN.search(text) is None


def _block(text: str) -> str:
    body = text.rstrip("\n")
    trailing = len(text) - len(body)
    chomp = {0: "-", 1: ""}.get(trailing, "+")
    # The indent is named where a reader would guess it wrong: a first line that is blank or starts so.
    hint = str(len(_INDENT)) if body[0] in " \n\t" else ""
    lines = [_INDENT + line if line else "" for line in body.split("\n")]
    return f"|{hint}{chomp}\n" + "\n".join(lines) + "\n" * (trailing - 1 if trailing > 1 else 0)


def _key(name: str) -> str:
    """A name as a key: on one line, and announced where a reader would not look that far for its colon."""
    text = _scalar(name)
    if "\n" in text:
        text = _scalar(name, '"')
    return f"? {text}\n" if len(text) > _LONGEST_KEY else text


def _scalar(value: Value, style: str | None = None) -> str:
    text = yaml.safe_dump(value, allow_unicode=True, width=float("inf"), default_style=style or _quotes(value))
    return HIDDEN.sub(_escape, text.removesuffix("\n").removesuffix("\n..."))


def _escape(match: re.Match[str]) -> str:
    """Return the escape of a hidden character; the remaining ones are inside double quotes."""
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def _quotes(value: Value) -> str | None:
    return '"' if isinstance(value, str) and not (value.isidentifier() or value.isascii()) else None


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _identical(a: Any, b: Any) -> bool:
    """Equal, and of equal types: 1 is not 1.0 is not True."""
    return a == b and all(type(a[name]) is type(b[name]) for name in b)
