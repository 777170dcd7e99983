"""What commands, options and arguments look like in help, and the sentences for mistakes in them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from trace_bench.errors import ConfigError, ExitCode

PANELS = {
    "Run": ("run", "validate"),
    "Look at runs": ("ls", "show", "logs", "llm", "ps", "attach", "cancel"),
    "Results": ("results", "compare", "report", "audit", "reproduce", "diff"),
    "Keep and share": ("export", "import", "mirror", "rebuild", "rm", "gc"),
    "Tasks and trainers": ("tasks", "trainers", "new", "check-task", "kernel-server"),
    "This machine": ("images", "harbor", "doctor", "clean", "schema"),
}
"""Commands by the panels of the help, in the order of the README."""
ORDER = tuple(name for names in PANELS.values() for name in names)

MOST_SEEDS = 10_000
FIRST_SEED = 123
"""The seed of a config that names none; a number of seeds counts from it."""

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


class Commands(dict[str, Any]):
    """The commands of typer apps by name. Each is made when it is asked for: all of them take a third of a start."""

    def __init__(self, *apps: typer.Typer) -> None:
        super().__init__()
        for app in apps:
            for command in app.registered_commands:
                command.cls = Plain
                assert command.callback is not None
                self[command.name or command.callback.__name__.replace("_", "-")] = command
            for group in app.registered_groups:
                assert group.typer_instance is not None
                for command in group.typer_instance.registered_commands:
                    command.cls = Plain
                self[str(group.name)] = group.typer_instance

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if not isinstance(found, TyperCommand | TyperGroup):
            app = found
            if not isinstance(app, typer.Typer):
                app = typer.Typer(add_completion=False, rich_markup_mode=None)
                app.registered_commands.append(found)
            found = self[name] = typer.main.get_command(app)
            found.name = name
        return found

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            return default
        return self[name]


class InPanels(TyperGroup):
    """A group that shows its commands in `PANELS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        wide = max(map(len, ORDER))
        for title, names in PANELS.items():
            with formatter.section(title):
                rows = [(name, self.commands[name].get_short_help_str(formatter.width - 6 - wide)) for name in names]
                formatter.write_dl([(name.ljust(wide), text) for name, text in rows])


def help_without_command(ctx: typer.Context) -> None:
    """Print the help of a group that is called without a command, which is a mistake."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(int(ExitCode.USAGE))


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


def seed_list(text: str) -> list[int]:
    """The seeds of ``--seeds``: ``5`` is five of them from the default seed on, ``1,2,7`` and ``7,`` are these.

    >>> seed_list("3"), seed_list("1,2,7"), seed_list("7,")
    ([123, 124, 125], [1, 2, 7], [7])

    Raises:
        ConfigError: it is neither.
    """
    words = [word.strip() for word in text.split(",")]
    try:
        numbers = [int(word) for word in words if word]
    except ValueError:
        numbers = []
    if not numbers or (len(words) == 1 and not 0 < numbers[0] <= MOST_SEEDS) or min(numbers) < 0:
        raise ConfigError(
            f"--seeds must be a number of seeds, such as 5, or seeds with commas, such as 1,2,7, not {_described(text)}"
        )
    return numbers if len(words) > 1 else [FIRST_SEED + n for n in range(numbers[0])]


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
    unknown = getattr(error, "option_name", None)
    if parameter is not None and message.startswith("must be "):
        named = getattr(parameter, "metavar", None) or parameter.opts[0]  # of an argument; an option's is its value's
        name = next((name for name in parameter.opts if name.startswith("--")), named)
        said = f"{name} {message}"
    elif unknown and message.startswith("No such option"):
        said = f"No such option: {unknown}{near_option(unknown, error.ctx)}"
    elif found := re.match(r"No such command '(.*?)'", message):
        said = f"No such command '{found[1]}'{_near(found[1], _shown_commands(error.ctx))}"
    return f"{said} See {command} --help" if said.endswith("?") else f"{said}; see {command} --help"


def near_option(unknown: str, ctx: Any) -> str:
    """What to say after the option `unknown` of a command: which one is near, or that a command should stand first."""
    known = [name for parameter in ctx.command.params if not getattr(parameter, "hidden", False)
             for name in parameter.opts if name.startswith("--")]  # fmt: skip
    near = _near(unknown, [*known, "--help"])
    return near or ("; options stand behind the command" if _shown_commands(ctx) else "")


def _shown_commands(ctx: Any) -> list[str]:
    commands = getattr(ctx.command, "commands", {})
    return [name for name in commands if not commands[name].hidden]


def _near(unknown: str, known: Sequence[str]) -> str:
    """``; did you mean 'x'?`` with the nearest of `known`; empty if none is near.

    A name that holds `unknown` as a word, or begins with it, is nearer than one that is spelt alike.

    >>> _near("--workers", ["--force", "--max-workers"]), _near("--confg", ["--config", "--json"])
    ('; did you mean --max-workers?', '; did you mean --config?')
    """
    from difflib import SequenceMatcher

    plain = unknown.replace("_", "-").lower()
    bare = plain.strip("-")

    def nearness(name: str) -> float:
        other = name.strip("-").lower()
        if bare and (other.startswith(bare) or bare in other.split("-") or other in bare.split("-")):
            return 1 + len(bare) / len(other)
        return SequenceMatcher(None, plain.strip("-"), other).ratio()

    best = max(known, key=nearness, default="")
    if not best or nearness(best) < 0.6:
        return ""
    return f"; did you mean {best}?" if best.startswith("-") else f"; did you mean '{best}'?"
