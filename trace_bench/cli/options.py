"""Options and arguments that several commands share, and the functions that read their values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

from typer import Argument, BadParameter, Option

from trace_bench.cli import complete
from trace_bench.errors import ConfigError

MOST_SEEDS = 10_000
FIRST_SEED = 123
"""The seed of a config that names none; a number of seeds counts from it."""


def whole_number(text: str) -> int:
    """Parse a whole number. Raises BadParameter if `text` is none."""
    try:
        return int(text)
    except ValueError:
        raise BadParameter(f"must be a whole number, not {_described(text)}") from None


def limit_in_seconds(text: str) -> float:
    """A limit in seconds, of which 0 is none.

    Raises:
        BadParameter: `text` is no finite number, or it is negative.
    """
    try:
        seconds = float(text)
    except ValueError:
        raise BadParameter(f"must be a number of seconds, not {_described(text)}") from None
    if seconds < 0:
        raise BadParameter(f"must be 0 (no limit) or more, not {text.strip()}")
    if not math.isfinite(seconds):
        raise BadParameter(f"must be a finite number of seconds, or 0 for no limit, not {text.strip()}")
    return seconds


def confidence(text: str) -> float:
    """A confidence level.

    Raises:
        BadParameter: `text` is no number from 0.5 to below 1.
    """
    try:
        level = float(text)
    except ValueError:
        level = math.nan
    if not 0.5 <= level < 1:
        raise BadParameter(f"must be a number from 0.5 to below 1, as 0.95, not {_described(text)}")
    return level


def folders(roots: list[Path] | None) -> list[Path] | None:
    """The folders of ``--root``.

    Raises:
        ConfigError: one of them is no folder.
    """

    for root in roots or []:
        if not root.is_dir():
            what = "it is a file" if root.exists() else "no such folder"
            raise ConfigError(f"--root {root}: {what}; name a folder that holds task folders")
    return roots


def seed_list(text: str) -> list[int]:
    """The seeds of ``--seeds``: ``5`` is five of them from the default seed on, ``1,2,7`` and ``7,`` are these.

    >>> seed_list("3"), seed_list("1,2,7"), seed_list("7,")
    ([123, 124, 125], [1, 2, 7], [7])

    Raises:
        ConfigError: `text` is neither.
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


def one_config(argument: Path | None, option: Path | None) -> Path | None:
    """The config that a command line names, if it names one.

    Raises:
        ConfigError: it names two.
    """
    if argument is not None and option is not None:
        raise ConfigError(f"two configs are given, {argument} and --config {option}; give one of them")
    return option if argument is None else argument


def given(**values: object) -> dict[str, object]:
    """The `values` that a command line gives: those that are neither None nor an empty list."""
    return {name: value for name, value in values.items() if value is not None and value != []}


def _described(text: str) -> str:
    from trace_bench.arguments import describe

    return describe(text)


Json = Annotated[bool, Option("--json", help="Print JSON.")]
JsonLines = Annotated[bool, Option("--json", help="Print one JSON line per event.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print the result only.")]
Verbose = Annotated[
    int,
    Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Print lines, with each candidate; -vv: output and log too.",
    ),
]
Explain = Annotated[bool, Option("--explain", help="Print everything that there is to know, and the methods.")]

ConfigArgument = Annotated[
    Path | None,
    Argument(metavar="CONFIG", help="YAML or JSON; a shipped one by its file name.", autocompletion=complete.configs),
]
ConfigOption = Annotated[
    Path | None,
    Option(
        "--config", "-c", metavar="FILE", help="Name the config; the same as CONFIG.", autocompletion=complete.configs
    ),
]
HostsOf = Annotated[
    Path | None, Option("--config", "-c", metavar="FILE", help="Ask the hosts, or the Modal app, of this config.")
]
Roots = Annotated[
    list[Path] | None,
    Option("--root", metavar="FOLDER", callback=folders, help="Read task folders here too; can be repeated."),
]
DataRoot = Annotated[
    str | None,
    Option(
        "--data-root",
        "--data",
        metavar="FOLDER",
        help="Read published data here, or of this collection.",
    ),
]
Suites = Annotated[str | None, Option(metavar="SUITES", help="Take only tasks of these suites; put commas between.")]

RUNS = Path("runs")
RunsDir = Annotated[Path, Option("--runs-dir", metavar="FOLDER", help="Look for runs in this folder.")]
RunArgument = Annotated[
    str,
    Argument(
        metavar="RUN", help="A run's folder, its id or the beginning of it, or latest.", autocompletion=complete.runs
    ),
]
JobArgument = Annotated[
    str | None, Argument(metavar="JOB", help="A job's id or the beginning of it.", autocompletion=complete.jobs)
]

BackendOption = Annotated[
    str | None,
    Option(
        "--backend",
        metavar="NAME",
        help="Use auto, docker, modal or local (unprotected).",
        autocompletion=complete.backends,
    ),
]
BackendLookedAt = Annotated[
    str,
    Option("--backend", metavar="NAME", help="Look at auto, docker, modal or local.", autocompletion=complete.backends),
]
NoBuild = Annotated[bool, Option("--no-build", help="Fail where an image is missing.")]
AcceptDrift = Annotated[bool, Option("--accept-drift", help="Use locked images although their recipe has changed.")]
