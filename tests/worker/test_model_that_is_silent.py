"""A limit on time that is reached while a model does not answer: whose time it was decides the boundary."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.worker.support import run
from trace_bench.worker import llm_calls
from trace_bench.worker.clocks import TrainClock, late_task, late_training
from trace_bench.worker.llm_calls import LlmCalls
from trace_bench.worker.relay import RelayRequest

CHAT = "/v1/chat/completions"
TRAINER = """
import threading

class Trainer(Trainer):
    def train(self, problem, params, context):
        threading.Thread(target=self.ask, args=[context], daemon=True).start()
        while True:  # so that it ends at once when it is stopped
            context.check()
            time.sleep(0.01)

    def ask(self, context):
        {before}
        for number in range(10000):
            context.chat([{{"role": "user", "content": str(number)}}], slot=Slot(number, "a"))
            {between}
"""


def answered(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]]:
    return 200, b'{"choices": []}', {}


def failure(before: str, between: str, silent_from: int, folder: Path) -> tuple[str, str, str]:
    """The failure of a job whose trainer may take 2 s, and whose model answers the calls before `silent_from`."""

    def answer(header: dict[str, Any], body: bytes) -> tuple[int, bytes, dict[str, Any]] | None:
        number = int(json.loads(body)["messages"][0]["content"])
        return answered(header, body) if number < silent_from else None

    code = TRAINER.format(before=before, between=between)
    got = run(folder, code, limits={"job_timeout": 2.0}, timeout=40, answer=answer)
    assert got.result is not None and got.result["stop_reason"] == "timeout"
    assert got.result["scores"], "what was trained is scored"
    failed = got.result["failure"]
    return failed["boundary"], failed["kind"], failed["message"]


def test_training_that_waited_for_its_model_timed_out_at_the_provider(tmp_path: Path) -> None:
    boundary, kind, message = failure("pass", "pass", 3, tmp_path)
    assert (boundary, kind) == ("provider", "provider_timeout")
    assert "the model did not answer for " in message and "job_timeout = 2 s" in message


@pytest.mark.parametrize(
    ("before", "between", "silent_from"),
    [("pass", "time.sleep(0.02)", 10000), ("time.sleep(1.2)", "pass", 0)],
    ids=["slow between many quick calls", "slow, and then a call"],
)
def test_training_that_used_the_time_itself_timed_out_at_the_trainer(
    tmp_path: Path, before: str, between: str, silent_from: int
) -> None:
    assert failure(before, between, silent_from, tmp_path)[:2] == ("trainer", "job_timeout")


Moment = tuple[float, str, str]
"""Time, ``ask`` or ``answer``, and the call: its phase and a letter; one of a service is in upper case."""


@pytest.mark.parametrize(
    ("moments", "waited"),
    [
        ([], 0.0),
        ([(0, "ask", "train-a")], 10.0),
        ([(0, "ask", "train-a"), (4, "answer", "train-a")], 0.0),
        ([(0, "ask", "train-a"), (2, "ask", "train-b")], 10.0),
        ([(0, "ask", "train-a"), (2, "ask", "train-b"), (9, "answer", "train-b")], 1.0),
        ([(0, "ask", "train-a"), (1, "answer", "train-a"), (3, "ask", "train-b")], 7.0),
        ([(0, "ask", "score-a"), (3, "ask", "train-b")], 7.0),
        ([(0, "ask", "train-A")], 0.0),
    ],
    ids=["none", "one", "answered", "two", "another is answered", "the second", "of another phase", "of a service"],
)
def test_what_counts_as_waiting(moments: list[Moment], waited: float, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, numbers = LlmCalls(lambda kind, fields, body: None), dict[str, str]()
    for at, what, name in moments:
        monkeypatch.setattr(llm_calls.time, "monotonic", lambda at=at: 100.0 + at)
        if what == "ask":
            path = CHAT if name.islower() else "/services/trial"
            numbers[name] = f"{name.partition('-')[0]}-{calls.number + 1}"
            calls.ask(name.partition("-")[0], RelayRequest("POST", path, {}, b"{}"), lambda *answer: None)
        else:
            calls.answered({"id": numbers[name], "status": 200}, b"{}")
    assert calls.waited("train", 110.0) == waited


@pytest.mark.parametrize(("waited", "boundary"), [(0.0, "trainer"), (5.0, "trainer"), (5.1, "provider")])
def test_the_provider_has_the_time_if_it_was_most_of_the_limit(waited: float, boundary: str) -> None:
    job = {"mode": "real", "limits": {"job_timeout": 10.0, "score_timeout": 10.0}, "budget": {}}
    late = late_training(job, 10.5, TrainClock(), time.monotonic(), waited)
    assert late is not None and late.failure is not None and late.failure["boundary"] == boundary
    scored = late_task(job, "score", 10.5, waited)
    assert scored is not None and scored["boundary"] == boundary.replace("trainer", "task")
