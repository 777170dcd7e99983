"""The backend that a command is to work on: by name, by a config, or that of a run."""

from __future__ import annotations

from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.config import load_config
from trace_bench.display.console import note
from trace_bench.planning.backends import BackendChoice, backend_choice_of_run, connect_backend, has_unknown_hosts
from trace_bench.sandbox.backends import AUTO
from trace_bench.sandbox.base import Backend, SeveralEngines


def places_for(
    backend: str = AUTO, config: Path | None = None, run_id: str | None = None, layout: RunLayout | None = None
) -> BackendChoice:
    """Where sandboxes are to be looked for: where `config` says, else where the user's run `run_id` is, else where
    `backend` usually has them.

    Args:
        backend: takes the place of the config's, or the run's.
        layout: of that run, as far as it is there; see `trace_bench.planning.backends` for what it is not asked.

    Raises:
        ConfigError: the config is wrong.
    """
    if config is not None:
        return BackendChoice.of(load_config(config, {"backend": backend} if backend != AUTO else {}))
    if run_id is None:
        return BackendChoice(backend=backend)
    places = backend_choice_of_run(run_id, layout)
    if layout is not None and has_unknown_hosts(layout):
        note(f"run {run_id} was on hosts that nothing here says are yours; they are not asked: name them with --config")
    return places if backend in (AUTO, places.backend) else places.model_copy(update={"backend": backend})


def backend_for(
    backend: str = AUTO, config: Path | None = None, run_id: str | None = None, layout: RunLayout | None = None
) -> Backend:
    """The backend at `places_for`, checked and ready. Hosts that do not answer are told.

    Raises:
        ConfigError: the config is wrong, or no backend has that name. EnvironmentUnavailable: it cannot work here.
    """
    found = connect_backend(places_for(backend, config, run_id, layout))
    if isinstance(found, SeveralEngines):
        for name, why in found.unreachable().items():
            note(f"host {name} is left out: {why}")
    return found
