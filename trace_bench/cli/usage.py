"""What commands, options and arguments look like in help, and the sentences for mistakes in them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from trace_bench.errors import ConfigError

ORDER = (
    "run", "validate", "ls", "show", "logs", "llm", "ps", "attach", "cancel", "results", "compare", "report", "audit",
    "reproduce", "export", "import", "mirror", "rebuild", "diff", "rm", "gc", "list-tasks", "list-trainers", "new",
    "check-task", "images", "doctor", "clean", "schema",
)  # fmt: skip
"""Commands in the order of the help, which is that of the README."""

_TYPE = re.compile(r" <[^<>]*>$")


class Plain(TyperCommand):
    """A command whose arguments are named in capitals and nothing else: no braces, no types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = (re.sub(r"\{([^{}|]*)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx))
        return [piece.replace("......", "...") for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write = formatter.write_dl

        def write_plainly(rows: Sequence[tuple[str, str]], *args: Any, **kwargs: Any) -> None:
            write([(_TYPE.sub("", left), right) for left, right in rows], *args, **kwargs)

        formatter.write_dl = write_plainly
        try:
            super().format_options(ctx, formatter)
        finally:
            formatter.write_dl = write


class InOrder(TyperGroup):
    """Commands in `ORDER`; any others after them."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def plain(*apps: typer.Typer) -> None:
    """Make all commands of `apps` `Plain`."""
    for app in apps:
        for command in app.registered_commands:
            command.cls = Plain


# ------------------------------------------------------------------------------------------------------ arguments


def whole_number(text: str) -> int:
    """
    Raises:
        BadParameter: it is none.
    """
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"must be a whole number, not {_described(text)}") from None


def limit_in_seconds(text: str) -> float:
    """A limit in seconds, of which 0 is none.

    Raises:
        BadParameter: it is no finite number, or negative.
    """
    try:
        seconds = float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number of seconds, not {_described(text)}") from None
    if seconds < 0:
        raise typer.BadParameter(f"must be 0 (no limit) or more, not {text.strip()}")
    if not math.isfinite(seconds):
        raise typer.BadParameter(f"must be a finite number of seconds, or 0 for no limit, not {text.strip()}")
    return seconds


def confidence(text: str) -> float:
    """A confidence level.

    Raises:
        BadParameter: it is no number between 0.5 and 1.
    """
    try:
        level = float(text)
    except ValueError:
        level = math.nan
    if not 0.5 <= level < 1:
        raise typer.BadParameter(f"must be a number from 0.5 to below 1, as 0.95, not {_described(text)}")
    return level


def folders(roots: list[Path] | None) -> list[Path] | None:
    """The folders of ``--root``, which are there.

    Raises:
        ConfigError: one is not.
    """
    from trace_bench.artifacts.jsonio import printable

    for root in roots or []:
        if not root.is_dir():
            what = "it is a file" if root.exists() else "there is no such folder"
            raise ConfigError(f"--root {printable(str(root))}: {what}; name a folder that holds task folders")
    return roots


def _described(text: str) -> str:
    from trace_bench.arguments import describe

    return describe(text)


def sentence(error: Any) -> str:
    """`error`, a mistake in the arguments, as one sentence that ends in where to look."""
    command = error.ctx.command_path if error.ctx else "trace-bench"
    said = " ".join(error.format_message().split()).rstrip(".")
    parameter, message = getattr(error, "param", None), str(getattr(error, "message", ""))
    near = getattr(error, "possibilities", None)
    if parameter is not None and message.startswith("must be "):
        named = getattr(parameter, "metavar", None) or parameter.opts[0]  # of an argument; an option's is its value's
        name = next((name for name in parameter.opts if name.startswith("--")), named)
        said = f"{name} {message}"
    elif near:
        said = f"{error.message}; did you mean {' or '.join(sorted(near))}?"
    else:
        said = re.sub(r"\. Did you mean (.*)\?$", r"; did you mean \1?", said)
    return f"{said} See {command} --help" if said.endswith("?") else f"{said}; see {command} --help"
