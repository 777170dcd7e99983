"""A run as TensorBoard's event files, in a folder outside of the run: one folder a job, named for people.

The same files as with ``logger: TensorboardLogger``, for any run. Equal jobs give equal bytes.
"""

from __future__ import annotations

import re
from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import ManifestEntry
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.execution.tensorboard import FILE, write_event_file
from trace_bench.mirrors.registry import Mirrored
from trace_bench.records.reading import read_manifest, read_rows

_UNUSUAL = re.compile(r"[^A-Za-z0-9._=-]+")
_LONGEST = 120


def write_run(run: RunLayout, output: Path | None) -> Mirrored:
    """Write the event files of all jobs of `run` that have a history or a result.

    Args:
        output: the folder; None is ``RUN.tb``, here. What it has of these jobs is replaced.

    Raises:
        ConfigError: it lies inside of the run, or is a file. HarnessError: a file of the run is damaged.
        OSError: the disk does not take it.
    """
    folder = output or Path(f"{run.run_id}.tb")
    if folder.resolve().is_relative_to(run.root.resolve()):
        raise ConfigError(f"{folder} lies inside of the run, whose files are its own; name another one")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; name a folder with --output")
    manifest = read_manifest(run)
    if manifest is None:
        raise HarnessError(f"{run.manifest}: it is missing, so there is nothing to copy yet")
    rows = {row.job_id: row for row in read_rows(run)}
    made = changed = 0
    for entry in manifest.jobs:
        row, job = rows.get(entry.job_id), run.job(entry.job_id)
        if not job.state_history.is_file() and (row is None or row.status == "skipped"):
            continue
        place = folder / label_of(entry)
        before = _bytes(place / FILE)
        write_event_file(place, job.state_history, entry, row)
        made += 1
        changed += before != _bytes(place / FILE)
    return Mirrored(str(folder), made, changed)


def label_of(entry: ManifestEntry) -> str:
    """The name of a job's folder: what it is, in letters that every file system takes, and its id."""
    task = entry.task_id.rpartition(":")[2].rpartition("/")[2]
    text = _UNUSUAL.sub("-", f"{task} {entry.trainer_id} {entry.variant}")[:_LONGEST].strip("-.")
    return f"{text}-seed{entry.seed}-{entry.job_id}"


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
