"""The mirror of a run in progress: it copies each job at its end, on the thread that gets the run's events.

No job waits for that thread. The first failure ends the mirror with one warning, and the run continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from trace_bench.config.models import MlflowMirrorConfig, RunConfig
from trace_bench.display.text import clean_line
from trace_bench.errors import ConfigError
from trace_bench.execution.events import Event, JobFinished, RunEnded, RunStarted, Subscriber
from trace_bench.mirrors import missing_package
from trace_bench.mirrors.mlflow import URI_VARIABLE, MlflowMirror, address


def with_warnings(config: RunConfig, environ: Mapping[str, str]) -> RunConfig:
    """Return `config` without the mirrors that cannot work here, with a warning about each."""
    asked = config.mirrors.mlflow
    if asked is None:
        return config
    reason = missing_package("mlflow")
    if reason is None:
        try:
            address(asked.tracking_uri, environ)
        except ConfigError:
            reason = f"no server is named: write tracking_uri, or set {URI_VARIABLE}"
    if reason is None:
        return config
    place = config.source.where(("mirrors", "mlflow"))
    note = f"{place}: the run is not mirrored, as {reason}; or copy it later: trace-bench mirror mlflow RUN"
    return config.changed({"mirrors": config.mirrors.model_copy(update={"mlflow": None})}, warnings=[note])


@contextlib.contextmanager
def mirrored(config: RunConfig, subscriber: Subscriber, say: Callable[[str], None]) -> Iterator[Subscriber]:
    """Yield a subscriber that passes each event to `subscriber` and then copies what has ended.

    At the end, `say` gets a line about the copy.
    """
    if config.mirrors.mlflow is None:
        yield subscriber
        return
    mirror = _RunMirror(config.mirrors.mlflow)

    def notify(event: Event) -> None:
        subscriber(event)
        mirror.notify(event)

    try:
        yield notify
    finally:
        if mirror.outcome:
            say(f"mirror mlflow: {mirror.outcome}")


class _RunMirror:
    """The mirror of one run.

    Attributes:
        outcome: a line about the copy; empty before the first failure and the end of the run.
    """

    def __init__(self, settings: MlflowMirrorConfig) -> None:
        self.outcome = ""
        self._settings = settings
        self._mirror: MlflowMirror | None = None
        self._run_id = ""

    def notify(self, event: Event) -> None:
        """Copy what `event` says has ended, unless a copy has failed."""
        if self.outcome:
            return
        try:
            self._copy(event)
        except Exception as error:  # of any kind: what a subscriber raises would end the run
            reason = clean_line(str(error) or type(error).__name__, 500).removeprefix("mirror mlflow: ")
            self.outcome = f"{reason}; the run is complete without it: trace-bench mirror mlflow {self._run_id}"

    def _copy(self, event: Event) -> None:
        match event:
            case RunStarted(run_id=run_id, layout=layout):
                self._run_id = run_id
                uri, experiment, wait = self._settings.tracking_uri, self._settings.experiment, self._settings.wait
                self._mirror = MlflowMirror(layout, uri, experiment, wait=wait)
            case JobFinished(row=row) if self._mirror is not None:
                self._mirror.copy_job(row)
            case RunEnded() if self._mirror is not None:
                done = self._mirror.copy_run()
                jobs = "1 job" if done.jobs == 1 else f"{done.jobs} jobs"
                self.outcome = "; ".join([f"{self._run_id}: {jobs} at {done.place}", *done.problems])
