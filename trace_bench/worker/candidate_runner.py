"""The candidate's own process: load source, answer calls with data, nothing else.

Everything here runs under the candidate's uid with limits and a filter in force, and what runs of the source itself
under a second filter, without files and without processes. The host of the process believes nothing that it says.
"""

from __future__ import annotations

import importlib
import linecache
import socket
import sys
import types
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from trace_bench.worker import channel, imports
from trace_bench.worker.codec import CodecError
from trace_bench.worker.seeding import seed_generators

_FILE = "<candidate>"
_MESSAGE_LIMIT = 2000


_REQUEST_LIMIT = 1 << 30


def run(
    sock: socket.socket,
    close: Callable[[], None],
    mapped: set[str],
    *,
    files: bool = False,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Serve LOAD and CALL frames until the peer closes.

    Args:
        close: takes away what only loading needs. It is called before the first line of the source runs.
        mapped: files that this process maps, as far as they have been read whole.
        files: the program may open files, and so import modules while it runs.
        given: variables that the program finds.
    """
    function: Any = None
    while True:
        try:
            op, nonce, value = channel.receive(sock, _REQUEST_LIMIT)
        except channel.ChannelClosed:
            return
        try:
            if op == channel.LOAD:
                codes = _compile(value.get("support", ""), value["source"], mapped, files=files)
                close()
                function = _load(codes, value, given)
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


def _compile(support: str, source: str, mapped: set[str], *, files: bool) -> list[types.CodeType]:
    """The code of both, with all that they import loaded."""
    codes = [compile(text, name, "exec") for text, name in ((support, "<support>"), (source, _FILE))]
    linecache.cache[_FILE] = (len(source), None, source.splitlines(keepends=True), _FILE)  # for inspect.getsource
    before = len(sys.modules)
    failures = {name: error for code in codes for name, error in imports.import_named(code).items()}
    if "numpy" in sys.modules:
        importlib.import_module("numpy.random")  # which seeding needs
    if len(sys.modules) > before:
        imports.read_mapped(mapped)
    if not files:
        imports.close(failures)
    return codes


def _load(codes: list[types.CodeType], request: dict[str, Any], given: Mapping[str, Any]) -> Any:
    seed_generators(request["seed"])
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    module.__dict__.update(given)
    for code in codes:
        exec(code, module.__dict__)
    entry = request["entry"]
    function = module.__dict__.get(entry)
    if not callable(function):
        raise NameError(f"the program does not define a function named {entry}")
    return function


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
