"""The metadata of a run as a research object: what RO-Crate 1.1 and the profile Process Run Crate 0.5 require."""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

import pytest
from rocrate.rocrate import ROCrate

from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import EnvironmentUnavailable, HarnessError
from trace_bench.records.archive import CRATE, extract
from trace_bench.records.crate import PROFILE, crate_metadata
from trace_bench.records.digest import index_digest
from trace_bench.records.pack import pack
from trace_bench.records.reading import read_index

LICENCE = "https://spdx.org/licenses/CC-BY-4.0"


@pytest.fixture(scope="module")
def unpacked(recorded: RunLayout, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crate")
    made = pack(recorded, folder / "a.tar", beside=crate_metadata(recorded, LICENCE))
    with tarfile.open(made.path) as tar:
        tar.extractall(folder / "out", filter="data")
    extract(made.path, folder / "runs")  # what import does not need, it takes
    assert not (folder / "runs" / CRATE).exists()
    return folder / "out"


def test_the_crate_is_read_back_and_meets_the_profile(unpacked: Path, recorded: RunLayout) -> None:
    crate = ROCrate(unpacked)
    root = crate.root_dataset
    assert crate.metadata["conformsTo"] == "https://w3id.org/ro/crate/1.1" and crate.metadata["about"] is root
    # RO-Crate 1.1: name, description, datePublished and license of the root.
    assert root["name"] and root["description"] and root["license"].id == LICENCE
    assert root["datePublished"].endswith("Z")
    # Process Run Crate: the root conforms to it; an action has an instrument of one of these types, and is mentioned.
    assert (root["conformsTo"].id, root["conformsTo"].type) == (PROFILE, "CreativeWork")
    (action,) = crate.get_by_type("CreateAction")
    assert root["mentions"] is action or root["mentions"] == [action]
    assert action["instrument"].type == "SoftwareApplication" and action["instrument"]["softwareVersion"]
    assert action["startTime"] <= action["endTime"] and "agent" not in action
    assert action["actionStatus"] == "http://schema.org/CompletedActionStatus"
    named = [part.id.partition("/")[2] for part in action["object"]]
    assert "meta/config.snapshot.yaml" in named and "meta/lock.json" in named
    assert {part.id.rpartition("/")[2] for part in action["result"]} >= {
        "results.csv",
        "summary.json",
        "leaderboard.csv",
    }
    index = read_index(recorded)
    assert index is not None and root["identifier"] == f"sha256:{index_digest(index)}"


def test_every_data_entity_is_a_file_or_folder_of_the_archive_with_its_hash(
    unpacked: Path, recorded: RunLayout
) -> None:
    crate = ROCrate(unpacked)
    index = read_index(recorded)
    assert index is not None
    sums = {entry.path: (str(entry.size), entry.sha256) for entry in index.files}
    graph = {entity["@id"] for entity in json.loads((unpacked / CRATE).read_text())["@graph"]}
    for part in crate.root_dataset["hasPart"]:
        assert part.id in graph and (unpacked / part.id).exists()
        if part.type == "File":
            assert (part["contentSize"], part["sha256"]) == sums[part.id.partition("/")[2]]


def test_equal_runs_give_equal_metadata(recorded: RunLayout) -> None:
    assert crate_metadata(recorded) == crate_metadata(recorded)
    assert b"no licence was given" in crate_metadata(recorded)[CRATE]


def test_a_run_that_cannot_be_described_and_a_missing_library_are_said(
    copied: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied.files_index.unlink()
    with pytest.raises(HarnessError, match="trace-bench rebuild"):
        crate_metadata(copied)
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    with pytest.raises(EnvironmentUnavailable, match=r"trace-bench\[ro-crate\]"):
        crate_metadata(copied)
