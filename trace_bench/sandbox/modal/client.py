"""The connection to Modal: one event loop, a time limit for every call, and one sentence for every error.

All use of the service's client is in this module, and only of what its documentation names. It is imported on first
use: that takes half a second, which other backends need not spend.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from trace_bench.errors import EnvironmentUnavailable, Interrupted, SandboxError, TraceBenchError
from trace_bench.sandbox.errors import EngineGone, ImageMissing, NameConflict, RateLimited, SandboxRemoved
from trace_bench.sandbox.modal.tags import decoded, encoded
from trace_bench.sandbox.pace import MARGIN

if TYPE_CHECKING:
    import modal

T = TypeVar("T")

CALL_SECONDS = 60.0
CREATE_SECONDS = 120.0
IMAGE_SECONDS = 1200.0
"""The first use of an image: the service pulls it."""
POLL_SECONDS = 0.5
"""How often a wait for an image looks whether the image is still needed."""
EXEC_SECONDS = 300.0
"""An exec waits until its sandbox has started."""
TERMINATE_SECONDS = 120.0
TOKEN = "give its credentials: modal token set, or MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
TAG_CALLS = 32
"""Calls for tags under way at a time."""


class Client:
    """One app of one workspace.

    Args:
        app: its name; the app is made if it is missing.
        environment: of the workspace; None is its default.
        per_second: sandboxes that may be created in a second.
        client: the service's client to use; None is that of this process, with the user's credentials.

    Attributes:
        stopped: called often while an image is pulled; True ends the wait.
    """

    def __init__(
        self, app: str, environment: str | None, per_second: float, client: modal.Client | None = None
    ) -> None:
        self.app_name = app
        self._environment = environment
        self._client = client
        self._distance = MARGIN / per_second
        self._next_creation = 0.0
        self._creating = threading.Lock()
        self._app: modal.App | None = None
        self._images: dict[tuple[str, str | None], modal.Image] = {}
        self._pulling = threading.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._labels: dict[str, dict[str, str]] = {}
        self.stopped: Callable[[], bool] = lambda: False

    # -- the loop ------------------------------------------------------------------------------------------------

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `work` on the loop of the service's client. From any other loop each call would change threads twice,
        which takes longer than the call. The loop is not public; the client's version is pinned."""
        from modal._utils.async_utils import synchronizer

        return asyncio.run_coroutine_threadsafe(work, synchronizer._get_loop(start=True))

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Let `work` go on by itself; called on that loop."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def call(self, work: Coroutine[Any, Any, T], seconds: float, action: str, name: str = "") -> T:
        """The result of `work`; `action` completes "Modal did not".

        Raises:
            SandboxError, EnvironmentUnavailable: as `translated`.
        """
        future = self.submit(work)
        try:
            return future.result(seconds)
        except TimeoutError as error:
            future.cancel()
            raise EngineGone(f"Modal did not {action} in time.") from error
        except Exception as error:
            raise translated(error, action, name) from error

    # -- calls ---------------------------------------------------------------------------------------------------

    @property
    def app(self) -> modal.App:
        """The app, looked up once.

        Raises:
            EnvironmentUnavailable: the credentials are missing or refused. EngineGone: no answer.
        """
        if self._app is None:
            import modal

            found = modal.App.lookup.aio(
                self.app_name, environment_name=self._environment, create_if_missing=True, client=self._client
            )
            self._app = self.call(found, CALL_SECONDS, "look up the app")
        return self._app

    def image(self, ref: str, access: str | None) -> modal.Image:
        """The image `ref`, which the service has pulled. Of several threads one has it pulled, and the others wait.

        Args:
            access: name of the secret with the credentials of a private registry.

        Raises:
            Interrupted: `stopped`. SandboxError, EnvironmentUnavailable: as `translated`.
        """
        import modal

        app = self.app
        while not self._pulling.acquire(timeout=POLL_SECONDS):
            self._check_not_stopped(ref)
        try:
            if (ref, access) not in self._images:
                self._check_not_stopped(ref)
                secret = None if access is None else modal.Secret.from_name(access)
                image = modal.Image.from_registry(ref, secret=secret)
                self.call(self._until_stopped(image.build.aio(app)), IMAGE_SECONDS, f"pull the image {ref}", ref)
                self._check_not_stopped(ref)
                self._images[ref, access] = image
            return self._images[ref, access]
        finally:
            self._pulling.release()

    async def _until_stopped(self, work: Coroutine[Any, Any, Any]) -> None:
        """Await `work`, or give it up once `stopped`. (To raise `Interrupted` here would end the loop with it.)"""
        pulling = asyncio.ensure_future(work)
        try:
            while not self.stopped():
                if (await asyncio.wait({pulling}, timeout=POLL_SECONDS))[0]:
                    await pulling
                    return
        finally:
            pulling.cancel()

    def _check_not_stopped(self, ref: str) -> None:
        if self.stopped():
            raise Interrupted(f"interrupted while Modal pulled the image {ref}")

    def create(self, command: Sequence[str], *, name: str, labels: Mapping[str, str], **settings: Any) -> modal.Sandbox:
        """Make a sandbox; `settings` as of the service's client.

        The scheduler keeps the pace (`trace_bench.sandbox.pace`). But threads that waited for one image continue at
        once, so the distance is kept again where the calls leave.
        """
        import modal

        app = self.app
        with self._creating:
            time.sleep(max(0.0, self._next_creation - time.monotonic()))
            self._next_creation = time.monotonic() + self._distance
        made = modal.Sandbox.create.aio(
            *command, app=app, name=name, tags=encoded(labels), client=self._client, **settings
        )
        sandbox = self.call(made, CREATE_SECONDS, "create a sandbox", name)
        self._labels[sandbox.object_id] = dict(labels)
        return sandbox

    def find(self, labels: Mapping[str, str]) -> list[tuple[modal.Sandbox, Mapping[str, str]]]:
        """All sandboxes of the app that have not ended and carry `labels`, each with all of its labels."""
        app_id = self.app.app_id
        return self.call(self._find(app_id, encoded(labels)), CALL_SECONDS, "list sandboxes")

    async def _find(self, app_id: str | None, tags: dict[str, str]) -> list[tuple[modal.Sandbox, Mapping[str, str]]]:
        import modal

        handles = [handle async for handle in modal.Sandbox.list.aio(app_id=app_id, tags=tags, client=self._client)]
        free = asyncio.Semaphore(TAG_CALLS)

        async def fetch_labels(handle: modal.Sandbox) -> None:
            if handle.object_id not in self._labels:  # the list holds no tags; they never change
                with contextlib.suppress(modal.exception.NotFoundError):  # it has ended meanwhile
                    async with free:
                        self._labels[handle.object_id] = decoded(await handle.get_tags.aio())

        await asyncio.gather(*(fetch_labels(handle) for handle in handles))
        return [(handle, known) for handle in handles if (known := self._labels.get(handle.object_id)) is not None]

    def poll(self, handle: modal.Sandbox, name: str) -> int | None:
        """The exit code of the sandbox, or None while it runs."""
        code: int | None = self.call(handle.poll.aio(), CALL_SECONDS, "say how a sandbox is", name)
        return code

    def terminate(self, handle: modal.Sandbox, name: str) -> None:
        """End a sandbox with all it holds; nothing happens if it has ended."""
        with contextlib.suppress(SandboxRemoved):
            self.call(_end(handle), TERMINATE_SECONDS, "end a sandbox", name)
        self._labels.pop(handle.object_id, None)

    async def exec(self, handle: modal.Sandbox, command: Sequence[str]) -> Any:
        """Start a process in a sandbox (`modal.container_process.ContainerProcess`); to be awaited on the loop."""
        from modal.stream_type import StreamType

        return await handle.exec.aio(*command, text=False, stderr=StreamType.DEVNULL)


