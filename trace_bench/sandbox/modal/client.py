"""The connection to Modal: one loop, every call with a limit of its own, and its errors in one sentence each.

All of the service's client that is used stands here, and only what its documentation names. It is imported on first
use: that takes half a second, and none of it is wanted where another backend runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from trace_bench.errors import EnvironmentUnavailable, Interrupted, SandboxError, TraceBenchError
from trace_bench.sandbox.errors import EngineGone, ImageMissing, NameConflict, RateLimited, SandboxGone
from trace_bench.sandbox.modal.tags import decoded, encoded
from trace_bench.sandbox.modal.turns import Turns

if TYPE_CHECKING:
    import modal

T = TypeVar("T")

CALL_SECONDS = 60.0
CREATE_SECONDS = 120.0
IMAGE_SECONDS = 1200.0
"""The first use of an image: the service pulls it."""
LOOK = 0.5
"""Seconds between two looks at whether an image is still wanted."""
EXEC_SECONDS = 300.0
"""An exec waits for its sandbox to have started."""
TERMINATE_SECONDS = 120.0
TOKEN = "give its credentials: modal token set, or MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"
AT_ONCE = 32
"""Calls for tags on their way at a time."""


@dataclass(frozen=True)
class Listed:
    """A sandbox as the service lists it: its handle, and our labels of it."""

    handle: modal.Sandbox
    labels: Mapping[str, str]


class Client:
    """One app of one workspace.

    Args:
        app: its name; it is made where it is not there.
        environment: of the workspace; None is its own.
        client: the service's client to use; None is the one of this process, by the user's credentials.

    Attributes:
        stopped: says, often asked, that images are not waited for any more.
    """

    def __init__(self, app: str, environment: str | None, client: modal.Client | None = None) -> None:
        self.app_name = app
        self._environment = environment
        self._client = client
        self._app: modal.App | None = None
        self._images: dict[tuple[str, str | None], modal.Image] = {}
        self._lock = threading.Lock()
        self._pulling = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._labels: dict[str, dict[str, str]] = {}
        self.stopped: Callable[[], bool] = lambda: False

    # -- the loop ------------------------------------------------------------------------------------------------

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `work` on the loop of all connections."""
        with self._lock:
            if self._loop is None:
                self._loop = _clients_loop() or _own_loop()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def later(self, seconds: float, what: Callable[[], Any]) -> None:
        """Call `what` on that loop, `seconds` from now."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._loop.call_later, seconds, what)

    def call(self, work: Coroutine[Any, Any, T], seconds: float, action: str, name: str = "") -> T:
        """The result of `work`; `action` completes "did not".

        Raises:
            SandboxError, EnvironmentUnavailable: as `translated`.
        """
        future = self.submit(work)
        try:
            return future.result(seconds)
        except TraceBenchError:
            raise
        except Late as error:
            future.cancel()
            raise EngineGone(f"Modal did not {action} within {seconds:g} s.") from error
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
        """The image `ref`, which the service has pulled.

        Args:
            access: name of the secret with the credentials of a private registry.

        Raises:
            Interrupted: `stopped`. SandboxError, EnvironmentUnavailable: as `translated`.
        """
        import modal

        app = self.app
        while not self._pulling.acquire(timeout=LOOK):  # once, by whoever is first; the others wait
            if self.stopped():
                raise _given_up(ref)
        try:
            image = self._images.get((ref, access))
            if image is None and self.stopped():
                raise _given_up(ref)
            if image is None:
                secret = None if access is None else modal.Secret.from_name(access)
                image = modal.Image.from_registry(ref, secret=secret)
                if not self.call(self._pulled(image.build.aio(app)), IMAGE_SECONDS, f"pull the image {ref}", ref):
                    raise _given_up(ref)
                self._images[ref, access] = image
        finally:
            self._pulling.release()
        return image

    async def _pulled(self, work: Coroutine[Any, Any, Any]) -> bool:
        """See `work` through; False if it was given up. (To raise `Interrupted` here would end the loop with it.)"""
        pulling = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({pulling}, timeout=LOOK))[0]:
                if self.stopped():
                    return False
            await pulling
        finally:
            pulling.cancel()
        return True

    def create(
        self, command: Sequence[str], *, name: str, labels: Mapping[str, str], turns: Turns, **settings: Any
    ) -> modal.Sandbox:
        """Make a sandbox, in one of `turns`; `settings` as of the service's client."""
        app = self.app

        async def made() -> modal.Sandbox:
            import modal

            await turns.next()
            return await modal.Sandbox.create.aio(
                *command, app=app, name=name, tags=encoded(labels), client=self._client, **settings
            )

        sandbox = self.call(made(), CREATE_SECONDS + turns.seconds, "create a sandbox", name)
        self._labels[sandbox.object_id] = dict(labels)
        return sandbox

    def listed(self, labels: Mapping[str, str]) -> list[Listed]:
        """All sandboxes of the app that have not ended and carry `labels`."""
        app_id = self.app.app_id
        return self.call(self._list(app_id, encoded(labels)), CALL_SECONDS, "list sandboxes")

    async def _list(self, app_id: str | None, tags: dict[str, str]) -> list[Listed]:
        import modal

        handles = [handle async for handle in modal.Sandbox.list.aio(app_id=app_id, tags=tags, client=self._client)]
        turns = asyncio.Semaphore(AT_ONCE)

        async def told(handle: modal.Sandbox) -> Listed | None:
            known = self._labels.get(handle.object_id)
            if known is None:  # the list does not tell; they never change
                async with turns:
                    try:
                        known = decoded(await handle.get_tags.aio())
                    except modal.exception.NotFoundError:
                        return None  # it has ended meanwhile
                self._labels[handle.object_id] = known
            return Listed(handle, known)

        found = await asyncio.gather(*(told(handle) for handle in handles))
        return [item for item in found if item is not None]

    def poll(self, handle: modal.Sandbox, name: str) -> int | None:
        """How the sandbox ended, or None if it has not."""
        code: int | None = self.call(handle.poll.aio(), CALL_SECONDS, "say how a sandbox is", name)
        return code

    def terminate(self, handle: modal.Sandbox, name: str) -> None:
        """End a sandbox with all it holds; nothing happens if it has ended."""
        with contextlib.suppress(SandboxGone):
            self.call(_end(handle), TERMINATE_SECONDS, "end a sandbox", name)
        self._labels.pop(handle.object_id, None)

    async def exec(self, handle: modal.Sandbox, command: Sequence[str]) -> Exec:
        """Start a process in a sandbox; to be awaited on our loop."""
        from modal.stream_type import StreamType

        process = await handle.exec.aio(*command, text=False, stderr=StreamType.DEVNULL)
        return Exec(process)


