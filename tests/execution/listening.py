"""A subscriber with a method for each event that a test is about: ``job_finished(job, row)`` gets a `JobFinished`."""

from __future__ import annotations

import re
from dataclasses import fields

from trace_bench.execution.events import Event, RunEnded, RunStarted


class Listener:
    """Calls the method named like an event, if there is one, with the event's fields; an event of the run, whole."""

    def __call__(self, event: Event) -> None:
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
        if (method := getattr(self, name, None)) is not None:
            of_run = isinstance(event, RunStarted | RunEnded)
            method(*([event] if of_run else (getattr(event, field.name) for field in fields(event))))
