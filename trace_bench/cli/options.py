"""Options and arguments that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_bench.cli.usage import folders

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Roots = Annotated[
    list[Path] | None,
    typer.Option("--root", metavar="FOLDER", callback=folders, help="A further folder with task folders."),
]
DataRoot = Annotated[
    str | None,
    typer.Option("--data-root", "--data", metavar="FOLDER", help="Published data (CO-Bench, OR-Library) on your disk."),
]
Families = Annotated[list[str] | None, typer.Argument(metavar="FAMILY", help="Image families; all if none is named.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's folder, its id or the beginning of it, or latest.")
]
JobArgument = Annotated[str | None, typer.Argument(metavar="JOB", help="A job's id or the beginning of it.")]
RunsDir = Annotated[Path, typer.Option("--runs-dir", metavar="FOLDER", help="Where the runs lie.")]
RUNS = Path("runs")
Base = Annotated[str | None, typer.Option("--base", metavar="IMAGE", help="Base image to build on.")]
BackendName = Annotated[
    str | None, typer.Option("--backend", metavar="NAME", help="auto, docker, modal or local (unprotected).")
]
Where = Annotated[str, typer.Option("--backend", metavar="NAME", help="auto, docker, modal or local.")]
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
