"""The mirror of a run in progress: it copies each job at its end, on the thread that gets the run's events.

No job waits for that thread. The first failure ends the mirror with one warning, and the run continues.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from trace_bench.artifacts.layout import RunLayout
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
        self._run: RunLayout | None = None
        self._mirror: MlflowMirror | None = None

    def notify(self, event: Event) -> None:
        """Copy what `event` says has ended, unless a copy has failed."""
        if self.outcome:
            return
        if isinstance(event, RunStarted):
            self._run = event.layout
        if self._run is None or not isinstance(event, JobFinished | RunEnded):
            return
        run_id = self._run.run_id
        try:
            if self._mirror is None:  # not before: the import of the client takes seconds
                uri, experiment, wait = self._settings.tracking_uri, self._settings.experiment, self._settings.wait
                self._mirror = MlflowMirror(self._run, uri, experiment, wait=wait)
            if isinstance(event, JobFinished):
                self._mirror.copy_job(event.row)
                return
            done = self._mirror.copy_run()
            jobs = "1 job" if done.jobs == 1 else f"{done.jobs} jobs"
            self.outcome = "; ".join([f"{run_id}: {jobs} at {done.place}", *done.problems])
        except Exception as error:  # of any kind: what a subscriber raises would end the run
            reason = clean_line(str(error) or type(error).__name__, 500).removeprefix("mirror mlflow: ")
            self.outcome = f"{reason}; the copy is incomplete; send the run again: trace-bench mirror mlflow {run_id}"
