"""Services of the host that a suite declares for its jobs, such as a trial in a container of its own kind.

A job's sandbox has no network and no engine. Its guide asks with `trace_bench.worker.services.Services.ask`; the
request goes over the control stream, and the controller has the suite's service answer it. Services run on the host
and are trusted code; what a request holds is not, since a trainer may ask too.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol


@dataclass(frozen=True)
class ModelAddress:
    """Where the job's model is asked from the host, as any OpenAI-compatible client does, for as long as a call lasts.

    Attributes:
        base_url: on loopback; ends in ``/v1``.
        token: what takes the place of a key; it is worth nothing once the call is over.
        model: the name to ask for.
    """

    base_url: str
    token: str
    model: str


@dataclass(frozen=True)
class ServiceCall:
    """One request of a job.

    Attributes:
        request: fits the service's `request_schema`. Nothing else of the call comes from the sandbox.
        task_id, task_folder: the task, and where it lies on the host.
        spec: of the task, as a dict.
        eval_kwargs: of the job, checked.
        labels: what containers and the like are to be marked with, to be found again: ``{name: value}``.
        folder: of this call alone, and empty; what is left there is kept with the job.
        model: of the job. Calls to it are counted, held against budgets and recorded as the job's own.
        stopped: set when the job has ended, and the answer is not needed any more.
    """

    request: Mapping[str, Any]
    task_id: str
    task_folder: Path
    spec: Mapping[str, Any]
    eval_kwargs: Mapping[str, Any]
    phase: str
    labels: Mapping[str, str]
    folder: Path
    model: ModelAddress
    stopped: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class ServiceAnswer:
    """The answer of a service.

    Attributes:
        body: fits the service's `answer_schema`.
        cost_usd: beyond the cost of its calls to the model.
    """

    body: Mapping[str, Any]
    cost_usd: float = 0.0


class ServiceError(Exception):
    """An error in place of an answer.

    Attributes:
        boundary: ``provider``: what the service needs failed; the job is tried again. ``task``: the task cannot be
            asked so; the job fails. Neither is ever a score.
        message: one sentence that says what happened, and one that names the remedy.
    """

    def __init__(self, boundary: Literal["provider", "task"], message: str) -> None:
        super().__init__(message)
        self.boundary = boundary
        self.message = message


class Service(Protocol):
    """Answers requests of one kind. One object for each run; called from many threads at once.

    Attributes:
        name: as jobs ask for it; lower-case letters, digits and ``-``.
        request_schema, answer_schema: JSON Schemas of the bodies.
        at_once: calls that are answered at one time on this host, of all runs of a user; further ones wait.
    """

    name: str
    request_schema: Mapping[str, Any]
    answer_schema: Mapping[str, Any]
    at_once: int

    def check(self) -> str:
        """Look for what it needs, before the first job starts; what was found, in words.

        Raises:
            EnvironmentUnavailable: it is not there; the message names the remedy.
        """

    def answer(self, call: ServiceCall) -> ServiceAnswer:
        """Do it, and leave nothing behind but what is in ``call.folder``.

        Raises:
            ServiceError: there is no answer.
        """

    def stub(self, request: Mapping[str, Any]) -> ServiceAnswer:
        """The answer of mode ``stub``, in which no work is done: quick, and the same for equal requests."""

    def sweep(self, label: str) -> list[str]:
        """Remove what a killed controller has left with `label` (``NAME=VALUE``); what is there all the same."""

    def left(self, label: str, name: str) -> set[str]:
        """Values of the label `name` among all that carries `label`, in use or not."""

    def close(self) -> None:
        """The run is over: end what was kept ready for further calls."""
