"""What the controller says over a stream, and how often: each write may be a call of a service."""

from __future__ import annotations

import pytest

from tests.execution.bench import Bench
from tests.execution.simulated import SimulatedSandbox
from tests.execution.supervisor import Script
from trace_bench.execution import session
from trace_bench.worker.control_stream import Decoder


def test_what_came_together_is_acknowledged_together(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    inner = SimulatedSandbox.write
    monkeypatch.setattr(SimulatedSandbox, "write", lambda self, data: (written.append(data), inner(self, data))[1])
    bench.backend.script = lambda job_id, number: Script(calls=3)
    assert bench.run(tasks=["internal:numeric_param"], trainers=[{"id": "NoOp"}]).ok
    said = [message for data in written for message in Decoder().feed(data)]
    numbers = [message.header["received"] for message in said if message.type == "ack"]
    assert numbers == sorted(set(numbers)), "each says something new"
    events_before_training, calls, rest = 4, 3, 6
    assert numbers[-1] > events_before_training + calls, "many messages came"
    assert len(numbers) <= calls + rest - 2
    assert [message.type for message in said].count("llm.response") == calls


def test_a_silent_sandbox_is_looked_at_less_often(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    inner = SimulatedSandbox.read
    monkeypatch.setattr(
        SimulatedSandbox, "read", lambda self, timeout: (waited.append(timeout), inner(self, timeout))[1]
    )
    monkeypatch.setattr(session, "OFTEN", 0.02)
    monkeypatch.setattr(session, "SELDOM", 0.1)
    bench.backend.script = lambda job_id, number: Script(seconds=0.6)
    assert bench.run(tasks=["internal:numeric_param"], trainers=[{"id": "NoOp"}]).ok
    assert min(waited) == pytest.approx(0.02) and max(waited) == pytest.approx(0.1)
