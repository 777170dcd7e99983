"""What goes wrong between a provider and a job: nothing that was paid for is lost, nothing counts as a score of zero,
and what is not on the disk is given to nobody."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench, attempts, read
from tests.execution.peer import PATIENCE, Waiting, answered_by, reply, text_of
from tests.execution.supervisor import Script, Supervisor
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import Interrupted
from trace_bench.execution import answers
from trace_bench.execution.attempt import Attempt, RunResources
from trace_bench.execution.events import ignore
from trace_bench.gateway.base import ProviderReply, ProviderRequest
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.records.reading import read_rows
from trace_bench.sandbox.local import LocalBackend

ONE: dict[str, Any] = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "run_id": "one"}
ANSWER = 20_000
"""Bytes of an answer that is to fill a disk."""


def released(answer: Any = None) -> Waiting:
    """A provider on threads that keeps nobody waiting."""
    provider = Waiting(answer)
    provider.release()
    return provider


def threads_of_calls() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("llm-")]


def cassettes(layout: RunLayout) -> list[dict[str, Any]]:
    return [json.loads(line) for path in layout.jobs.glob("*/llm.jsonl") for line in path.read_text().splitlines()]


def test_fifty_jobs_that_end_at_once_leave_no_thread(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Waiting()
    answered_by(monkeypatch, provider)
    bench.backend.memory_bytes = None
    config: dict[str, Any] = {**ONE, "seeds": list(range(50)), "max_workers": 50}
    before = threading.active_count()
    freeing = threading.Thread(target=lambda: (provider.wait_for(50), provider.release()))
    freeing.start()
    result = bench.run(**config)
    freeing.join(PATIENCE)
    assert result.ok and len(provider.asked) == 50
    deadline = time.monotonic() + PATIENCE
    while threads_of_calls() or threading.active_count() > before:
        assert time.monotonic() < deadline, threading.enumerate()
        time.sleep(0.01)


# ------------------------------------------------------------------------------------------------- a disk that is full


def large(request: ProviderRequest) -> ProviderReply:
    return reply(text_of(request) + "x" * ANSWER)


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the calls whose answers have reached a sandbox."""
    found: list[str] = []
    inner = Supervisor._on_message

    def on_message(self: Supervisor, message: Any) -> None:
        if message.type == "llm.response":
            found.append(message.header["id"])
        inner(self, message)

    monkeypatch.setattr(Supervisor, "_on_message", on_message)
    return found


def check_after_a_full_disk(bench: Bench, layout: RunLayout, told: list[str]) -> None:
    """The answers that went out are those in the cassette; no row has a score, and the sandbox waits to be taken up."""
    assert told and told == [call["request_id"] for call in cassettes(layout)]
    assert list(layout.jobs.glob("*/results.json")) == []
    assert {row.score_best for row in read_rows(layout)} <= {None}
    assert bench.backend.alive == 1


