"""The command line: the names of all commands. The module of a command is imported when it is used.

The command ``check-task`` is the function `check_task` of `trace_bench.cli.commands.check_task`. A group such
as ``images`` is a module with a tuple `COMMANDS` of such functions. ``--help`` prints the docstring of the function, or
of the group's module; its last paragraph is an example.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import cleandoc
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from trace_bench import __version__
from trace_bench.cli import complete
from trace_bench.errors import ConfigError, ExitCode
from trace_bench.secrets import known, secrets_in

PANELS: Mapping[str, Mapping[str, str]] = {
    "Run": {
        "run": "Run tasks with trainers, and print the leaderboard.",
        "validate": "Check a config and build its problems; nothing is trained.",
        "evaluate": "Score one state of a task, on each example.",
    },
    "Look at runs": {
        "ls": "Print the runs, one a line: running ones, then the newest.",
        "show": "Print a run with its jobs and leaderboard, or one job.",
        "logs": "Print the journal of a run, or the output of a job.",
        "llm": "Print the LLM calls of a run, or of one job.",
        "ps": "Print the sandboxes of yours that exist now.",
        "attach": "Watch a run of another terminal until it has ended.",
        "cancel": "End a run, or some of its jobs; finished jobs are kept.",
    },
    "Results": {
        "results": "Print means with intervals, by task and trainer, say.",
        "compare": "Compare runs, or parts of one, fairly.",
        "report": "Write a page with the pictures, tables and diffs of runs.",
        "audit": "Check every claim of a run against its files.",
        "reproduce": "Make a run again from its folder or archive, and compare.",
        "diff": "Show what differs between two jobs, and where first.",
    },
    "Keep and share": {
        "export": "Write a run as an archive with checksums, or as a table.",
        "import": "Unpack the run of an archive, which is not trusted.",
        "mirror": "Copy a run to MLflow, or to TensorBoard's files.",
        "rebuild": "Derive a run's tables again from its jobs' files.",
        "rm": "Remove runs for good.",
        "gc": "Remove what is no longer needed.",
    },
    "Tasks and trainers": {
        "tasks": "List tasks with titles, tags and what they ask for.",
        "trainers": "List trainers with what they do, or show all about some.",
        "new": "Make a config, a task or a trainer to start from.",
        "check-task": "Run the programs that come with tasks; say what they score.",
        "kernel-server": "Score kernels that come over HTTP, each in a sandbox.",
    },
    "This machine": {
        "data": "Get published data sets that tasks can read.",
        "images": "Build, check, push and pull the images that jobs run in.",
        "harbor": "Install Harbor, which runs the trials of terminal_bench.",
        "doctor": "Say what this machine has and lacks.",
        "clean": "Remove sandboxes that controllers of yours left behind.",
        "schema": "Print the schema of a file of a run, or of a config.",
    },
}
"""The commands with a line about each, by the panels of the help, in the order of the README."""
ORDER = tuple(name for commands in PANELS.values() for name in commands)
OLDER = ("list-tasks", "list-trainers")
"""Older forms of commands, which no help or completion shows."""
OLDER_OPTIONS = {"--dataset-name": "--bench", "--n-concurrent": "--max-workers", "--output-dir": "--runs-dir"}
"""Names of options in the Trace-Bench prototype. Every command that has an option takes its older name too."""
UNWRAPPED = 100_000
"""Columns of help that goes into a pipe or a file."""

# typer depended on click and now brings a copy of its own; in both, this is the base of every mistake in arguments.
_UsageError: Any = typer.BadParameter.__base__


def run_app() -> int:
    """Do what the command line says; returns the exit code.

    Raises:
        TraceBenchError: with its own exit code; a `ConfigError` for a mistake in the arguments.
    """
    # Nothing that a command prints, or writes for others to read, holds a secret of this environment.
    known.add(secrets_in(os.environ))
    shell = os.environ.get("_TRACE_BENCH_COMPLETE", "")
    if not shell.startswith("complete_"):
        return _answer()
    with complete.without_rich():
        return complete.whole_in_bash(_answer) if shell == "complete_bash" else _answer()


def _answer() -> int:
    wide = {} if sys.stdout.isatty() else {"terminal_width": UNWRAPPED, "max_content_width": UNWRAPPED}
    try:
        code = root_command()(prog_name="trace-bench", standalone_mode=False, **wide)
    except _UsageError as error:
        from trace_bench.cli.mistakes import sentence

        raise ConfigError(sentence(error)) from error
    if code == ExitCode.INTERRUPTED:  # what typer makes of a KeyboardInterrupt
        raise KeyboardInterrupt
    return code if isinstance(code, int) else int(ExitCode.OK)


def root_command() -> Any:
    """The whole command line, as typer hands it to its click."""
    app = typer.Typer(
        name="trace-bench",
        cls=LazyCommands,
        help="Measure LLM-driven optimizers: isolated jobs, scores that cannot be forged, runs that can be repeated.",
        epilog="Example: trace-bench run smoke.yaml",
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_top)
    return typer.main.get_command(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trace-bench {__version__}")
        raise typer.Exit


def _top(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    _help_without_command(ctx)


def _help_without_command(ctx: typer.Context) -> None:
    """Print the help of a group that is called without a command, which is a mistake."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(int(ExitCode.USAGE))


