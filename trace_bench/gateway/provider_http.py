"""Limits on what the libraries below litellm do on the network. Imported in the provider process alone.

litellm uses several HTTP clients, and has no setting that reaches all of them. These rules hold for all:

* **No redirect is followed.** httpx removes ``Authorization`` from a request that is redirected to another host, but
  not the headers and queries in which other providers than OpenAI expect their keys. A server could thus redirect a
  key to another host.
* **No answer is longer than `MAX_ANSWER` bytes**, counted as they are unpacked. An answer that never ends, or that was
  compressed from gigabytes, fails its own try, and does not use up the memory of the process that all jobs share.
* **OpenAI's client tries once.** For some endpoints litellm does not tell it to, and its further tries would be in no
  record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
from openai._models import FinalRequestOptions

MAX_ANSWER = 32 << 20
"""Bytes. The longest real answers, with probabilities of all their tokens, have a few million."""


class AnswerTooLong(Exception):
    """A provider sends more than any real answer has."""


def cut_off(error: BaseException | None) -> AnswerTooLong | None:
    """The `AnswerTooLong` that caused `error`, if one did."""
    while error is not None and not isinstance(error, AnswerTooLong):
        error = error.__cause__ or error.__context__
    return error


def restrict() -> None:
    """Apply the rules above to every client of this process. Call it once, before the first request."""
    whole, pieces = httpx.Response.iter_bytes, httpx.Response.aiter_bytes

    def iter_bytes(self: httpx.Response, chunk_size: int | None = None) -> Iterator[bytes]:
        size = 0
        for piece in whole(self, chunk_size):
            size = _longer(size, piece)
            yield piece

    async def aiter_bytes(self: httpx.Response, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        size = 0
        async for piece in pieces(self, chunk_size):
            size = _longer(size, piece)
            yield piece

    patched: Any = httpx.Response
    patched.iter_bytes, patched.aiter_bytes = iter_bytes, aiter_bytes
    patched.has_redirect_location = property(lambda self: False)
    options: Any = FinalRequestOptions
    options.get_max_retries = lambda self, max_retries: 0


def _longer(size: int, piece: bytes) -> int:
    size += len(piece)
    if size > MAX_ANSWER:
        raise AnswerTooLong(f"an answer of more than {MAX_ANSWER} bytes")
    return size
