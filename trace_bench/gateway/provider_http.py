"""Limits on what the libraries below litellm do on the network. Imported in the provider process alone.

litellm uses several HTTP clients, and has no setting that reaches all of them. These rules hold for all:

* **No redirect is followed.** httpx removes ``Authorization`` from a request that is redirected to another host, but
  not the headers and queries in which other providers than OpenAI expect their keys. A server could thus redirect a
  key to another host.
* **No answer is longer than `MAX_ANSWER` bytes**, counted as they are unpacked. An answer that never ends, or that was
  compressed from gigabytes, fails its own try, and does not use up the memory of the process that all jobs share.
* **OpenAI's client tries once.** For some endpoints litellm does not tell it to, and its further tries would be in no
  record.
* **Neither the text of a model nor an odd usage breaks an answer.** litellm and the clients discard an answer whose
  usage is not made of whole numbers, or with a byte that is not UTF-8, and some cut a stream at U+2028. So JSON goes to
  them as ASCII, with a usage that all of them accept (`trace_bench.gateway.usage.tidied`).
* **A reported usage is noted** (`noting`) before anything reads the answer, so that it is counted whatever becomes of
  the answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

import httpx
from openai._models import FinalRequestOptions

from trace_bench.gateway.usage import Body, tidied

MAX_ANSWER = 32 << 20
"""Bytes. The longest real answers, with probabilities of all their tokens, have a few million."""


_NOTED: ContextVar[list[Body]] = ContextVar("noted")


class AnswerTooLong(Exception):
    """A provider sends more than any real answer has."""


def cut_off(error: BaseException | None) -> AnswerTooLong | None:
    """The `AnswerTooLong` that caused `error`, if one did."""
    while error is not None and not isinstance(error, AnswerTooLong):
        error = error.__cause__ or error.__context__
    return error


def noting() -> list[Body]:
    """A list to which each usage is appended that a provider reports to this task from now on."""
    noted: list[Body] = []
    _NOTED.set(noted)
    return noted


def restrict() -> None:
    """Apply the rules above to every client of this process. Call it once, before the first request."""
    whole, pieces = httpx.Response.iter_bytes, httpx.Response.aiter_bytes

    def iter_bytes(self: httpx.Response, chunk_size: int | None = None) -> Iterator[bytes]:
        size, reader = 0, _reader(self)
        for piece in whole(self, chunk_size):
            size = _longer(size, piece)
            yield reader.feed(piece)
        yield reader.end()

    async def aiter_bytes(self: httpx.Response, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        size, reader = 0, _reader(self)
        async for piece in pieces(self, chunk_size):
            size = _longer(size, piece)
            yield reader.feed(piece)
        yield reader.end()

    patched: Any = httpx.Response
    patched.iter_bytes, patched.aiter_bytes = iter_bytes, aiter_bytes
    patched.has_redirect_location = property(lambda self: False)
    options: Any = FinalRequestOptions
    options.get_max_retries = lambda self, max_retries: 0


class _AsItIs:
    """Passes an answer on."""

    def feed(self, piece: bytes) -> bytes:
        return piece

    def end(self) -> bytes:
        return b""


class _WholeJson(_AsItIs):
    """Holds an answer until it is complete, and tidies it."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, piece: bytes) -> bytes:
        self._pieces.append(piece)
        return b""

    def end(self) -> bytes:
        return _tidy(b"".join(self._pieces))


class _Events(_AsItIs):
    """Tidies each ``data:`` line of an event stream, as soon as it is complete."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, piece: bytes) -> bytes:
        self._rest.append(piece)
        if b"\n" not in piece:
            return b""
        *lines, rest = b"".join(self._rest).split(b"\n")
        self._rest = [rest]
        return b"".join(self._line(line) + b"\n" for line in lines)

    def end(self) -> bytes:
        return self._line(b"".join(self._rest))

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(b"data:") or (b"sage" not in line and line.isascii()):
            return line
        return b"data: " + _tidy(line[5:])


def _reader(response: httpx.Response) -> _AsItIs:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream":
        return _Events()
    return _WholeJson() if kind in ("application/json", "text/plain", "") else _AsItIs()


def _tidy(data: bytes) -> bytes:
    try:
        value = json.loads(data.decode("utf-8", "replace"), parse_int=_integer)
        if not isinstance(value, dict):
            return data
        value, found = tidied(value)
        _NOTED.get([]).extend(found)
        return json.dumps(value).encode("ascii")
    except (ValueError, RecursionError):
        return data  # not JSON: the client says so


def _integer(text: str) -> int | float:
    return int(text) if len(text) < 300 else float(text)  # Python refuses to convert thousands of digits


def _longer(size: int, piece: bytes) -> int:
    size += len(piece)
    if size > MAX_ANSWER:
        raise AnswerTooLong(f"an answer of more than {MAX_ANSWER} bytes")
    return size
