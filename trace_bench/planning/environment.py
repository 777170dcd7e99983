"""The variables that hold names and keys of models: those of the environment, then those of ``.env``.

Nothing of a ``.env`` file enters `os.environ`, a sandbox, or any file of a run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError

DOTENV = ".env"
MAX_BYTES = 1 << 20
"""Of a ``.env`` file."""
_ASSIGNMENT = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
        (?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<bare>[^\n]*))""",
    re.MULTILINE | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


@dataclass(frozen=True)
class Variables:
    """Named values, and the files of some of them. An empty variable counts as not set."""

    values: Mapping[str, str]
    files: Mapping[str, str]

    def get(self, name: str) -> str | None:
        return self.values.get(name, "").strip() or None

    def first(self, names: tuple[str, ...]) -> str | None:
        """The first of `names` that is set."""
        return next((name for name in names if self.get(name)), None)

    def origin(self, name: str) -> str:
        """``NAME``, or ``NAME in FILE``; never the value."""
        return f"{name} in {self.files[name]}" if name in self.files else name


def variables_of(config: RunConfig, environ: Mapping[str, str]) -> Variables:
    """`environ`, then ``.env`` beside `config`, then ``.env`` in the current folder: the first that has a name wins.

    Raises:
        ConfigError: a ``.env`` is there and cannot be read.
    """
    values, files = dict(environ), {}
    places = dict.fromkeys((Path(config.source.file).parent / DOTENV, Path(DOTENV)))
    for path in places:
        for name, value in read_dotenv(path).items():
            if not values.get(name, "").strip():
                values[name] = value
                files[name] = str(path)
    return Variables(values, files)


def read_dotenv(path: Path) -> dict[str, str]:
    """The assignments in a ``.env`` file; none if there is no such file. Other lines are ignored.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; give the right to read it, or move it away") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: has more than {MAX_BYTES} bytes; keep only variables in it")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8; save it as such") from None
    return {found["name"]: _value(found) for found in _ASSIGNMENT.finditer(text)}


def _value(found: re.Match[str]) -> str:
    if found["single"] is not None:
        return found["single"]
    if found["double"] is not None:
        return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), found["double"])
    return re.sub(r"(^|[ \t])#.*", "", found["bare"]).strip()
