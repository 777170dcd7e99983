"""``import``: unpacks the run in an archive that ``export`` made, perhaps elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, Json, RunsDir, whole_number
from trace_bench.display.console import emit_json, emit_pairs, note
from trace_bench.errors import ConfigError


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
    from trace_bench.cli.commands.export import changed_sentence
    from trace_bench.records.archive import ArchiveLimits, extract

    if any(limit is not None and limit < 1 for limit in (max_bytes, max_files)):
        raise ConfigError("--max-bytes and --max-files are whole numbers from 1 on")
    usual = ArchiveLimits()
    limits = ArchiveLimits(
        total_bytes=max_bytes or usual.total_bytes,
        file_bytes=max(max_bytes or 0, usual.file_bytes),
        files=max_files or usual.files,
    )
    imported = extract(archive, runs_dir, limits)
    folder = str(imported.run.root)
    if as_json:
        emit_json({"run_id": imported.run.run_id, "path": folder, "digest": imported.digest, "files": imported.files,
                   "bytes": imported.bytes, "already": imported.already, "changed": imported.changed})  # fmt: skip
    else:
        emit_pairs([
            ("run", imported.run.run_id),
            ("folder", folder + ("  (it was there already, and is equal)" if imported.already else "")),
            ("files", f"{imported.files}, {imported.bytes} bytes, all as their checksums say"),
            ("digest", imported.digest),
        ])  # fmt: skip
        note(f"its numbers are not checked yet: trace-bench audit {folder}")
    if imported.changed:
        note(changed_sentence(imported.changed))
