"""The run, and the jobs of it, that a command line names."""

from __future__ import annotations

from collections.abc import Sequence

from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Manifest, ManifestEntry
from trace_bench.errors import ConfigError
from trace_bench.records.reading import read_manifest
from trace_bench.records.runs import find_job


def manifest_of(layout: RunLayout) -> Manifest:
    """The manifest of a run.

    Raises:
        ConfigError: there is none (yet). HarnessError: it is damaged.
    """
    manifest = read_manifest(layout)
    if manifest is None:
        when = "yet; its controller is still planning" if has_controller(layout) else ""
        raise ConfigError(f"{layout.manifest}: it is not there {when}".rstrip())
    return manifest


def jobs_named(layout: RunLayout, names: Sequence[str]) -> list[ManifestEntry]:
    """The jobs of a run whose ids, or beginnings of ids, are `names`; each once, in the order of `names`.

    Raises:
        ConfigError: there is no such job, or the run has no manifest (yet). HarnessError: its manifest is damaged.
    """
    manifest = manifest_of(layout)
    entries = {entry.job_id: entry for entry in manifest.jobs}
    found = dict.fromkeys(find_job(name, entries, manifest.run_id) for name in names)
    return [entries[job_id] for job_id in found]
