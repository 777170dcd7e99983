"""The endpoints. Names and fields are those of the KernelBench evaluation server that clients know."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable
from datetime import datetime
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from trace_bench.kernel_server.jobs import Job, Jobs, QueueFull, QueueStopped
from trace_bench.kernel_server.problems import Problems
from trace_bench.kernel_server.submission import LARGEST_BODY, BadSubmission, Submission, read_submission

BODY_SECONDS = 30.0
"""Seconds that a client has to send a request's body."""
MOST_READ = 16 * LARGEST_BODY
"""Bytes of a body that are read. Many clients see a refusal only once they have sent all of it."""
RETRY_AFTER = 10
"""Seconds after which a client that was refused for want of room may try again."""
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
"""Host names by which a server without a token may be called. A web page cannot use them by DNS rebinding, since its
requests carry its own name."""
_PORT = re.compile(r":\d*$")


def make_app(jobs: Jobs, problems: Problems, token: str | None) -> Starlette:
    """The service over `jobs`.

    Args:
        token: each request must bear it. None takes requests that call the server by one of `LOCAL_NAMES`.
    """
    endpoints = Endpoints(jobs, problems)
    return Starlette(
        routes=[
            Route("/", endpoints.root, methods=["GET"]),
            Route("/status", endpoints.status, methods=["GET"]),
            Route("/evaluate", endpoints.evaluate, methods=["POST"]),
            Route("/evaluate_sync", endpoints.evaluate_sync, methods=["POST"]),
            Route("/job/{job_id}", endpoints.job, methods=["GET"]),
            Route("/jobs", endpoints.jobs, methods=["GET"]),
        ],
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={HTTPException: _refusal, Exception: _defect},
    )


class Guard:
    """Refuses requests without the token, before their bodies are read."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app
        if scope["type"] == "http" and (refused := self._refused(Headers(scope=scope))) is not None:
            answer = refused
        await answer(scope, receive, send)

    def _refused(self, headers: Headers) -> Response | None:
        if self._token is None:
            if _PORT.sub("", headers.get("host", "").lower()) in LOCAL_NAMES:
                return None
            return _sentence(403, f"call this server by one of the names {', '.join(LOCAL_NAMES)}")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self._token.encode()):
            return None
        return _sentence(
            401,
            "the token is missing or wrong; send the header 'Authorization: Bearer TOKEN'",
            {"WWW-Authenticate": "Bearer"},
        )


class Endpoints:
    """What each address answers."""

    def __init__(self, jobs: Jobs, problems: Problems) -> None:
        self._jobs = jobs
        self._problems = problems

    async def root(self, request: Request) -> Response:
        """``GET /``"""
        return JSONResponse({"message": "Trace-Bench kernel evaluation server"})

    async def status(self, request: Request) -> Response:
        """``GET /status``"""
        return JSONResponse(
            {"server_status": "running", "device_status": self._jobs.devices(), "queue_info": self._jobs.counts()}
        )

    async def evaluate(self, request: Request) -> Response:
        """``POST /evaluate``: queue a job, and answer at once."""
        job = self._submit(await self._read(request))
        return JSONResponse({"job_id": job.id, "status": job.status})

    async def evaluate_sync(self, request: Request) -> Response:
        """``POST /evaluate_sync``: answer with the result. A job whose client hangs up, or waits for too long, ends."""
        submission = await self._read(request)
        job = self._submit(submission, from_now=True)
        try:
            await _first(job.over.wait(), _hang_up(request), timeout=submission.timeout)
            finished = job.over.is_set() and not job.timed_out
        finally:
            self._jobs.cancel(job, "its client has hung up, or has waited for its timeout")
        if not finished:
            raise HTTPException(408, f"no result within the timeout of {job.timeout} s; the job was ended")
        fields = ("job_id", "status", "result", "error", "device")
        return JSONResponse({**{key: value for key, value in _described(job).items() if key in fields},
                             "execution_time": job.seconds})  # fmt: skip

    async def job(self, request: Request) -> Response:
        """``GET /job/{id}``"""
        job = self._jobs.find(request.path_params["job_id"])
        if job is None:
            raise HTTPException(404, "no such job; finished jobs are kept for an hour at most")
        return JSONResponse(_described(job))

    async def jobs(self, request: Request) -> Response:
        """``GET /jobs``"""
        active, last = ([_listed(job) for job in jobs] for jobs in (self._jobs.active(), self._jobs.last()))
        return JSONResponse({"active_jobs": active, "completed_jobs": last})

    async def _read(self, request: Request) -> Submission:
        """
        Raises:
            HTTPException: the request cannot be evaluated.
        """
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "the body must have the content type application/json")
        try:
            submission = read_submission(await _body(request))
            self._problems.check(submission)
        except BadSubmission as error:
            raise HTTPException(error.status, str(error)) from None
        return submission

    def _submit(self, submission: Submission, *, from_now: bool = False) -> Job:
        """
        Raises:
            HTTPException: the queue takes no job now.
        """
        try:
            return self._jobs.submit(submission, from_now=from_now)
        except QueueFull as error:
            raise HTTPException(503, str(error), {"Retry-After": str(RETRY_AFTER)}) from None
        except QueueStopped as error:
            raise HTTPException(503, str(error)) from None


async def _body(request: Request) -> bytes:
    """
    Raises:
        HTTPException: the body is too large, or does not come.
    """
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                size += len(piece)
                if size <= LARGEST_BODY:
                    body += piece
                elif size > MOST_READ:
                    break
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {BODY_SECONDS:g} s", {"Connection": "close"}) from None
    except ClientDisconnect:
        raise HTTPException(400, "the client hung up") from None
    if size > LARGEST_BODY:
        raise HTTPException(413, f"the body has more than {LARGEST_BODY} bytes", {"Connection": "close"})
    return bytes(body)


async def _hang_up(request: Request) -> None:
    """Returns once the client has hung up. The body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _first(*awaited: Awaitable[Any], timeout: float) -> None:
    """Wait until one of `awaited` is there; give up on the others."""
    tasks = [asyncio.ensure_future(one) for one in awaited]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _described(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "status": job.status,
        "result": job.result,
        "error": job.error,
        "device": job.device,
        "queued_at": _time(job.queued_at),
        "started_at": _time(job.started_at),
        "completed_at": _time(job.completed_at),
    }


def _listed(job: Job) -> dict[str, Any]:
    """A job in a list: without its result."""
    return {key: value for key, value in _described(job).items() if key != "result"} | job.name


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _sentence(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers)


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _sentence(error.status_code, error.detail, dict(error.headers or {}))


async def _defect(request: Request, error: Exception) -> Response:
    return _sentence(500, "the server failed; its log says why")
