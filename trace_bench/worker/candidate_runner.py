"""The candidate's own process: load source, answer calls with data, nothing else.

Everything here runs under the candidate's uid with its filter and limits in force. Nothing that it says is believed.
"""

from __future__ import annotations

import socket
import sys
import types
from typing import Any

from trace_bench.worker import channel
from trace_bench.worker.codec import CodecError
from trace_bench.worker.seeding import seed_generators

_FILE = "<candidate>"
_MESSAGE_LIMIT = 2000


def run(sock: socket.socket, request_limit: int = 1 << 30) -> None:
    """Serve LOAD and CALL frames until the peer closes."""
    function: Any = None
    while True:
        try:
            op, value = channel.receive(sock, request_limit)
        except channel.ChannelClosed:
            return
        try:
            if op == channel.LOAD:
                function = _load(value)
                reply_op, reply = channel.RESULT, None
            else:
                reply_op, reply = channel.RESULT, function(*value)
        except BaseException as error:
            reply_op, reply = channel.ERROR, _describe(error, "compile" if op == channel.LOAD else "call")
        try:
            channel.send(sock, reply_op, reply)
        except CodecError as error:
            channel.send(sock, channel.ERROR, {"phase": "output", "message": str(error), "line": None})
        except (RecursionError, MemoryError) as error:
            channel.send(sock, channel.ERROR, {"phase": "output", "message": type(error).__name__, "line": None})
        except channel.ChannelClosed:
            return


def _load(request: dict[str, Any]) -> Any:
    seed_generators(request["seed"])
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    exec(compile(request["source"], _FILE, "exec"), module.__dict__)
    entry = request["entry"]
    function = module.__dict__.get(entry)
    if not callable(function):
        raise NameError(f"the program does not define a function named {entry}")
    return function


def _describe(error: BaseException, phase: str) -> dict[str, Any]:
    line = None
    if isinstance(error, SyntaxError):
        line = error.lineno
        text = error.msg
    else:
        text = str(error)
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == _FILE:
                line = trace.tb_lineno
            trace = trace.tb_next
    if isinstance(error, MemoryError):
        phase = "memory"
    name = type(error).__name__
    message = f"{name}: {text}" if text else name
    return {"phase": phase, "message": message[:_MESSAGE_LIMIT], "line": line}
