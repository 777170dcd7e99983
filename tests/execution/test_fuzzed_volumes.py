"""Good volumes with structured damage, by the hundred: through the collector, the record, and whoever reads that.

Whatever the damage, the job has one record that fits its schema, tables come out, and every reader copes.
"""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.folders import job_id, make_run
from tests.artifacts.archives import GOOD, chunked, of_files
from tests.artifacts.samples import EVENT, HASH, HISTORY, META, RESULT, STATES
from tests.execution.readers import all_read
from tests.tables import refresh_tables
from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.collector import CollectLimits, collect
from trace_bench.artifacts.outputs import Failure
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.schema import validate
from trace_bench.errors import Boundary, CollectError
from trace_bench.execution.attempt_outcome import AttemptOutcome, record_attempt
from trace_bench.records import parquet

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 10**299, -(10**299), 1.7e308, -1.7e308, 5e-324, "", " ", "x" * 300, "\x1b[2J\u202e\r\n\x00\x9b",
    "=cmd()|' /C calc'!A0", "<script>alert(1)</script>", "ok", "train", [], {}, [[]], {"": None},
    json.loads("[" * 50 + "]" * 50), json.loads('{"a":' * 50 + "1" + "}" * 50),
)  # fmt: skip
WORD = {
    **RESULT,
    "stop_point": {"reason": "budget", "checks": 3, "calls": 2, "killed": False},
    "integrity": {
        "claims": {"best": {"score": -0.5, "split": "validate", "examples": ["v0"]}},
        "signs": {"best": [{"kind": "files", "line": 1, "text": "open('/out')"}]},
        "candidates": {"train": {"opened": 3, "left_processes": 0, "unswept": 0, "over_cpu": 0, "cpu_seconds": 0.5}},
        "scorer_files": {"files": 3, "sha256": HASH, "unchanged": True},
    },
}
WHOLE: dict[str, list[Any]] = {
    "result.json": [WORD], "states.json": [STATES], "events.jsonl": [EVENT] * 3, "state_history.jsonl": [HISTORY] * 2,
}  # fmt: skip
LIMITS = CollectLimits(total_bytes=1 << 20, file_bytes=1 << 18, files=100)

damage = st.tuples(
    st.sampled_from(sorted(WHOLE)),
    st.integers(0, 10**6),
    st.sampled_from(["put", "drop", "add", "repeat"]),
    st.sampled_from(range(len(ODD))),
)
bytes_changed = st.tuples(
    st.sampled_from(sorted(WHOLE)), st.integers(0, 10**6), st.binary(max_size=6), st.integers(0, 9)
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container in `value` with each of its keys."""
    found = []
    for key in value if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


def damaged(changes: list[Any], cuts: list[Any]) -> dict[str, bytes]:
    """The files of a volume after `changes` to what they say and `cuts` in how they say it."""
    files = copy.deepcopy(WHOLE)
    for name, place, action, odd in changes:
        known = places(files[name])
        if not known:
            continue
        holder, key = known[place % len(known)]
        if action == "put":
            holder[key] = copy.deepcopy(ODD[odd])
        elif action == "drop":
            del holder[key]
        elif action == "add" and isinstance(holder, dict):
            holder[f"{key}x"] = copy.deepcopy(ODD[odd])
        elif isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
    lines = {name: b"".join(json.dumps(v).encode() + b"\n" for v in values) for name, values in files.items()}
    for name, place, new, drop in cuts:
        data = bytearray(lines[name])
        at = place % (len(data) + 1)
        data[at : at + drop] = new
        lines[name] = bytes(data)
    return {**GOOD, **lines}


def taken_in(files: dict[str, bytes], folder: Path, *, read: bool) -> Results:
    """What becomes of a job whose volume has `files`: as `trace_bench.execution.attempt_outcome` does it."""
    run = make_run(folder / "runs", planned=1)
    job = run.job(job_id(0)).make()
    given = {**META, "run_id": run.run_id, "job_id": job.job_id, "seed": 0, "attempts": [], "status": "running"}
    meta = JobMeta.model_validate(given)
    outcome = AttemptOutcome()
    try:
        outcome.collected = collect(chunked(of_files(files)), job.attempt_out(1), LIMITS)
        outcome.result = outcome.collected.result
    except CollectError as error:
        assert str(error).isprintable()
        outcome.failure = Failure(boundary=Boundary.TRAINER, kind="bad_output", message=str(error))
    if outcome.result is None and outcome.failure is None:
        outcome.failure = Failure(boundary=Boundary.SANDBOX, kind="no_result", message="no result")
    row = record_attempt(run, job, 1, meta, outcome, Usage(), 1.0)
    validate("results", json.loads(job.results.read_bytes()))
    validate("job_meta", json.loads(job.meta.read_bytes()))
    assert refresh_tables(run) == [row]
    validate("summary", json.loads(run.summary.read_bytes()))
    if read:
        parquet.write_parquet(run.results_parquet, [row])
        all_read(run, job.job_id)
    return row


changed = st.tuples(st.lists(damage, max_size=4), st.lists(bytes_changed, max_size=1))


def check(changes: tuple[list[Any], list[Any]], *, read: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        row = taken_in(damaged(*changes), Path(folder), read=read)
        assert row.status in ("ok", "failed") and (row.status == "ok") == (row.failure_boundary is None)


def test_the_volume_that_is_damaged_is_a_good_one(tmp_path: Path) -> None:
    row = taken_in(damaged([], []), tmp_path, read=True)
    assert (row.status, row.score_best, row.score_claimed) == ("ok", -0.5, -0.5)
    assert row.integrity_flags == "suspicious_source"


@settings(suppress_health_check=list(HealthCheck))
@given(changed)
def test_damaged_volumes_have_one_record_and_tables(changes: tuple[list[Any], list[Any]]) -> None:
    check(changes, read=False)


@settings(suppress_health_check=list(HealthCheck))
@given(changed)
def test_damaged_volumes_can_be_looked_at(changes: tuple[list[Any], list[Any]]) -> None:
    check(changes, read=True)


@pytest.mark.slow
@settings(suppress_health_check=list(HealthCheck))
@given(changed)
def test_hundreds_of_damaged_volumes_can_be_looked_at(changes: tuple[list[Any], list[Any]]) -> None:
    check(changes, read=True)
