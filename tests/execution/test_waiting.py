"""A run whose only job waits for what somebody else has leased."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path

import pytest

from tests.execution.listening import Listener
from trace_bench.artifacts.layout import RunLayout
from trace_bench.cancellation import Cancellation
from trace_bench.config import parse_config
from trace_bench.execution.cancel import request_cancellation
from trace_bench.execution.events import JobView
from trace_bench.execution.result import RunResult
from trace_bench.execution.start import run_config
from trace_bench.sandbox.base import Host, Sandbox, SandboxRequest
from trace_bench.sandbox.errors import LeaseLost
from trace_bench.sandbox.leases import Leases, Taken
from trace_bench.sandbox.local import STATE_DIR_VARIABLE, LocalBackend
from trace_bench.sandbox.locks import LOCK_DIR_VARIABLE


class Waiter:
    """A controller in a thread of its own, and a lease of the machine that it waits for."""

    def __init__(self, folder: Path) -> None:
        content = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "backend": "local", "run_id": "waits",
                   "runs_dir": str(folder / "runs"), "sandbox": {"exclusive": True}}  # fmt: skip
        self.layout = RunLayout(folder / "runs" / "waits")
        held = Leases("local", folder).take()
        assert held is not None
        self.held = held
        self.results: list[RunResult] = []
        self.wish: str | None = None
        self.queued: list[tuple[str, str]] = []
        self.thread = threading.Thread(target=self._run, args=(content,), daemon=True)
        self.thread.start()

    def _run(self, content: dict[str, object]) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            config, queued = parse_config(content), self.queued

            class Hears(Listener):
                def job_queued(self, job: JobView, host: str) -> None:
                    queued.append((job.job_id, host))

            self.results.append(run_config(config, subscriber=Hears(), stop=Cancellation(lambda: self.wish)))

    def events(self) -> list[str]:
        lines = self.layout.events.read_text().splitlines() if self.layout.events.is_file() else []
        return [json.loads(line)["event"] for line in lines]

    def until_it_waits(self) -> None:
        end = time.monotonic() + 60
        while "lease.wait" not in self.events():
            assert self.thread.is_alive() and time.monotonic() < end
            time.sleep(0.02)

    def ended(self) -> None:
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture
def waiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Waiter:
    monkeypatch.setenv(LOCK_DIR_VARIABLE, str(tmp_path))
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    found = Waiter(tmp_path)
    found.until_it_waits()
    return found


def test_it_goes_on_once_the_lease_is_free(waiter: Waiter) -> None:
    time.sleep(0.5)
    assert waiter.events().count("lease.wait") == 1 and "job.start" not in waiter.events()
    assert [host for _, host in waiter.queued] == [""], "who watches is told, once"
    waiter.held.release()
    waiter.ended()
    assert [row.status for row in waiter.results[0].rows] == ["ok"]


def test_a_cancelled_job_waits_no_longer(waiter: Waiter) -> None:
    (job,) = json.loads(waiter.layout.manifest.read_text())["jobs"]
    request_cancellation(waiter.layout, [job["job_id"]])
    waiter.ended()
    (row,) = waiter.results[0].rows
    assert (row.status, row.feedback) == ("skipped", "cancelled")
    waiter.held.release()


def test_a_stopped_run_waits_no_longer_and_leaves_no_mark(waiter: Waiter, tmp_path: Path) -> None:
    waiter.wish = "interrupted"
    waiter.ended()
    assert waiter.results == []
    other = Leases("local", tmp_path).take()
    assert other is not None, "its mark is gone"
    other.release()
    waiter.held.release()


def test_a_job_that_has_lost_its_lease_moves_to_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller of another machine was faster."""
    monkeypatch.setenv(LOCK_DIR_VARIABLE, str(tmp_path))
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    create, asked = LocalBackend.create, list[tuple[int, ...]]()

    def not_at_first(self: LocalBackend, request: SandboxRequest) -> Sandbox:
        asked.append(request.cpuset)
        if len(asked) == 1:
            raise LeaseLost("somebody has that core")
        return create(self, request)

    monkeypatch.setattr(LocalBackend, "create", not_at_first)
    monkeypatch.setattr(LocalBackend, "taken", lambda *_: Taken(cores=frozenset(*asked[:1])))
    monkeypatch.setattr(LocalBackend, "hosts", lambda _: (Host(cpus=2),))
    content = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "backend": "local", "run_id": "moves",
               "runs_dir": str(tmp_path / "runs"), "sandbox": {"pinned": True}}  # fmt: skip
    (row,) = run_config(parse_config(content)).rows
    assert row.status == "ok" and asked == [(0,), (1,)]
    events = [json.loads(line) for line in (tmp_path / "runs" / "moves" / "events.jsonl").read_text().splitlines()]
    assert [e["failure_kind"] for e in events if e["event"] == "job.retry"] == ["lease_lost"]
