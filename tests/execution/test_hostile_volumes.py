"""Whatever a sandbox hands back: its job comes to one clear end, and nothing else changes, the next job
least of all."""

from __future__ import annotations

import functools
import stat
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench, read
from tests.execution.readers import all_read
from tests.execution.supervisor import scores_of
from tests.execution.volumes import LIMITS, TAKEN, VOLUMES, broken_off, whole
from tests.integration.files import check_files
from trace_bench.artifacts.collector import CollectLimits
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.schema import validate
from trace_bench.execution import run as run_module
from trace_bench.execution.attempt import RunResources
from trace_bench.execution.result import RunResult
from trace_bench.sandbox.locks import LOCK_DIR_VARIABLE

DEADLINE = 300.0
"""Seconds after which a run counts as one that hangs."""
HOSTILE = {2 * place: volume for place, volume in enumerate(VOLUMES)}
"""By seed; the job after each of them is an honest one."""
EACH = "test_a_hostile_volume_ends_its_own_job_in_one_clear_way"
SEARCH = {"id": "PrioritySearch", "params_variants": [{"num_steps": 1}]}


def within(seconds: float, what: Any) -> Any:
    """The value of `what()`, or a failure if it takes longer."""
    came: list[Any] = []
    broke: list[BaseException] = []

    def do() -> None:
        try:
            came.append(what())
        except BaseException as error:
            broke.append(error)

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"
    if broke:
        raise broke[0]
    return came[0]


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below `folder`: mode, time of change, and content of a file or target of a link."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        if stat.S_ISLNK(status.st_mode):
            content = str(path.readlink()).encode()
        found[str(path.relative_to(folder))] = (status.st_mode, status.st_mtime_ns, content)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def outside(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """What lies around the runs, as it was before them."""
    for name in ("beside/extra/a", "runs/other/jobs/0123456789ab/results.json"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("of somebody else")
    return tree(folder)


@pytest.fixture(scope="module")
def result(request: pytest.FixtureRequest, folder: Path, outside: Any) -> Iterator[RunResult]:
    """One run with a job for every volume that a collected test is about, and an honest one after each."""

    def archive(job: Mapping[str, Any], files: dict[str, bytes]) -> Iterator[bytes]:
        volume = HOSTILE.get(job["seed"])
        if volume is None:
            yield whole(files)
        else:
            yield from volume.make(files)

    with pytest.MonkeyPatch.context() as patch:
        locks = folder / "locks"
        locks.mkdir()
        patch.setenv(LOCK_DIR_VARIABLE, str(locks))
        patch.setattr(run_module, "RunResources", functools.partial(RunResources, limits=LIMITS))
        bench = Bench(folder)
        bench.backend.archive = archive
        asked = [item for item in request.session.items if item.name.startswith(EACH)]
        hostile = [item.callspec.params["seed"] for item in asked if isinstance(item, pytest.Function)]
        seeds = [seed for first in hostile or HOSTILE for seed in (first, first + 1)]
        yield within(
            DEADLINE,
            lambda: bench.run(tasks=["internal:numeric_param"], trainers=[SEARCH], seeds=seeds, max_workers=1),
        )
        assert bench.backend.alive == 0


@pytest.fixture(scope="module")
def rows(result: RunResult) -> dict[int, Results]:
    return {row.seed: row for row in result.rows}


def test_there_are_many_and_each_has_a_name() -> None:
    names = [volume.name for volume in VOLUMES]
    assert len(names) == len(set(names)) >= 100


@pytest.mark.parametrize("seed", HOSTILE, ids=[volume.name for volume in VOLUMES])
def test_a_hostile_volume_ends_its_own_job_in_one_clear_way(
    seed: int, rows: dict[int, Results], result: RunResult
) -> None:
    volume, row = HOSTILE[seed], rows[seed]
    assert (row.failure_boundary, row.failure_kind) == volume.ends, row.feedback
    assert row.status == ("ok" if volume.ends == (None, None) else "failed")
    assert volume.said in row.feedback
    job = result.layout.job(row.job_id)
    meta = read(job.meta)
    validate("results", read(job.results))
    validate("job_meta", meta)
    (attempt,) = meta["attempts"]
    assert attempt["status"] == row.status and meta["status"] == row.status
    if row.failure_kind in ("bad_output", "broken_archive"):
        assert row.score_best is None and row.score_test is None
        assert row.feedback.isprintable()
        evidence = job.attempt(1) / "evidence"
        assert read(evidence / "error.json")["message"] in row.feedback
        assert sum(path.stat().st_size for path in evidence.rglob("*")) <= CollectLimits().evidence_bytes + (1 << 20)
    for path in job.root.rglob("*"):
        status = path.lstat()
        assert stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode), path
        assert not status.st_mode & 0o7022 and ".collecting-" not in path.name, path


def test_the_job_after_each_is_what_it_always_is(rows: dict[int, Results]) -> None:
    assert any(seed % 2 for seed in rows)
    for seed in (seed for seed in rows if seed % 2):
        initial, best = scores_of(rows[seed].job_id)
        assert (rows[seed].status, rows[seed].score_initial, rows[seed].score_best) == ("ok", initial, best)


def test_nothing_outside_the_run_changes(folder: Path, outside: Any, result: RunResult) -> None:
    now = tree(folder)
    mine = str(result.layout.root.relative_to(folder))
    kept = {name: what for name, what in now.items() if not (name + "/").startswith((mine + "/", "locks/"))}
    for name in (".", "runs"):  # the run is new in it
        assert kept.pop(name)[0] == outside[name][0]
    assert kept == {name: what for name, what in outside.items() if name not in (".", "runs")}


def test_every_file_of_the_run_is_indexed_and_fits_its_schema(result: RunResult) -> None:
    assert check_files(result.layout.root) > 4 * len(result.rows)


@pytest.mark.slow
def test_every_reader_copes_with_what_was_taken(rows: dict[int, Results], result: RunResult) -> None:
    for seed in (seed for seed, volume in HOSTILE.items() if volume.ends == TAKEN and seed in rows):
        all_read(result.layout, rows[seed].job_id)


def test_an_archive_that_breaks_off_once_costs_nothing(bench: Bench) -> None:
    """The volume is still there: it is asked for again, and nothing is trained again."""
    asked: list[int] = []

    def archive(job: Mapping[str, Any], files: dict[str, bytes]) -> Iterator[bytes]:
        asked.append(job["seed"])
        yield from (broken_off if len(asked) == 1 else lambda files: [whole(files)])(files)

    bench.backend.archive = archive
    result = bench.run(tasks=["internal:numeric_param"], trainers=["NoOp"])
    (row,) = result.rows
    assert row.status == "ok" and len(asked) == 2 and len(bench.backend.created) == 1
    evidence = result.layout.job(row.job_id).attempt(1) / "evidence" / "error.json"
    assert "the engine hung up" in read(evidence)["message"]
    assert check_files(result.layout.root) > 10