async def _end(handle: Any) -> None:
    """Terminate the sandbox, then close the handle's connection. If the termination fails the handle stays open: a
    handle that is detached cannot be terminated, and its sandbox would seem gone."""
    import modal

    with contextlib.suppress(modal.exception.NotFoundError):
        await handle.terminate.aio(wait=True)
    # Each handle has a connection of its own, which is kept for half a minute otherwise.
    await handle.detach.aio()


_ERRORS: tuple[tuple[tuple[str, ...], type[TraceBenchError], str], ...] = (
    (("AuthError",), EnvironmentUnavailable, "Modal does not accept the credentials ({text}); {token}."),
    (
        ("PermissionDeniedError",),
        EnvironmentUnavailable,
        "Modal does not permit you to {action} ({text}); {token} of an account that may.",
    ),
    (("ResourceExhaustedError",), RateLimited, "Modal did not {action} now: {text}."),
    (
        ("AlreadyExistsError",),
        NameConflict,
        "a sandbox called {name} is there already; remove it, or adopt it by its labels.",
    ),
    (
        ("ImageBuildError",),
        ImageMissing,
        "Modal did not {action}: {text}. Push it with trace-bench images push, and name the secret of a private "
        "registry in modal.registry_access.",
    ),
    (
        ("NotFoundError", "SandboxTerminatedError", "SandboxTimeoutError", "ClientClosed", "ConflictError"),
        SandboxRemoved,
        "sandbox {name} is no longer there ({text}).",
    ),
    (("VersionError",), EnvironmentUnavailable, "Modal requires another version of its client: {text}."),
    (
        ("ServiceError", "InternalError", "ConnectionError", "TimeoutError", "InternalFailure"),
        EngineGone,
        "Modal did not {action}: {text}.",
    ),
)
"""By the names of the exceptions of the service's client: our error, and its sentence. The first match counts."""


def translated(error: BaseException, action: str, name: str = "") -> TraceBenchError:
    """`error` as one of `trace_bench.sandbox.errors`; `action` completes "Modal did not"."""
    if isinstance(error, TraceBenchError):
        return error
    from modal import exception

    text = " ".join(str(error).split()).partition(". If you ")[0].strip(" .") or type(error).__name__
    words = {"text": text, "action": action, "name": name, "token": TOKEN}
    for names, kind, sentence in _ERRORS:
        if isinstance(error, tuple(getattr(exception, each) for each in names)):
            return kind(sentence.format(**words))
    if isinstance(error, OSError):
        return EngineGone(f"Modal did not {action}: {text}.")
    if "token" in text.lower() and "modal" in text.lower():
        return EnvironmentUnavailable(_ERRORS[0][2].format(**words))
    return SandboxError(f"Modal did not {action}: {type(error).__name__}: {text}.")
