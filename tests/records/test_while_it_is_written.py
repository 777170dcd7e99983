"""Who looks at a run while its controller writes sees rows as they were or as they are, and never half of one."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator

import pytest

from tests.console import here
from tests.tables import refresh_tables
from trace_bench.artifacts.folder_lock import open_folder
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.writers import write_json
from trace_bench.audit.verify import audit
from trace_bench.execution.result import RunResult
from trace_bench.records.parquet import write_parquet
from trace_bench.records.reading import read_row

SCORES = ("score_initial", "score_final", "score_best")


@pytest.fixture
def busy(copied: RunLayout) -> Iterator[RunLayout]:
    """A run at whose rows and tables a controller writes without a pause; in one row all scores are always equal."""
    over, wrote = threading.Event(), threading.Event()
    place = next(copied.job_dirs()).results
    row = json.loads(place.read_text())

    def write() -> None:
        number = 0
        while not over.is_set():
            for _ in range(50):
                number += 1
                write_json(place, row | dict.fromkeys(SCORES, float(number)), durable=False)
            rows = refresh_tables(copied)
            write_parquet(copied.results_parquet, rows)
            wrote.set()

    lock = open_folder(copied)
    fcntl.flock(lock, fcntl.LOCK_EX)
    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert wrote.wait(30)
        yield copied
        assert thread.is_alive()
    finally:
        over.set()
        thread.join()
        os.close(lock)


def test_rows_are_whole(busy: RunLayout) -> None:
    seen = set()
    for _ in range(8):
        frame = RunResult.read(busy).jobs()
        assert len(frame) == 18
        (mine,) = frame[frame["job_id"] == next(busy.job_dirs()).job_id][list(SCORES)].to_numpy().tolist()
        assert len(set(mine)) == 1
        seen.add(mine[0])
        for _ in range(200):
            assert read_row(next(busy.job_dirs()).results).score_best
    assert len(seen) > 1, "nothing was written in the meantime"


def test_commands_come_to_their_end(busy: RunLayout) -> None:
    done = here("results", str(busy.root), "--unprotected", "--json")
    assert done.returncode == 0 and sum(group["counted"] for group in json.loads(done.stdout)["groups"]) == 18
    assert here("show", str(busy.root)).returncode == 0


def test_an_audit_takes_a_run_that_goes_on_for_what_it_is(busy: RunLayout) -> None:
    claims = {claim.claim: claim for claim in audit(busy).claims}
    assert claims["files.hashes"].verdict == "unverifiable" and "still running" in claims["files.hashes"].says
    assert claims["files.schemas"].verdict == "verified", claims["files.schemas"].evidence
