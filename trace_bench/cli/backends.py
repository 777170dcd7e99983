"""The backend that a command works on: by name, by a config, or that of a run."""

from __future__ import annotations

from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.config import load_config
from trace_bench.display.console import note
from trace_bench.planning.backends import BackendChoice, backend_choice_of_run, connect_backend, has_unknown_hosts
from trace_bench.sandbox.backends import AUTO
from trace_bench.sandbox.base import Backend, SeveralEngines


def choose_backend(
    backend: str = AUTO, config: Path | None = None, run_id: str | None = None, layout: RunLayout | None = None
) -> BackendChoice:
    """The backend that has the sandboxes: that of `config`, else that of the user's run `run_id`, else `backend` with
    its usual hosts.

    Args:
        backend: replaces the backend of the config or the run, unless it is `AUTO`.
        layout: the run's folder, if there is one. Its hosts are not trusted; see `trace_bench.planning.backends`.

    Raises:
        ConfigError: the config is wrong.
    """
    if config is not None:
        return BackendChoice.of(load_config(config, {"backend": backend} if backend != AUTO else {}))
    if run_id is None:
        return BackendChoice(backend=backend)
    choice = backend_choice_of_run(run_id, layout)
    if layout is not None and has_unknown_hosts(layout):
        note(f"run {run_id} was on hosts that nothing here says are yours; they are not asked: name them with --config")
    return choice if backend in (AUTO, choice.backend) else choice.model_copy(update={"backend": backend})


def backend_for(
    backend: str = AUTO, config: Path | None = None, run_id: str | None = None, layout: RunLayout | None = None
) -> Backend:
    """The backend of `choose_backend`, checked and ready. Hosts that do not answer are noted.

    Raises:
        ConfigError: the config is wrong, or no backend has that name. EnvironmentUnavailable: it cannot work here.
    """
    found = connect_backend(choose_backend(backend, config, run_id, layout))
    if isinstance(found, SeveralEngines):
        for name, why in found.unreachable().items():
            note(f"host {name} is left out: {why}")
    return found
