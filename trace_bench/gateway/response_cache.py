"""Answers that are kept for later runs that send the same requests (``llm_cache: true``).

An answer is found by the model, the job's seed, the request, and which sample of it the job asks for: the slot, or how
often the job has sent the request before. So two samples of one request stay two answers, and a repeated search takes
the same course. A job does not get an entry that it wrote itself: that answer is in its own cassette, and a repeated
request asks for another sample.

Only answers of paid providers with status 200 are kept. An entry is one file, written in one step and readable by its
owner alone. A damaged entry counts as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import Field, JsonValue

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Count, Json, Model, ModelRef
from trace_bench.artifacts.writers import write_bytes
from trace_bench.gateway.base import Provider, ProviderReply

VERSION = 1


@dataclass(frozen=True)
class Sample:
    """The key of an answer.

    Attributes:
        model: all of the model that can change an answer: provider, address, name, sampling.
        seed: of the job.
        place: ``slot …``, or ``#`` and how often the job has sent the request before.
        job: a text that no other job has.
    """

    model: Mapping[str, Any]
    seed: int
    request_hash: str
    place: str
    job: str

    @property
    def key(self) -> str:
        """64 hex digits."""
        whole = [VERSION, dict(self.model), self.seed, self.request_hash, self.place]
        return hashlib.sha256(jsonio.canonical(whole)).hexdigest()

    def next(self) -> Sample | None:
        """The sample after this one; None at a slot, which has only one."""
        return replace(self, place=f"#{int(self.place[1:]) + 1}") if self.place.startswith("#") else None


@runtime_checkable
class Addressed(Protocol):
    """A provider whose answers depend on more than `ModelRef`, such as an address."""

    @property
    def identity(self) -> Mapping[str, Any]: ...


def identity_of(provider: Provider, model: ModelRef) -> dict[str, Any]:
    """Everything of a model that can change an answer."""
    return {
        "provider": provider.name,
        "model": model.model_dump(mode="json", exclude={"id"}),
        "more": dict(provider.identity) if isinstance(provider, Addressed) else {},
    }


class CachedAnswer(Model):
    """A file of the cache. `job` is the job that paid for it, hashed."""

    key: str
    job: str
    response: JsonValue
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cached_tokens: Count = 0
    reasoning_tokens: Count = 0
    estimated: bool = False
    sent: Json = Field(default_factory=dict)


_KEPT = frozenset(CachedAnswer.model_fields) - {"key", "job", "response"}
"""Fields of a reply that the cache keeps under the same name."""


class ResponseCache:
    """The answers below `folder`; many processes may use it at once.

    Args:
        fresh: give no answers and keep new ones, for a run that has to pay for its calls again.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self._folder = folder
        self._fresh = fresh

    def find(self, sample: Sample) -> tuple[ProviderReply | None, Sample]:
        """The answer that another job has paid for, and its sample; without an answer, the sample to ask for. Samples
        that this job has asked for itself, in an earlier attempt, are skipped."""
        wanted: Sample | None = sample
        while wanted is not None:
            sample, entry = wanted, self._read(wanted)
            if entry is None or (entry.job != _hashed(sample.job) and self._fresh):
                return None, sample
            if entry.job != _hashed(sample.job):
                body = entry.response if isinstance(entry.response, dict) else {}
                same = {name: getattr(entry, name) for name in _KEPT}
                return ProviderReply(200, body, cached=True, **same), sample
            wanted = sample.next()
        return None, sample

    def keep(self, sample: Sample, reply: ProviderReply) -> None:
        """Keep the answer to `sample`. On a full disk it is not kept, and the call does not fail."""
        entry = CachedAnswer(
            key=sample.key,
            job=_hashed(sample.job),
            **{
                "response": dict(reply.body),
                **{name: getattr(reply, name) for name in _KEPT},
                "sent": dict(reply.sent),
            },
        )
        with contextlib.suppress(OSError):
            path = self._path(sample.key)
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_bytes(path, entry.model_dump_json().encode("utf-8"), mode=0o600)

    def _read(self, sample: Sample) -> CachedAnswer | None:
        key = sample.key
        try:
            entry = jsonio.read_model(CachedAnswer, self._path(key).read_bytes())
        except (OSError, jsonio.JsonError):
            return None
        return entry if entry.key == key else None

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def entries(folder: Path) -> list[Path]:
    """The files of all answers below `folder`."""
    return sorted(folder.glob("[0-9a-f][0-9a-f]/*.json"))


def clear(folder: Path) -> int:
    """Remove all answers below `folder`, and nothing else; returns how many there were."""
    removed = 0
    for path in entries(folder):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            removed += 1
    return removed


def _hashed(job: str) -> str:
    return hashlib.sha256(job.encode("utf-8", "surrogatepass")).hexdigest()
