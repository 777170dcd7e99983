"""One request to stop has parts: a child stops for its parent's reason, and a parent not for its child's."""

from __future__ import annotations

import threading
import time

from trace_bench.cancellation import Cancellation


def test_the_strongest_reason_counts() -> None:
    reasons: list[str | None] = [None, None]
    run = Cancellation(lambda: reasons[0])
    job = run.child(lambda: reasons[1])
    assert job.reason is None and not job.cancelled
    reasons[1] = "budget"
    assert (run.reason, job.reason) == (None, "budget")
    reasons[0] = "interrupted"
    assert (run.reason, job.reason) == ("interrupted", "interrupted")
    job.cancel("kill")
    assert (run.reason, job.reason) == ("interrupted", "kill")


def test_a_wait_ends_with_the_request_or_with_its_time() -> None:
    stop = Cancellation()
    assert not stop.wait(0.01)
    threading.Timer(0.05, stop.cancel).start()
    began = time.monotonic()
    assert stop.child().wait(60) and time.monotonic() - began < 30
