"""A run as TensorBoard's event files outside of the run: one folder a job, with a readable name.

The files are those of ``logger: TensorboardLogger``, for any run. Equal jobs give equal bytes.
"""

from __future__ import annotations

import re
from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.errors import ConfigError
from trace_bench.execution.tensorboard import FILE, write_event_file
from trace_bench.mirrors import Mirrored
from trace_bench.records.reading import read_rows

_UNUSUAL = re.compile(r"[^A-Za-z0-9._=-]+")
_LONGEST = 120


def write_run(run: RunLayout, output: Path | None) -> Mirrored:
    """Write the event files of all jobs of `run` that have ended.

    Args:
        output: the folder; None is ``RUN.tb`` in the working folder. Its files of these jobs are replaced.

    Raises:
        ConfigError: it lies inside of the run, or is a file. HarnessError: a file of the run is damaged.
        OSError: the disk does not take them.
    """
    folder = output or Path(f"{run.run_id}.tb")
    if folder.resolve().is_relative_to(run.root.resolve()):
        raise ConfigError(f"{folder} lies inside of the run; name another folder with --output")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; name a folder with --output")
    rows = [row for row in read_rows(run) if row.status != "skipped"]
    changed = 0
    for row in rows:
        path = folder / folder_name(row) / FILE
        before = path.read_bytes() if path.is_file() else None
        write_event_file(path.parent, run.job(row.job_id).state_history, row)
        changed += before != path.read_bytes()
    return Mirrored(str(folder), len(rows), changed)


def folder_name(row: Results) -> str:
    """Return the name of a job's folder: its task, trainer, variant, seed and id, in letters for every file system."""
    task = row.task_id.rpartition(":")[2].rpartition("/")[2]
    text = _UNUSUAL.sub("-", f"{task} {row.trainer_id} {row.variant}")[:_LONGEST].strip("-.")
    return f"{text}-seed{row.seed}-{row.job_id}"
