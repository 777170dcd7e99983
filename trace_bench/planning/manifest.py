"""Write ``manifest.json``, one line a job, without holding all of it: it may have a hundred thousand entries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_bench.artifacts.jsonio import dumps
from trace_bench.artifacts.records import ManifestEntry
from trace_bench.artifacts.writers import write_pieces
from trace_bench.config.frozen import thaw
from trace_bench.display.text import escape_json
from trace_bench.matrix import Job
from trace_bench.planning.prepare import integrity_of, model_ref
from trace_bench.sandbox.base import Integrity

Outcome = tuple[str, str | None]
"""Status and reason of a job that has come to its end."""
_BATCH = 1000


def write_manifest(path: Path, head: Mapping[str, Any], entries: Iterable[str], *, durable: bool = False) -> None:
    """Replace `path` by `head` with the jobs' lines (`ManifestLines.line`) under ``jobs``."""
    write_pieces(path, _pieces(head, entries), durable=durable)


def _pieces(head: Mapping[str, Any], entries: Iterable[str]) -> Iterator[bytes]:
    yield escape_json(dumps(dict(head)))[:-1].encode() + b',"jobs":['
    batch: list[str] = []
    before = "\n"
    for entry in entries:
        batch.append(entry)
        if len(batch) == _BATCH:
            yield escape_json(before + ",\n".join(batch)).encode()
            batch.clear()
            before = ",\n"
    if batch:
        yield escape_json(before + ",\n".join(batch)).encode()
    yield b"\n]}\n"


class ManifestLines:
    """Makes entries; what the jobs of one variant and model share is made into JSON once.

    Args:
        integrity: of the backend.
    """

    def __init__(self, integrity: Integrity) -> None:
        self._integrity = integrity
        self._shared: tuple[Job, str] | None = None

    def line(
        self, job: Job, fingerprint: str, direction: str, decision: str, decision_reason: str, outcome: Outcome | None
    ) -> str:
        """One `ManifestEntry` as JSON."""
        status, reason = outcome or (None, None)
        own = {
            "job_id": job.job_id,
            "seed": job.seed,
            "fingerprint": fingerprint,
            "decision": decision,
            "decision_reason": decision_reason,
            "status": status,
            "reason": reason,
        }
        return f"{dumps(own)[:-1]},{self._shared_with(job, direction)}"

    def _shared_with(self, job: Job, direction: str) -> str:
        if self._shared is not None:
            other, text = self._shared
            same = other.params is job.params and other.eval_kwargs is job.eval_kwargs and other.model is job.model
            if same and other.task_id == job.task_id:
                return text
        text = dumps(
            {
                "task_id": job.task_id,
                "suite": job.suite,
                "trainer_id": job.trainer_id,
                "variant": job.variant.label,
                "integrity": integrity_of(job, self._integrity),
                "score_direction": direction,
                "raw_params": thaw(job.raw_params),
                "resolved_optimizer": job.optimizer,
                "resolved_optimizer_kwargs": thaw(job.optimizer_kwargs),
                "resolved_guide": job.guide,
                "resolved_guide_kwargs": thaw(job.guide_kwargs),
                "resolved_logger": job.logger,
                "resolved_logger_kwargs": {},
                "resolved_trainer_kwargs": thaw(job.params),
                "eval_kwargs": thaw(job.eval_kwargs),
                "model": model_ref(job.model).id,
            }
        )[1:]
        self._shared = (job, text)
        return text


def read_entry(line: str) -> ManifestEntry:
    """The entry in a line of `ManifestLines`."""
    return ManifestEntry.model_validate_json(line)
