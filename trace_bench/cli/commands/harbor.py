"""Install Harbor, which runs the trials of the suite terminal_bench on this machine.

Example: trace-bench harbor install
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from trace_bench.display.console import emit, note


def install(
    python: Annotated[
        Path | None, Option("--python", metavar="PROGRAM", help="Use this Python, 3.12 or later, with venv.")
    ] = None,
) -> None:
    """Install Harbor in an environment of its own, with pinned packages.

    Example: trace-bench harbor install --python python3.12
    """
    from trace_bench.suites.installed import load_suites

    emit(str(load_suites()["terminal_bench"].install(python, note)))


COMMANDS = (install,)
