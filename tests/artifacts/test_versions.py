"""Runs of earlier versions are read, those of later ones are refused, in one sentence, by whatever reads a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.folders import HASH, make_run, row
from tests.console import here
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Lock, Manifest
from trace_bench.artifacts.versions import FIRST, SCHEMA_VERSION, NewerRun, read_versioned
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.execution.result import RunResult
from trace_bench.planning.recording import find_recording
from trace_bench.planning.resume import find_run_to_continue, read_lock
from trace_bench.records.reading import read_manifest
from trace_bench.records.runs import describe

DATA = Path(__file__).parents[1] / "data"
SENTENCE = f"was written by a newer Trace-Bench (schema 9); this one reads up to {SCHEMA_VERSION}: upgrade it"


def change(path: Path, **changes: Any) -> None:
    value = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: found for key, found in value.items() if found is not None}))


@pytest.fixture
def newer(tmp_path: Path) -> RunLayout:
    """A run of a later version, whose manifest and lock have keys that this one does not know."""
    run = make_run(tmp_path / "runs", rows=[row(0)])
    change(run.manifest, schema_version=9, shards=["1"])
    change(run.lock, schema_version=9, signature="f00")
    return run


@pytest.fixture
def first(tmp_path: Path) -> RunLayout:
    """A real run of version 1, recorded by the code of its time; the folder may be changed."""
    (recorded,) = (DATA / "run-v1").iterdir()
    return RunLayout(Path(shutil.copytree(recorded, tmp_path / "runs" / recorded.name)))


def test_every_reader_refuses_a_later_version_and_says_what_to_do(newer: RunLayout) -> None:
    runs = newer.root.parent
    for read in (read_manifest, read_lock, RunResult.read):
        with pytest.raises(NewerRun, match="it was written by a newer") as refused:
            read(newer)
        assert SENTENCE in str(refused.value)
    with pytest.raises(ConfigError, match=r"upgrade it$"):  # and not: restore it from a copy
        find_recording(newer.run_id, runs, "here")
    assert find_run_to_continue(runs, "auto", lambda _: HASH, HASH, {}).layout is None  # a new run may start


@pytest.mark.parametrize("file", ["manifest", "lock"])
def test_a_list_of_runs_shows_a_later_version_and_goes_on(newer: RunLayout, file: str) -> None:
    make_run(newer.root.parent, "20260102-030405-other", rows=[row(0), row(1), row(2)])
    change(newer.lock if file == "manifest" else newer.manifest, schema_version=None, signature=None, shards=None)
    line = describe(newer)
    assert (line.state, line.damage) == ("newer", f"{getattr(newer, file)}: it {SENTENCE}")
    done = here("ls", "--runs-dir", str(newer.root.parent))
    assert done.returncode == 0 and "newer: " in done.stderr and "finished" in done.stdout
    assert "newer" in done.stdout and "damaged" not in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["show"])
def test_a_command_ends_with_one_sentence(newer: RunLayout, command: str) -> None:
    done = here(command, str(newer.root))
    assert done.stderr == f"error: {newer.manifest}: it {SENTENCE}\n" and done.returncode == 3 and not done.stdout


@pytest.mark.parametrize("version", ["2", 0, -1, True, 1.5, {}])
def test_a_version_that_is_none_is_damage(newer: RunLayout, version: Any) -> None:
    change(newer.lock, schema_version=version)
    with pytest.raises(HarnessError, match="schema_version: it is a whole number") as refused:
        read_lock(newer)
    assert not isinstance(refused.value, NewerRun)


def test_a_key_of_a_job_is_not_taken_for_the_manifests(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", rows=[row(0)])
    manifest = json.loads(run.manifest.read_text())
    manifest["jobs"][0]["eval_kwargs"] = {"schema_version": 9}
    del manifest["schema_version"]
    run.manifest.write_text(json.dumps(manifest))
    assert describe(run).state == "unfinished"


def test_a_run_of_the_first_version_is_read_as_it_is(first: RunLayout) -> None:
    before = {path: path.read_bytes() for path in first.root.rglob("*") if path.is_file()}
    assert "schema_version" not in json.loads(first.manifest.read_text())
    assert read_versioned(Manifest, first.manifest).schema_version == FIRST
    assert read_versioned(Lock, first.lock).schema_version == FIRST
    assert describe(first).state == "finished"
    result = RunResult.read(first)
    assert list(result.jobs()["outcome"]) == ["ok", "ok"] and len(result.steps()) and len(result.calls())
    assert find_recording(first.run_id, first.root.parent, "here").lacking == {}
    assert {path: path.read_bytes() for path in first.root.rglob("*") if path.is_file()} == before
