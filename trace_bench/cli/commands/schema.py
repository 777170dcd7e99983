"""``schema``: prints the schema of a file of a run, of its table, or of a config."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from trace_bench.display.console import emit, emit_block
from trace_bench.errors import ConfigError
from trace_bench.resources import data_dir


def schema(
    name: Annotated[str | None, Argument(metavar="NAME", help="A schema; all names if none is given.")] = None,
) -> None:
    """Print the schema of a file of a run, or of a config.

    Example: trace-bench schema config
    """
    folder = data_dir("schemas")
    names = sorted(path.name.removesuffix(".schema.json") for path in folder.glob("*.schema.json"))
    if name is None:
        for known in names:
            emit(known)
    elif (name := name.removesuffix(".json")) not in names:
        raise ConfigError(f"there is no schema {name!r}; known are {', '.join(names)}")
    else:
        emit_block((folder / f"{name}.schema.json").read_text(encoding="utf-8").rstrip("\n"))
