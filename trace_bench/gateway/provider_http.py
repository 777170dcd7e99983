"""What the libraries below litellm may do on the network. Imported in the provider process alone.

litellm asks providers through several clients of its own, and offers no setting that reaches all of them; they have
these three in common:

* **No redirect is followed.** httpx takes ``Authorization`` out of a request that is sent on to another host, and keeps
  the headers and queries in which others than OpenAI take their keys. So a server that is not what it was would be
  handed the key for somewhere else.
* **No answer is longer than `MAX_ANSWER` bytes**, counted as they are unpacked: one that never ends, or that was
  compressed from gigabytes, costs its own try, and not the memory of the process that all jobs of the run share.
* **OpenAI's client tries once.** litellm does not hand on to it, of every endpoint, that it is not to try again; such
  tries are in no record.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
from openai._models import FinalRequestOptions

MAX_ANSWER = 32 << 20
"""Bytes. The longest honest answers, with probabilities of all their tokens, have a few million."""


class AnswerTooLong(Exception):
    """A provider sends more than any honest answer has."""


def cut_off(error: BaseException | None) -> AnswerTooLong | None:
    """What is behind `error`, if an answer was too long."""
    while error is not None and not isinstance(error, AnswerTooLong):
        error = error.__cause__ or error.__context__
    return error


def restrict() -> None:
    """Hold every client of this process to what is said above. To be called once, before the first request."""
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
