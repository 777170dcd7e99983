"""A controller that is killed, or whose disk is full, at any instant: the same command ends the run, no job is trained
again that had a sandbox, and a run that is called finished is whole."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench, ControllerDied, attempts, entries, read, table
from tests.execution.simulated import SimulatedBackend, SimulatedSandbox
from tests.execution.supervisor import Script
from tests.tables import refresh_tables
from trace_bench.artifacts import provenance
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import package_versions
from trace_bench.artifacts.writers import Journal
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.execution import attempt_outcome
from trace_bench.planning import planner
from trace_bench.planning.resume import is_recorded
from trace_bench.sandbox.base import SandboxRequest
from trace_bench.sandbox.labels import JOB

ONE: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"]}
CHANGES = ("replace", "rename", "unlink", "mkdir", "write", "ftruncate")
GROWTH = ("replace", "rename", "mkdir", "write")
"""What a full disk refuses. A temporary file that is never moved to its place stands for one that was never written."""


class Fate:
    """Counts what controllers change below ``runs`` and in the engine, and ends one before a given step.

    Attributes:
        steps: what was done, in order.
        started: how many sandboxes were started.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.started = 0
        self._last = float("inf")
        self._error: Callable[[], BaseException] = ControllerDied
        for name in CHANGES:
            monkeypatch.setattr(os, name, self._on_disk(name, getattr(os, name)))
        monkeypatch.setattr(SimulatedBackend, "create", self._in_engine("create", SimulatedBackend.create))
        for name in ("start", "remove", "kill"):
            monkeypatch.setattr(SimulatedSandbox, name, self._in_engine(name, getattr(SimulatedSandbox, name)))
        monkeypatch.setattr(SimulatedBackend, "answer", self._asked(SimulatedBackend.answer))

    @contextmanager
    def comes(self, after: float, error: Callable[[], BaseException] = ControllerDied) -> Iterator[None]:
        """From the step after the next `after` ones on, all raise `error` (a full disk: those that need space)."""
        self.steps.clear()
        self._last, self._error = after, error
        try:
            yield
        finally:
            self._last = float("inf")

    @property
    def has_come(self) -> bool:
        return len(self.steps) > self._last

    def _step(self, name: str, what: str) -> None:
        if self._error is not ControllerDied and name not in GROWTH:
            return
        if not self.has_come:
            self.steps.append(f"{name} {what}")
        if self.has_come:
            raise self._error()

    def _on_disk(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def change(target: Any, *args: Any, **kwargs: Any) -> Any:
            path = _path(target, kwargs.get("dir_fd"))
            if "/runs/" in path and not _changes_nothing(name, Path(path)):
                self._step(name, str(args[0]) if name in ("replace", "rename") else path)
            return real(target, *args, **kwargs)

        return change

    def _in_engine(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def change(self_: Any, *args: Any) -> Any:
            self._step(name, "a sandbox")
            self.started += name == "start"
            return real(self_, *args)

        return change

    def _asked(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def answer(backend: SimulatedBackend, host: str = "") -> None:
            if self.has_come and self._error is ControllerDied:
                raise ControllerDied
            real(backend, host)

        return answer


def _path(target: Any, dir_fd: int | None) -> str:
    if isinstance(target, int):
        return str(Path(f"/proc/self/fd/{target}").readlink())
    return os.fspath(target) if dir_fd is None else str(Path(f"/proc/self/fd/{dir_fd}").readlink() / target)


def _changes_nothing(name: str, path: Path) -> bool:
    """That nobody would see: the folder is there, the file is gone, or all is in a folder that has no name yet."""
    if name == "mkdir":
        return path.exists()
    if name == "unlink" and not path.exists():
        return True
    return ".collecting-" in str(path) and name in ("write", "unlink")


@pytest.fixture
def fate(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Fate:
    versions = package_versions()  # slow to find, and always the same
    for module in (planner, provenance):
        monkeypatch.setattr(module, "package_versions", lambda: versions)
    return Fate(monkeypatch)


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


def is_whole(layout: RunLayout) -> bool:
    """Everything that a finished run has is there, and says the same as the jobs' files."""
    index = {entry["path"]: entry["sha256"] for entry in read(layout.files_index)["files"]}
    paths = [p for p in layout.root.rglob("*") if p.is_file() and p != layout.files_index]
    found = {
        layout.relative(p): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in paths
        if p.suffix != ".tmp" and ".collecting-" not in str(p)
    }
    live = [layout.results_csv.read_bytes(), layout.leaderboard.read_bytes(), read(layout.summary)["counts"]]
    rows = refresh_tables(layout)
    rebuilt = [layout.results_csv.read_bytes(), layout.leaderboard.read_bytes(), read(layout.summary)["counts"]]
    return index == found and live == rebuilt and layout.results_parquet.is_file() and bool(rows)


def secret(layout: RunLayout) -> str:
    """The salt as it is on disk, published or not."""
    with suppress(OSError):
        if said := layout.salt.read_text().strip():
            return said
    with suppress(OSError):
        return read(layout.lock)["salt"] or ""
    return ""


def nothing(bench: Bench) -> None:
    (bench.folder / "runs").mkdir()


def failed(bench: Bench) -> None:
    """A run whose job failed for the sandbox's sake: it has tables, and is to be continued."""
    bench.backend.script = lambda job_id, number: Script(failure="sandbox" if number == 1 else "")
    assert not bench.run(**ONE).ok


def without_an_index(bench: Bench) -> None:
    """A run that lacks only its last file."""
    layout = bench.run(**ONE).layout
    layout.files_index.unlink()


@pytest.mark.parametrize(
    ("before", "error"),
    [(nothing, full), (failed, ControllerDied), (without_an_index, ControllerDied)],
)
def test_whenever_a_controller_ends_the_same_command_ends_the_run(
    tmp_path: Path, fate: Fate, before: Callable[[Bench], None], error: Callable[[], BaseException]
) -> None:
    before(Bench(tmp_path))
    for after in itertools.count():
        bench = Bench(tmp_path / str(after))
        shutil.copytree(tmp_path / "runs", bench.folder / "runs")
        lasting = [secret(RunLayout(root)) for root in bench.runs()]
        trained = fate.started
        with fate.comes(after, error):
            with suppress(ControllerDied, OSError, EnvironmentUnavailable):
                bench.run(**ONE)
            if not fate.has_come:
                break
        step = f"step {after}, {fate.steps[-1]}"
        old = [RunLayout(root) for root in bench.runs() if (root / "meta" / "lock.json").exists()]
        lasting = lasting or [secret(layout) for layout in old]
        recorded = [is_recorded(layout) for layout in old]
        assert not any(recorded) or is_whole(old[0]), f"{step}: it is called finished and is not whole"
        result = bench.run(**ONE)
        if old and not recorded[0]:
            assert result.run_id == old[0].run_id, f"{step}: it is continued"
        if not any(recorded):
            assert fate.started - trained == (before is not without_an_index), f"{step}: nothing is trained again"
            assert not lasting or secret(result.layout) == lasting[0], f"{step}: the salt has changed"
        assert result.ok and is_recorded(result.layout) and is_whole(result.layout), step
        assert read(result.layout.lock)["salt"] and not result.layout.salt.exists(), step
        assert bench.backend.alive == 0, step
        assert [row["status"] for row in table(result.layout)] == ["ok"], step
        (row,) = result.rows
        assert read(result.layout.job(row.job_id).meta)["status"] == "ok", step
        calls = [json.loads(line) for line in result.layout.job(row.job_id).cassette.read_text().splitlines()]
        assert [call["reused_from"] for call in calls].count(None) == 1, f"{step}: no call is paid twice"
        assert bench.plan(**ONE).run_id != result.run_id, f"{step}: it is finished"
    assert after > 10


def test_a_result_is_never_there_without_its_files(tmp_path: Path, fate: Fate) -> None:
    """A controller that is killed while it makes room for another attempt."""
    name = Bench(tmp_path).run(**ONE).run_id
    for after in itertools.count():
        bench = Bench(tmp_path / str(after))
        shutil.copytree(tmp_path / "runs", bench.folder / "runs")
        with fate.comes(after), suppress(ControllerDied):
            bench.run(**ONE, run_id=name, resume="none")
        plan = bench.plan(**ONE, run_id=name)
        for row in plan.reused.values():
            for path in (row.state_history_path, row.best_state_path):
                assert path and (plan.layout.root / path).is_file(), f"{fate.steps[-1]}: {path}"
        if "create a sandbox" in fate.steps:
            break
    assert after > 10


# ---------------------------------------------------------------------------------------------- one thing breaks


def test_files_that_only_show_how_it_goes_need_not_be_writable(bench: Bench) -> None:
    def block(request: SandboxRequest) -> None:
        job = RunLayout(bench.runs()[0]).job(request.labels[JOB])
        job.state_history.mkdir()
        job.stdout.mkdir()

    bench.backend.on_create = block
    result = bench.run()
    assert result.ok
    for row in result.rows:
        assert len(result.layout.job(row.job_id).state_history.read_text().splitlines()) == 1


def test_what_cannot_be_collected_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    all_there = threading.Barrier(4, timeout=20)

    def collect(*args: Any) -> Any:
        all_there.wait()
        raise EnvironmentUnavailable("there is no space left")

    with monkeypatch.context() as patch:
        patch.setattr(attempt_outcome, "collect", collect)
        with pytest.raises(EnvironmentUnavailable, match="no space left"):
            bench.run()
    layout = RunLayout(bench.runs()[0])
    assert (bench.backend.alive, bench.backend.removed) == (4, 0)
    assert {read(layout.job(job_id).meta)["status"] for job_id in entries(layout)} == {"running"}
    assert {entry["status"] for entry in entries(layout).values()} == {"not_executed"}
    assert {job.decision for job in bench.plan().jobs} == {"adopt"}
    result = bench.run()
    assert result.ok and result.run_id == layout.run_id
    assert (len(bench.backend.created), bench.backend.alive) == (4, 0)


def test_a_cassette_that_cannot_be_written_ends_the_run_and_its_sandbox_is_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that was not written down is not given."""
    victim = bench.plan().jobs[1].job_id
    real = Journal.append

    def append(self: Journal, value: Any) -> Any:
        if self.path.parent.name == victim and self.path.name == "llm.jsonl":
            raise full()
        return real(self, value)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", append)
        with pytest.raises(OSError, match="No space left"):
            bench.run()
    layout = RunLayout(bench.runs()[0])
    assert bench.backend.alive == 1 and read(layout.job(victim).meta)["status"] == "running"
    assert {job.job_id for job in bench.plan().jobs if job.decision == "adopt"} == {victim}
    assert bench.run().ok
    assert bench.backend.created.count(victim) == 1 and bench.backend.alive == 0


def test_a_journal_that_cannot_be_written_ends_the_run_and_what_was_recorded_counts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Journal.append

    def append(self: Journal, value: Any) -> Any:
        if self.path.name == "events.jsonl" and value["event"] == "job.end":
            raise full()
        return real(self, value)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", append)
        with pytest.raises(OSError, match="No space left"):
            bench.run(**ONE)
    layout = RunLayout(bench.runs()[0])
    assert [row["status"] for row in table(layout)] == ["ok"]
    assert {entry["status"] for entry in entries(layout).values()} == {"ok"}
    result = bench.run(**ONE, run_id=layout.run_id)
    assert result.ok and len(bench.backend.created) == 1
    assert attempts(layout, result.rows[0].job_id) == [(1, "ok")]


def test_the_clock_says_nothing_about_whether_a_run_is_finished(tmp_path: Path) -> None:
    """Times of files jump where somebody sets the clock; what they hold does not."""
    bench = Bench(tmp_path)
    layout = bench.run(**ONE).layout
    os.utime(layout.files_index, (1, 1))
    assert is_recorded(layout), "the clock was set back between the last two files"
    lock = layout.lock.read_bytes()
    layout.lock.write_bytes(lock.replace(b'"salt": "', b'"salt": "0'))
    os.utime(layout.files_index, (2**31, 2**31))
    assert not is_recorded(layout), "the index is of an earlier controller, of a day when the clock was ahead"
