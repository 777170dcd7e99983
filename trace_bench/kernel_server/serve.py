"""The address, the token, and the life of a server."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import Generator, Mapping
from pathlib import Path

import uvicorn

from trace_bench.cancellation import Cancellation
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.kernel_server.app import make_app
from trace_bench.kernel_server.jobs import Jobs
from trace_bench.kernel_server.problems import Problems

TOKEN = "TRACE_BENCH_SERVER_TOKEN"
"""The variable that holds the token."""
SHORTEST_TOKEN = 16
MOST_CONNECTIONS = 256
GRACE = 5
"""Seconds that clients have to take their last answers."""
_POLL = 0.2


def token_of(environ: Mapping[str, str], file: Path | None) -> str | None:
    """The token of `file`, else of the variable; None if there is neither.

    Raises:
        ConfigError: the file cannot be read, or the token can be guessed or sent by no client.
    """
    where = f"--token-file {file}" if file is not None else TOKEN
    try:
        text = environ.get(TOKEN, "") if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{where}: {why}; name a file that holds the token") from None
    token = text.strip()
    if not token and file is None:
        return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"{where}: a token has {SHORTEST_TOKEN} or more letters, digits and signs; make one with 'openssl rand "
            "-hex 32'"
        )
    return token


def listen(host: str, port: int, token: str | None) -> socket.socket:
    """Take the address. Without a token, only one of this machine's own.

    Raises:
        ConfigError: the address is not this machine's own and there is no token, or it is no address.
        EnvironmentUnavailable: it cannot be taken.
    """
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port must be from 0 (any that is free) to 65535, not {port}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ConfigError(f"--host {host}: no such address; name one of this machine") from None
    family, _, _, _, address = found[0]
    if token is None and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise ConfigError(
            f"--host {host} lets in other machines, which needs a token; set {TOKEN}, or name a file with --token-file"
        )
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        why = os.strerror(error.errno) if error.errno else str(error)
        raise EnvironmentUnavailable(f"{host}:{port} cannot be taken: {why}; name another --port") from None
    return listener


def url_of(listener: socket.socket) -> str:
    """The address as clients name it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    jobs: Jobs,
    problems: Problems,
    token: str | None,
    listener: socket.socket,
    stop: Cancellation,
) -> None:
    """Answer requests until `stop` ends that. Then no evaluation runs any more."""
    asyncio.run(_serve(jobs, problems, token, listener, stop))


async def _serve(
    jobs: Jobs,
    problems: Problems,
    token: str | None,
    listener: socket.socket,
    stop: Cancellation,
) -> None:
    async with jobs:
        server = _Server(
            uvicorn.Config(
                make_app(jobs, problems, token),
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                timeout_graceful_shutdown=GRACE,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not serving.done():
            if stop.cancelled and not server.should_exit:
                jobs.stop()
                server.should_exit = True
            await asyncio.wait([serving], timeout=_POLL)
        serving.result()


class _Server(uvicorn.Server):
    """Leaves signals to the command, which has evaluations to end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
