"""``import``: the run in an archive that ``export`` made, wherever."""

from __future__ import annotations

from pathlib import Path

from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.commands.export import changed_sentence
from trace_bench.cli.output import emit_json, note
from trace_bench.cli.tables import emit_pairs
from trace_bench.errors import ConfigError
from trace_bench.records.archive import ArchiveLimits, extract


def import_command(
    archive: Path, runs_dir: Path, *, max_bytes: int | None, max_files: int | None, as_json: bool
) -> None:
    """Unpack `archive` into `runs_dir`, and say what it was.

    Raises:
        ConfigError: it is no whole archive of a run, or another run of that id is there.
        EnvironmentUnavailable: the disk is full.
    """
    usual = ArchiveLimits()
    if any(limit is not None and limit < 1 for limit in (max_bytes, max_files)):
        raise ConfigError("--max-bytes and --max-files are whole numbers from 1 on")
    most = max_bytes or usual.total_bytes
    limits = ArchiveLimits(
        total_bytes=most,
        file_bytes=max(most, usual.file_bytes) if max_bytes else usual.file_bytes,
        files=max_files or usual.files,
    )
    found = extract(archive, runs_dir, limits)
    folder = str(found.run.root)
    if as_json:
        emit_json({"run_id": found.run.run_id, "path": folder, "digest": found.digest, "files": found.files,
                   "bytes": found.bytes, "already": found.already, "changed": found.changed})  # fmt: skip
    else:
        emit_pairs([
            ("run", printable(found.run.run_id, 128)),
            ("folder", printable(folder, 4096) + ("  (it was there already, and is equal)" if found.already else "")),
            ("files", f"{found.files}, {found.bytes} bytes, all as their checksums say"),
            ("digest", found.digest),
        ])  # fmt: skip
        note(f"nobody has looked at its numbers yet: trace-bench audit {printable(folder, 4096)}")
    if found.changed:
        note(changed_sentence(found.changed))
