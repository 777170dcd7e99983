"""The programs that run in a Modal sandbox, as command lines."""

from __future__ import annotations

import json
from typing import Any

from trace_bench.sandbox import archive, processes
from trace_bench.sandbox.modal import bridge, confinement, holder, protocol
from trace_bench.sandbox.modal.protocol import OUT, SOCKET
from trace_bench.sandbox.packed import python_arguments
from trace_bench.worker import frames


def holder_command(spec: dict[str, Any]) -> list[str]:
    """The entry point; `spec` as of `holder.Holder`."""
    return ["python3", *python_arguments(processes, confinement, frames, protocol, holder), json.dumps(spec)]


def join_command(socket: str = SOCKET, **first: Any) -> list[str]:
    """An exec that joins the holder with the message `first`."""
    return [*_bridge(), socket, json.dumps(first)]


def collect_command(socket: str = SOCKET, out: str = OUT) -> list[str]:
    """An exec that writes /out to its stdout."""
    return [*_bridge(), socket, "collect", out]


def _bridge() -> list[str]:
    return ["python3", *python_arguments(archive, frames, protocol, bridge)]