class Exec:
    """A process in a sandbox, by its stdin and stdout."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    async def write(self, data: bytes) -> None:
        """Write all of `data` to its stdin."""
        async with self._turn:
            self._process.stdin.write(data)
            await self._process.stdin.drain.aio()

    async def hang_up(self) -> None:
        """End its stdin."""
        async with self._turn:
            self._process.stdin.write_eof()
            await self._process.stdin.drain.aio()

    async def output(self) -> AsyncIterator[bytes]:
        """What it writes to stdout, until it ends."""
        async for data in self._process.stdout:
            yield data


def _given_up(ref: str) -> Interrupted:
    return Interrupted(f"interrupted while Modal pulled the image {ref}")


async def _end(handle: Any) -> None:
    """End it, and have no more to do with it. If that fails the handle stays as it is: what is detached cannot be ended
    any more, and would pass for gone."""
    import modal

    with contextlib.suppress(modal.exception.NotFoundError):
        await handle.terminate.aio(wait=True)
    # Each handle has a connection of its own, which is kept for half a minute otherwise.
    await handle.detach.aio()


def _clients_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that the service's client runs itself on: from any other one, each await of it is two changes of
    threads, which cost more than the call. None where it has none that we know of, and everything works without."""
    try:
        from modal._utils.async_utils import synchronizer

        loop = synchronizer._get_loop(start=True)
    except Exception:  # it is none of its public parts, and may do anything in another version
        return None
    return loop if isinstance(loop, asyncio.AbstractEventLoop) else None


def _own_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="modal", daemon=True).start()
    return loop


@contextlib.contextmanager
def errors(action: str, name: str = "") -> Iterator[None]:
    """Raise one of `trace_bench.sandbox.errors` for what the service's client raises."""
    try:
        yield
    except (TraceBenchError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise translated(error, action, name) from error


def translated(error: Exception, action: str, name: str = "") -> TraceBenchError:
    """`error` in this program's words; `action` completes "did not"."""
    from modal import exception

    text = " ".join(str(error).split()).partition(". If you ")[0].strip(" .") or type(error).__name__
    said: tuple[tuple[tuple[type[BaseException], ...], Callable[[], TraceBenchError]], ...] = (
        ((exception.AuthError,), lambda: EnvironmentUnavailable(f"Modal knows nobody here ({text}); {TOKEN}.")),
        (
            (exception.PermissionDeniedError,),
            lambda: EnvironmentUnavailable(f"Modal lets you not {action} ({text}); {TOKEN} of who may."),
        ),
        ((exception.ResourceExhaustedError,), lambda: RateLimited(f"Modal did not {action} now: {text}.")),
        (
            (exception.AlreadyExistsError,),
            lambda: NameConflict(f"a sandbox called {name} is there already; remove it, or adopt it by its labels."),
        ),
        (
            (exception.ImageBuildError,),
            lambda: ImageMissing(
                f"Modal did not {action}: {text}. Push it with trace-bench images push, and name the secret of a "
                "private registry in modal.registry_access."
            ),
        ),
        (
            (
                exception.NotFoundError,
                exception.SandboxTerminatedError,
                exception.SandboxTimeoutError,
                exception.ClientClosed,
                exception.ConflictError,
            ),
            lambda: SandboxGone(f"sandbox {name} is no longer there ({text})."),
        ),
        (
            (exception.VersionError,),
            lambda: EnvironmentUnavailable(f"Modal wants another version of its client: {text}."),
        ),
        (
            (
                exception.ServiceError,
                exception.InternalError,
                exception.ConnectionError,
                exception.TimeoutError,
                exception.InternalFailure,
                TimeoutError,
                OSError,
            ),
            lambda: EngineGone(f"Modal did not {action}: {text}."),
        ),
    )
    for kinds, make in said:
        if isinstance(error, kinds):
            return make()
    if "token" in text.lower() and "modal" in text.lower():
        return EnvironmentUnavailable(f"Modal knows nobody here ({text}); {TOKEN}.")
    return SandboxError(f"Modal did not {action}: {type(error).__name__}: {text}.")
