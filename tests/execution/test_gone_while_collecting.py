"""Engines that go away when a job is over, before its results are fetched or its sandbox is removed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.execution.bench import Bench, attempts, journal
from tests.execution.simulated import SimulatedSandbox
from tests.execution.supervisor import Script
from trace_bench.errors import SandboxError
from trace_bench.sandbox.base import Host, SandboxRequest
from trace_bench.sandbox.errors import EngineGone, NameConflict

ONE = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"]}


@pytest.mark.parametrize("several", [False, True])
def test_an_engine_that_goes_while_results_are_fetched_costs_one_attempt_and_no_job(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    backend = bench.backend
    if several:
        backend.several = (Host("a", slots=2, scope="a"), Host("b", slots=2, scope="b"))
    real, went = SimulatedSandbox.collect, []

    def collect(sandbox: SimulatedSandbox) -> Iterator[bytes]:
        if not went:
            went.append(sandbox)
            if several:
                backend.away[sandbox.host] = time.monotonic() + 0.3
            else:
                backend.go(0.3)
        backend.answer(sandbox.host)
        yield from real(sandbox)

    monkeypatch.setattr(SimulatedSandbox, "collect", collect)
    backend.script = lambda job_id, number: Script(seconds=0.2)
    result = bench.run(seeds=[1, 2], retries=1)
    assert result.ok and backend.alive == 0
    kinds = [line["failure_kind"] for line in journal(result.layout) if line["event"] == "job.retry"]
    assert kinds and set(kinds) == {"engine_gone"}


def test_a_line_that_breaks_while_results_are_fetched_costs_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, broke = SimulatedSandbox.collect, []

    def collect(sandbox: SimulatedSandbox) -> Iterator[bytes]:
        whole = b"".join(real(sandbox))
        if not broke:
            broke.append(sandbox)
            yield whole[:700]
            raise EngineGone("the connection broke")
        yield whole

    monkeypatch.setattr(SimulatedSandbox, "collect", collect)
    result = bench.run(**ONE, retries=0)
    assert result.ok and broke and attempts(result.layout, result.rows[0].job_id) == [(1, "ok")]


def test_a_sandbox_that_could_not_be_removed_does_not_keep_the_next_attempt_from_its_name(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, tries = bench.backend, []
    real = SimulatedSandbox.remove
    whole = SimulatedSandbox.__init__
    backend.script = lambda job_id, number: Script(ends="dies" if number == 1 else "done")

    def remove(sandbox: SimulatedSandbox) -> None:
        tries.append(sandbox)
        if len(tries) == 1:
            raise SandboxError("removal is in progress already")
        real(sandbox)

    def cut(name: str) -> str:  # as a service does that takes no long ones
        return name[:14]

    def create(request: SandboxRequest) -> None:
        if any(sandbox.name == cut(request.name) for sandbox in backend.find({})):
            raise NameConflict(f"a sandbox called {request.name} is there already")

    def made(sandbox: SimulatedSandbox, *arguments: Any) -> None:
        whole(sandbox, *arguments)
        sandbox.name = cut(sandbox.name)

    monkeypatch.setattr(SimulatedSandbox, "remove", remove)
    monkeypatch.setattr(SimulatedSandbox, "__init__", made)
    backend.on_create = create
    result = bench.run(**ONE, retries=1)
    assert result.ok and attempts(result.layout, result.rows[0].job_id) == [(1, "failed"), (2, "ok")]
    assert backend.alive == 0