def test_an_answer_that_the_disk_does_not_take_is_given_to_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    provider = released(large)
    answered_by(monkeypatch, provider)
    bench.backend.script = lambda job_id, number: Script(calls=6)
    why = r"File too large, so an LLM answer could not be recorded, and was not used: '.*llm\.jsonl'"
    with no_file_larger_than(3 * ANSWER), pytest.raises(OSError, match=why):
        bench.run(**ONE)
    layout = RunLayout(bench.runs()[0])
    check_after_a_full_disk(bench, layout, told)
    assert len(told) == 2
    assert bench.run(**ONE).ok, "with room again, the same command continues"
    assert len(bench.backend.created) == 1 and bench.backend.alive == 0
    assert len(provider.asked) == 6 + 1, "only the one that nobody got is paid again"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_is_full_ends_the_run_and_the_next_continues_it(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    """Nothing else has room either."""
    disk = tmp_path / "runs"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        provider = released(large)
        answered_by(monkeypatch, provider)
        bench.backend.script = lambda job_id, number: Script(calls=30)
        with pytest.raises(OSError, match="No space left on device"):
            bench.run(**ONE)
        layout = RunLayout(bench.runs()[0])
        check_after_a_full_disk(bench, layout, told)
        assert len(provider.asked) < 30
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        assert bench.run(**ONE).ok
        assert len(provider.asked) == 30 + 1 and bench.backend.alive == 0
        assert {row.status for row in read_rows(layout)} == {"ok"}
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


# ------------------------------------------------------------------------------------------------- calls under way


def test_a_sandbox_that_dies_leaves_its_call_to_the_next_attempt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Waiting()
    answered_by(monkeypatch, provider)

    def kill() -> None:
        provider.wait_for(1)
        (sandbox,) = bench.backend.find({})
        sandbox.kill()
        while sandbox.status() != "exited":
            time.sleep(0.01)
        provider.release()

    killing = threading.Thread(target=kill)
    killing.start()
    result = bench.run(**ONE, retries=1)
    killing.join(PATIENCE)
    assert result.ok and provider.asked == ["question 0"], "the second attempt is answered from the cassette"
    assert attempts(result.layout, result.rows[0].job_id) == [(1, "failed"), (2, "ok")]
    assert [call["reused_from"] for call in cassettes(result.layout)] == [None, 1]


def test_a_kill_does_not_wait_for_a_provider_that_hangs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "AFTER_A_KILL", 0.2)
    provider, wish = Waiting(), []
    answered_by(monkeypatch, provider)
    wishing = threading.Thread(target=lambda: (provider.wait_for(1), wish.append("kill")))
    wishing.start()
    with pytest.raises(Interrupted):
        bench.run(ignore, lambda: wish[0] if wish else None, **ONE)
    wishing.join(PATIENCE)
    layout = RunLayout(bench.runs()[0])
    (row,) = read_rows(layout)
    assert (row.status, row.failure_kind) == ("failed", "interrupted")
    warnings = read(layout.job(row.job_id).meta)["warnings"]
    assert any("1 LLM call was under way when the job ended" in warning for warning in warnings), "it is said"
    assert bench.backend.alive == 0
    provider.release()
    assert bench.run(**ONE).ok


def test_an_interruption_is_heard_while_a_call_is_under_way(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, wish = Waiting(), []
    answered_by(monkeypatch, provider)
    bench.backend.script = lambda job_id, number: Script(calls=3)

    def interrupt() -> None:
        provider.wait_for(1)
        wish.append("interrupted")
        (sandbox,) = bench.backend.find({})
        while sandbox.supervisor._stop is None:
            time.sleep(0.01)
        provider.release()

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(Interrupted):
        bench.run(ignore, lambda: wish[0] if wish else None, **ONE)
    interrupting.join(PATIENCE)
    (row,) = read_rows(RunLayout(bench.runs()[0]))
    assert (row.status, row.stop_reason, row.llm_calls) == ("ok", "interrupted", 1), "the call is in the books"


def test_a_provider_that_hangs_for_longer_than_the_lease_costs_no_job(bench: Bench, tmp_path: Path) -> None:
    """A real supervisor, whose lease ends twice while its only call is under way."""

    class Slow(StubProvider):
        name, quick = "slow", False

        def complete(self, request: ProviderRequest) -> ProviderReply:
            slept.wait(2 * lease + 0.2)
            return super().complete(request)

    lease, slept = 1.5, threading.Event()
    search = {"id": "PrioritySearch", "params": {"num_steps": 1, "num_candidates": 1, "num_proposals": 1}}
    folder = tmp_path / "sandboxes"
    folder.mkdir(mode=0o700)
    bench.backend = LocalBackend(folder)  # type: ignore[assignment]
    plan = bench.records(tasks=["internal:numeric_param"], trainers=[search], run_id="one")
    resources = RunResources(
        LocalBackend(folder),
        Gateway({"stub": Slow()}),
        plan.layout,
        lease=lease,
    )
    row = Attempt(resources, plan.prepare(plan.jobs[0])).run()
    assert (row.status, row.llm_calls) == ("ok", 1), row.feedback
    assert row.score_best is not None
