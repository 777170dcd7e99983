"""Run one sandbox that does nothing, with all calls that a job makes: only that shows what an engine refuses."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager

from trace_bench.errors import SandboxError
from trace_bench.sandbox.base import Backend, Control, Resources, SandboxRequest
from trace_bench.sandbox.engine import Engine
from trace_bench.sandbox.labels import job_labels

LEASE = 60.0
"""Seconds after which `trace-bench clean` removes the sandbox of a trial."""
PATIENCE = 60.0
"""Seconds that it has to end, once it has started."""
COMMAND = ("/sbin/docker-init", "--version")
"""The engine's own init, which it adds to every sandbox: the image has no file."""


def start_one(backend: Backend, engine: Engine) -> list[Control]:
    """Run a sandbox of an image without files to its end with the calls of a job, and remove both.

    Args:
        backend: makes sandboxes on `engine`.

    Returns:
        Its controls, read back after the start.

    Raises:
        SandboxError, EnvironmentUnavailable: the engine cannot start one, or refuses a call.
    """
    name = f"trace-bench-trial-{secrets.token_hex(4)}"
    labels = job_labels(name, "trial", LEASE)
    backend.uid_bases_in_use()
    with _empty_image(engine) as image:
        sandbox = backend.create(
            SandboxRequest(
                name=name,
                image=image,
                command=COMMAND,
                labels=labels,
                uid_base=backend.default_uid_base,
                resources=Resources(memory_bytes=64 << 20, pids=64),
            )
        )
        try:
            with contextlib.closing(sandbox.attach()) as stream:
                sandbox.start()
                controls = sandbox.controls()
                while stream.read(PATIENCE):
                    pass  # what it prints
            if sandbox.wait(PATIENCE) is None:
                raise SandboxError(f"{engine} has started a sandbox that did not end within {PATIENCE:g} s.")
            backend.find(labels)
            sandbox.last_words()
            sandbox.kill()
            for _ in sandbox.collect():
                pass
        finally:
            sandbox.remove()
    return controls


@contextmanager
def _empty_image(engine: Engine) -> Iterator[str]:
    """The id of an image that holds nothing; it is removed with the block."""
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    with engine.errors("import an image"):
        said = engine.client.import_image_from_data(empty.getvalue())
        image = str(json.loads(said.strip().splitlines()[-1])["status"])
    try:
        yield image
    finally:
        with engine.errors("remove an image"):
            engine.client.remove_image(image, force=True)
