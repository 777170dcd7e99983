"""``import``: see `trace_bench.cli.import_run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, Json, RunsDir, whole_number


def import_(
    archive: Annotated[Path, Argument(metavar="ARCHIVE", help="A file that trace-bench export made.")],
    runs_dir: RunsDir = RUNS,
    max_bytes: Annotated[
        int | None,
        Option("--max-bytes", metavar="NUMBER", parser=whole_number, help="Limit the unpacked bytes; default: 16 GiB."),
    ] = None,
    max_files: Annotated[
        int | None,
        Option("--max-files", metavar="NUMBER", parser=whole_number, help="Limit the files; default: 500000."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Unpack the run of an archive, which is not trusted.

    Example: trace-bench import run.tar.gz
    """
    from trace_bench.cli.import_run import import_command

    import_command(archive, runs_dir, max_bytes=max_bytes, max_files=max_files, as_json=as_json)
