"""Mirrors of a run that goes on: a detached process each, started with the run and waited for a little at its end.

Whatever becomes of such a process, the run's results, exit code and (but for that wait) duration stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.config.models import RunConfig
from trace_bench.display.text import clean_line
from trace_bench.errors import ConfigError
from trace_bench.execution.events import Event, RunStarted, Subscriber
from trace_bench.mirrors.mlflow import URI_VARIABLE, address
from trace_bench.mirrors.registry import KINDS, log_of

_GLANCE = 0.05
_TAIL = 4096


def with_warnings(config: RunConfig, environ: Mapping[str, str]) -> RunConfig:
    """`config` without the mirrors that cannot be made here, which is among its warnings: they are no reason not to
    run."""
    asked = config.mirrors.mlflow
    if asked is None:
        return config
    why = KINDS["mlflow"].missing()
    if why is None:
        try:
            address(asked.tracking_uri, environ)
        except ConfigError:
            why = f"no server is named: write tracking_uri, or set {URI_VARIABLE}"
    if why is None:
        return config
    place = config.source.where(("mirrors", "mlflow"))
    note = f"{place}: the run is not mirrored, as {why}; or copy it later: trace-bench mirror mlflow RUN"
    return config.changed({"mirrors": config.mirrors.model_copy(update={"mlflow": None})}, warnings=[note])


@contextlib.contextmanager
def mirrored(config: RunConfig, subscriber: Subscriber, say: Callable[[str], None]) -> Iterator[Subscriber]:
    """A subscriber for a run of `config` that starts the run's mirrors, and passes all events on to `subscriber`.

    At the end the mirrors are waited for, and `say` gets a line about each.
    """
    asked = config.mirrors.mlflow
    if asked is None:
        yield subscriber
        return
    words = ["--follow"]
    for option, value in (("--tracking-uri", asked.tracking_uri), ("--experiment", asked.experiment)):
        words += [option, value] if value is not None else []
    started: list[Attached] = []

    def notify(event: Event) -> None:
        if isinstance(event, RunStarted):
            started.append(Attached.start("mlflow", event.layout, words))
        subscriber(event)

    try:
        yield notify
    finally:
        for mirror in started:
            say(mirror.ended(asked.wait))


@dataclass
class Attached:
    """The process of a mirror, or why there is none."""

    name: str
    run_id: str
    log: Path
    process: subprocess.Popen[bytes] | None = None
    trouble: str = ""

    @classmethod
    def start(cls, name: str, run: RunLayout, words: Sequence[str]) -> Attached:
        """Start ``trace-bench mirror NAME RUN`` with `words`, out of reach of the terminal's signals. Its address may
        hold a password only in the environment, which it inherits."""
        made = cls(name, run.run_id, log_of(run, name))
        try:
            made.log.parent.mkdir(parents=True, exist_ok=True)
            with made.log.open("wb") as log:
                made.process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "trace_bench", "mirror", name, str(run.root.absolute()), *words],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            made.trouble = error.strerror or str(error)
        return made

    def ended(self, patience: float) -> str:
        """The result of the mirror in one line, after at most `patience` seconds or Ctrl-C."""
        if self.process is None:
            return f"mirror {self.name}: it did not start ({self.trouble}); {self._again()}"
        until = time.monotonic() + patience
        with contextlib.suppress(KeyboardInterrupt):
            while self.process.poll() is None and (left := until - time.monotonic()) > 0:
                time.sleep(min(_GLANCE, left))
        code = self.process.poll()
        if code is None:
            self.process.returncode = 0  # it goes on alone; Python would warn of that
            return f"mirror {self.name}: still at work in process {self.process.pid}, and goes on alone; see {self.log}"
        said = self._last_line()
        if code == 0:
            return f"mirror {self.name}: {said}"
        why = said.removeprefix("error: ").removeprefix(f"mirror {self.name}: ") or f"it ended with {code}"
        return f"mirror {self.name}: {why}; {self._again()}"

    def _again(self) -> str:
        return f"the run is whole; trace-bench mirror {self.name} {self.run_id} copies it again"

    def _last_line(self) -> str:
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().decode("utf-8", "replace").splitlines()
            return clean_line(next((line for line in reversed(lines) if line.strip()), ""), 500)
        return ""
