"""Options and arguments that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_bench.cli import complete
from trace_bench.cli.usage import folders
from trace_bench.errors import ConfigError

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Roots = Annotated[
    list[Path] | None,
    typer.Option("--root", metavar="FOLDER", callback=folders, help="A further folder with task folders."),
]
DataRoot = Annotated[
    str | None,
    typer.Option("--data-root", "--data", metavar="FOLDER", help="Published data (CO-Bench, OR-Library) on your disk."),
]
ConfigArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="CONFIG", help="YAML or JSON; a shipped one by its file name.", autocompletion=complete.configs
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="The same as CONFIG.", autocompletion=complete.configs),
]
TaskOption = Annotated[
    list[str] | None,
    typer.Option(
        "--task",
        "-t",
        metavar="TASK",
        help="Run this task, or all that a pattern or tag selects; may be repeated.",
        autocompletion=complete.tasks,
    ),
]
TrainerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--trainer", "-T", metavar="TRAINER", help="Run this trainer; may be repeated.",
        autocompletion=complete.trainers,
    ),
]  # fmt: skip
Families = Annotated[list[str] | None, typer.Argument(metavar="FAMILY", help="Image families; all if none is named.")]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run's folder, its id or the beginning of it, or latest.", autocompletion=complete.runs
    ),
]
JobArgument = Annotated[
    str | None,
    typer.Argument(metavar="JOB", help="A job's id or the beginning of it.", autocompletion=complete.jobs),
]
RunsDir = Annotated[Path, typer.Option("--runs-dir", metavar="FOLDER", help="Where the runs lie.")]
RUNS = Path("runs")
Base = Annotated[str | None, typer.Option("--base", metavar="IMAGE", help="Base image to build on.")]
BackendName = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="auto, docker, modal or local (unprotected).",
        autocompletion=complete.backends,
    ),
]
Where = Annotated[
    str,
    typer.Option("--backend", metavar="NAME", help="auto, docker, modal or local.", autocompletion=complete.backends),
]
PlacesOf = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="A config whose hosts are asked, or whose app.")
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Plain lines, with each candidate; -vv: and all output.",
    ),
]


def one_config(argument: Path | None, option: Path | None) -> Path | None:
    """The config that a command line names, if it names one.

    Raises:
        ConfigError: it names two.
    """
    if argument is not None and option is not None:
        raise ConfigError(f"two configs are given, {argument} and --config {option}; give one of them")
    return option if argument is None else argument
