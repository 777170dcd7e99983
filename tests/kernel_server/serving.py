"""A server on a port of this machine, with evaluations that a test controls."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from trace_bench.cancellation import Cancellation
from trace_bench.kernel_server.jobs import EvaluationFailed, Jobs, Result
from trace_bench.kernel_server.problems import Problems
from trace_bench.kernel_server.serve import listen, serve, url_of
from trace_bench.kernel_server.submission import Submission

PATIENCE = 20.0
"""Seconds that a test waits for something that happens at once on an idle machine."""


@dataclass
class Evaluations:
    """Evaluates by what `custom_cuda` says: ``wait`` goes on until `go` is set, ``break`` raises, ``fail`` has no
    result; anything else is a result."""

    go: threading.Event = field(default_factory=threading.Event)
    begun: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0

    def __call__(self, submission: Submission, device: str, stopped: Callable[[], bool]) -> Result:
        self.begun.append(submission.sample_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self._result(submission, device, stopped)
        finally:
            self.at_once -= 1
            self.ended.append(submission.sample_id)

    def _result(self, submission: Submission, device: str, stopped: Callable[[], bool]) -> Result:
        if submission.custom_cuda == "break":
            raise RuntimeError("a defect")
        if submission.custom_cuda == "fail":
            raise EvaluationFailed("task: the reference is at fault")
        while submission.custom_cuda == "wait" and not self.go.wait(0.01):
            if stopped():
                raise EvaluationFailed("the evaluation was stopped")
        return {
            "compiled": True,
            "correctness": True,
            "metadata": {"device": device},
            "runtime": float(submission.sample_id),
            "runtime_stats": {},
        }


@contextlib.contextmanager
def serving(
    evaluations: Evaluations, *, problems: Problems | None = None, token: str | None = None, **options: Any
) -> Iterator[httpx.Client]:
    """A client of a server that runs until the block ends. `options` are those of `Jobs`."""
    stop = Cancellation()
    listener = listen("127.0.0.1", 0, token)
    url = url_of(listener)
    jobs = Jobs(evaluations, **options)
    thread = threading.Thread(target=serve, args=(jobs, problems or Problems(), token, listener, stop))
    thread.start()
    try:
        with httpx.Client(base_url=url, timeout=PATIENCE) as client:
            yield client
    finally:
        stop.cancel()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def body(custom_cuda: str = "a kernel", sample_id: int = 0, **fields: Any) -> dict[str, Any]:
    """What a client sends."""
    return {
        "problem_id": 19, "sample_id": sample_id, "custom_cuda": custom_cuda, "ref_arch_src": "a reference", **fields,
    }  # fmt: skip


def eventually(holds: Callable[[], Any]) -> None:
    """Wait until `holds` returns something true."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
