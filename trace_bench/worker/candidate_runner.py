"""The candidate's own process: load source, answer calls with data, nothing else.

Everything here runs under the candidate's uid with its filter and limits in force. Nothing that it says is believed,
but for one thing: the signs of the source, which are read and sent before a line of that source has run.
"""

from __future__ import annotations

import socket
import sys
import types
from typing import Any

from trace_bench.worker import channel
from trace_bench.worker.codec import CodecError
from trace_bench.worker.seeding import seed_generators
from trace_bench.worker.signs import signs_of

_FILE = "<candidate>"
_MESSAGE_LIMIT = 2000


def run(sock: socket.socket, request_limit: int = 1 << 30) -> None:
    """Serve LOAD and CALL frames until the peer closes."""
    function: Any = None
    while True:
        try:
            op, nonce, value = channel.receive(sock, request_limit)
        except channel.ChannelClosed:
            return
        try:
            if op == channel.LOAD:
                if value["signs"]:
                    channel.send(sock, channel.SIGNS, nonce, _signs(value["source"]))
                function = _load(value)
                reply_op, reply = channel.RESULT, None
            else:
                reply_op, reply = channel.RESULT, function(*value)
        except BaseException as error:
            reply_op, reply = channel.ERROR, _describe(error, "compile" if op == channel.LOAD else "call")
        try:
            channel.send(sock, reply_op, nonce, reply)
        except CodecError as error:
            channel.send(sock, channel.ERROR, nonce, _output(str(error)))
        except (RecursionError, MemoryError) as error:
            channel.send(sock, channel.ERROR, nonce, _output(type(error).__name__))
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


def _signs(source: str) -> list[dict[str, Any]]:
    try:
        return signs_of(source)
    except Exception as error:
        text = f"the source could not be read: {type(error).__name__}"
        return [{"kind": "dynamic_code", "line": None, "text": text}]


def _output(message: str) -> dict[str, Any]:
    return {"phase": "output", "message": message, "line": None}


def _describe(error: BaseException, phase: str) -> dict[str, Any]:
    line = None
    if isinstance(error, SyntaxError):
        line = error.lineno
        text = error.msg
    else:
        try:
            text = str(error)
        except BaseException as second:  # the candidate's own class
            text = f"(its text cannot be made: {type(second).__name__})"
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
