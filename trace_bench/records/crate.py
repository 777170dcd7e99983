"""Describes a run as a research object: RO-Crate 1.1 with the profile Process Run Crate 0.5
(https://w3id.org/ro/wfrun/process/0.5). The top of the archive is the crate.

The run is one action: Trace-Bench is its instrument, config and lock are its objects, tables and job files its results.
No file of a run records who ran it, so that no agent is named. Equal runs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trace_bench.artifacts.derived import FileEntry
from trace_bench.artifacts.jsonio import dumps
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Lock
from trace_bench.artifacts.versions import read_versioned
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import EnvironmentUnavailable, HarnessError
from trace_bench.records.archive import CRATE
from trace_bench.records.digest import index_digest
from trace_bench.records.reading import read_index, read_manifest
from trace_bench.records.runs import RunLine, describe, run_id_of

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
TERMS = "https://w3id.org/ro/terms/workflow-run/context"
NO_LICENCE = "no licence was given"
_KINDS = {"json": "application/json", "csv": "text/csv", "yaml": "application/yaml", "md": "text/markdown",
          "parquet": "application/vnd.apache.parquet", "jsonl": "application/jsonl"}  # fmt: skip


def crate_metadata(run: RunLayout, licence: str | None = None) -> dict[str, bytes]:
    """The metadata file, by its name at the top of the archive.

    Args:
        licence: its address, such as ``https://spdx.org/licenses/CC-BY-4.0``.

    Raises:
        EnvironmentUnavailable: the library is not installed.
        HarnessError: a file of the run that it needs is damaged or missing.
    """
    try:
        from rocrate.rocrate import ROCrate
    except ImportError:
        raise EnvironmentUnavailable(
            "RO-Crate metadata needs the extra: pip install 'trace-bench[ro-crate]', or leave --ro-crate out"
        ) from None
    index, manifest = read_index(run), read_manifest(run)
    if index is None or manifest is None:
        raise HarnessError(f"{run.root}: a run without manifest or index cannot be described; see trace-bench rebuild")
    run_id, line = run_id_of(run), describe(run)
    started, ended = _times(run)
    crate = ROCrate(version="1.1")
    crate.metadata.extra_contexts.append(TERMS)
    root = crate.root_dataset
    root["name"] = f"Trace-Bench run {run_id}"
    root["description"] = _description(line)
    root["datePublished"] = ended or manifest.generated_at
    root["license"] = _licence(crate, licence)
    root["identifier"] = f"sha256:{index_digest(index)}"
    profile = {"@type": "CreativeWork", "name": "Process Run Crate", "version": PROFILE.rpartition("/")[2]}
    root["conformsTo"] = _entity(crate, PROFILE, profile)

    folder = _dataset(crate, f"{run_id}/", "the run's folder", "every file that the run wrote")
    jobs = _dataset(crate, f"{run_id}/{run.relative(run.jobs)}/", "job files", "states, histories, cassettes, results")
    inputs = {run.config_snapshot, run.lock, run.env, run.git}
    outputs = {run.manifest, run.results_csv, run.results_parquet, run.summary, run.leaderboard}
    consumed = list(_files(crate, run_id, index.files, set(map(run.relative, inputs))))
    made = list(_files(crate, run_id, index.files, set(map(run.relative, outputs))))
    root["hasPart"] = [folder, jobs, *consumed, *made]
    folder["hasPart"] = [jobs, *consumed, *made]
    action = _action(crate, run, line, manifest.config_hash)
    action |= {key: time for key, time in (("startTime", started), ("endTime", ended)) if time}
    act = _entity(crate, f"#{run_id}", action)
    act["instrument"], act["object"], act["result"] = _instrument(crate, run), consumed, [jobs, *made]
    root["mentions"] = act
    return {CRATE: (dumps(crate.metadata.generate(), indent=2) + "\n").encode("utf-8")}


def _action(crate: Any, run: RunLayout, line: RunLine, config_hash: str) -> dict[str, Any]:
    # An unfinished run can be continued: it has not failed, and it is not complete.
    status = "Completed" if line.state == "finished" else "Potential"
    return {
        "@type": "CreateAction",
        "name": f"run {run_id_of(run)}",
        "description": f"trace-bench run --config {run.config_snapshot.name}, config hash {config_hash}",
        "actionStatus": {"@id": f"http://schema.org/{status}ActionStatus"},
    }


def _instrument(crate: Any, run: RunLayout) -> Any:
    try:
        version = read_versioned(Lock, run.lock).code_version
    except FileNotFoundError:
        raise HarnessError(f"{run.lock}: it is missing") from None
    tool = {"@type": "SoftwareApplication", "name": "Trace-Bench", "softwareVersion": version}
    return _entity(crate, "#trace-bench", {**tool, "description": "measures LLM-driven optimizers"})


def _times(run: RunLayout) -> tuple[str | None, str | None]:
    """When the first controller of the run began, and when its last one ended."""
    lines = read_journal(run.events).lines
    starts = [str(line["t"]) for line in lines if line.get("event") == "run.start" and "t" in line]
    ends = [str(line["t"]) for line in lines if line.get("event") == "run.end" and "t" in line]
    return (starts[0] if starts else None), (ends[-1] if ends else None)


def _description(line: RunLine) -> str:
    name = f"“{line.name}”, " if line.name else ""
    return (
        f"A benchmark of LLM-driven optimizers: {name}{line.jobs} jobs, {line.ok} ok, {line.failed} failed, "
        f"{line.skipped + line.interrupted} not finished; {line.cost_usd:.4g} USD."
    )


def _licence(crate: Any, address: str | None) -> Any:
    if address is None:
        return NO_LICENCE
    return _entity(crate, address, {"@type": "CreativeWork", "name": address.rstrip("/").rpartition("/")[2]})


def _entity(crate: Any, identifier: str, properties: dict[str, Any]) -> Any:
    from rocrate.model import ContextEntity

    return crate.add(ContextEntity(crate, identifier, properties=properties))


def _dataset(crate: Any, identifier: str, name: str, description: str) -> Any:
    return crate.add_dataset(dest_path=identifier, properties={"name": name, "description": description})


def _files(crate: Any, run_id: str, entries: Iterable[FileEntry], wanted: set[str]) -> Iterator[Any]:
    for entry in entries:
        if entry.path in wanted:
            properties = {"name": entry.path, "contentSize": str(entry.size), "sha256": entry.sha256}
            kind = _KINDS.get(entry.path.rpartition(".")[2])
            if kind is not None:
                properties["encodingFormat"] = kind
            yield crate.add_file(dest_path=f"{run_id}/{entry.path}", properties=properties)
