"""The images of a run whose jobs run on several engines: made on one of them, and brought to the others."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from trace_bench.config.models import ImagesConfig
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.images.engine import connect
from trace_bench.images.lock import ImagePin
from trace_bench.images.pins import ensure, foreseen
from trace_bench.images.supply import supply
from trace_bench.sandbox.base import Backend, SeveralEngines


def pinned_image(
    family: str, settings: ImagesConfig, backend: Backend, *, build: bool, say: Callable[[str], None]
) -> ImagePin:
    """The image that `family` runs in (see `trace_bench.images.pins.ensure`), for all engines of `backend`.

    It is made on this machine's engine, as ``images build`` does; where there is none, on the first host that answers.
    Hosts are given it before their first job with it.
    """

    def made(engine: Any) -> ImagePin:
        return ensure(
            family,
            allow_build=build,
            accept_drift=settings.accept_drift,
            base=settings.base,
            engine=engine,
            progress=say,
        )

    if not isinstance(backend, SeveralEngines):
        return made(None)
    with _source(backend) as engine:
        pin = made(engine)
    telling = threading.Lock()

    def told(line: str) -> None:
        with telling:
            say(line)

    def bring(host: str, client: Any, stopped: Callable[[], bool]) -> str:
        with _source(backend) as engine:  # of its own: clients are not shared among threads
            return supply(pin, engine, client, host, told, stopped)

    backend.supply_image(pin.ref, bring)
    return pin


def foreseen_image(family: str, settings: ImagesConfig, backend: Backend) -> ImagePin | None:
    """The image that `pinned_image` would come to, as far as that is known; None if it would be built first.

    Nothing is built, pulled or brought anywhere.
    """

    def found(engine: Any) -> ImagePin | None:
        return foreseen(family, accept_drift=settings.accept_drift, base=settings.base, engine=engine)

    if not isinstance(backend, SeveralEngines):
        return found(None)
    with _source(backend) as engine:
        return found(engine)


@contextlib.contextmanager
def _source(backend: SeveralEngines) -> Iterator[Any]:
    try:
        client: Any = connect()
    except EnvironmentUnavailable:
        client = backend.first_engine()
    with contextlib.closing(client):
        yield client