# --------------------------------------------------------------------------------------------------------- loading


class LazyCommands(TyperGroup):
    """The commands of `PANELS` and `OLDER`. All of them would take a third of a start."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(ORDER)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in (*ORDER, *OLDER):
            self.commands[cmd_name] = load(cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        wide = max(map(len, ORDER))
        for title, commands in PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(wide), line) for name, line in commands.items()])


class PlainCommand(TyperCommand):
    """A command whose help names arguments in capitals and nothing else: no braces, no types, no `OLDER_OPTIONS`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {name for parameter in self.params for name in parameter.opts}
        ours = args[: args.index("--")] if "--" in args else args
        renamed = []
        for arg in ours:
            name, equals, value = arg.partition("=")
            newer = OLDER_OPTIONS.get(name)
            renamed.append(f"{newer}{equals}{value}" if newer in known else arg)
        parsed: list[str] = super().parse_args(ctx, [*renamed, *args[len(ours) :]])
        return parsed

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = (re.sub(r"\{([^{}|]*)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx))
        return [piece.replace("......", "...") for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write = formatter.write_dl

        def write_plainly(rows: Sequence[tuple[str, str]], *args: Any, **kwargs: Any) -> None:
            write([(re.sub(r" <[^<>]*>$", "", left), right) for left, right in rows], *args, **kwargs)

        formatter.write_dl = write_plainly
        try:
            super().format_options(ctx, formatter)
        finally:
            formatter.write_dl = write


def load(name: str) -> Any:
    """The command or group `name`, from its module."""
    identifier = _identifier(name)
    module = import_module(f"trace_bench.cli.commands.{identifier}")
    functions = getattr(module, "COMMANDS", ())
    app = typer.Typer(add_completion=False, rich_markup_mode=None, invoke_without_command=True)
    for function in functions or (getattr(module, identifier),):
        text, example = _help(function)
        app.command(_name(function), cls=PlainCommand, help=text, epilog=example)(function)
    if functions:
        text, example = _help(module)
        app.info.help, app.info.epilog, app.info.callback = text, example, _help_without_command
    found: Any = typer.main.get_command(app)
    found.name = name
    return found


def _identifier(name: str) -> str:
    """The command's function and module.

    >>> _identifier("check-task"), _identifier("import")
    ('check_task', 'import_')
    """
    return f"{name}_" if iskeyword(name) else name.replace("-", "_")


def _name(function: Callable[..., Any]) -> str:
    return function.__name__.rstrip("_").replace("_", "-")


def _help(documented: Any) -> tuple[str, str]:
    """The text of a docstring, and the example below it."""
    text, _, example = cleandoc(documented.__doc__ or "").rpartition("\n\n")
    return text, example
