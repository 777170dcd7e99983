"""What is logged to an MLflow server about a run and its jobs, made of their files alone, without the client.

Times are milliseconds since 1970, as MLflow has them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from trace_bench import __version__
from trace_bench.artifacts import jsonio
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import GitInfo, JobMeta, Lock, Manifest, ManifestEntry, Results
from trace_bench.artifacts.writers import read_journal
from trace_bench.errors import HarnessError
from trace_bench.records.digest import index_digest
from trace_bench.records.reading import read_index
from trace_bench.records.rows import is_final, was_cut
from trace_bench.secrets import known

KEY, PARAM, TAG = 250, 6000, 8000
"""Characters of a name, a parameter and a tag that MLflow takes."""
_FORBIDDEN = re.compile(r"[^\w\-./ ]", re.ASCII)
STEPS = ("score", "best_score", "evaluations", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds")
"""Of each line of a history, as metrics ``step/NAME``."""
RESULTS = (
    "score_initial", "score_final", "score_best", "score_test", "hypervolume", "time_seconds", "train_seconds",
    "evaluations", "score_evaluations", "llm_calls", "prompt_tokens", "completion_tokens", "total_tokens", "cost_usd",
)  # fmt: skip
Status = Literal["RUNNING", "FINISHED", "FAILED", "KILLED"]


@dataclass(frozen=True)
class Point:
    """A value of a metric."""

    name: str
    value: float
    time: int
    step: int


@dataclass(frozen=True)
class JobContent:
    """A job as far as it is.

    Attributes:
        lines: of the history, parsed; `raw` are their bytes.
        history: number of lines and the SHA-256 of their bytes.
        results: SHA-256 of ``results.json``; of a job that never ran, of why; empty until it has ended.
        metrics: of a job that has ended.
        files: to be copied once it has ended.
    """

    name: str
    tags: Mapping[str, str]
    params: Mapping[str, Any]
    lines: Sequence[Mapping[str, Any]]
    raw: bytes
    places: Sequence[int]
    history: str
    results: str
    metrics: Sequence[Point]
    status: Status
    started_at: int
    ended_at: int | None
    files: Sequence[Path]

    @property
    def ended(self) -> bool:
        return bool(self.results)

    def continues(self, history: str, results: str) -> bool:
        """Whether a copy of `history` and `results` is this job, or its beginning."""
        if results and results != self.results:
            return False
        number = _lines_of(history)
        return number <= len(self.lines) and history in ("", _digest_of(self.raw, self.places, number))

    def steps_after(self, history: str) -> Iterator[Point]:
        """What lines say that `history` is without."""
        for step in range(_lines_of(history), len(self.lines)):
            line = self.lines[step]
            time = self.started_at + round(1000 * line.get("seconds", 0.0))
            for name in STEPS:
                yield Point(f"step/{name}", line.get(name, 0), time, step)
            yield Point(
                "step/total_tokens", line.get("prompt_tokens", 0) + line.get("completion_tokens", 0), time, step
            )
            for name, value in line.get("metrics", {}).items():
                yield Point(f"step/metrics/{name}", value, time, step)


@dataclass(frozen=True)
class RunContent:
    """A run as far as it is; `digest` changes with anything in it."""

    tags: Mapping[str, str]
    metrics: Sequence[Point]
    files: Sequence[Path]
    status: Status
    ended_at: int | None
    digest: str


def has_begun(job: JobLayout, row: Results | None) -> bool:
    """Whether there is anything to tell of the job: one that the run ended without has a row and no folder."""
    return row is not None or job.meta.is_file()


def stamp_of(job: JobLayout) -> tuple[int, int, int]:
    """Changes with ``results.json``; all nought while there is none."""
    try:
        stat = job.results.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)


def job_content(run: RunLayout, entry: ManifestEntry, row: Results | None) -> JobContent:
    """
    Raises:
        HarnessError: a file is damaged.
    """
    job = run.job(entry.job_id)
    meta = _model(JobMeta, job.meta)
    found = read_journal(job.state_history)
    raw = b"".join(_whole_lines(job.state_history, sum(place.size for place in found.places)))
    places = [place.offset + place.size for place in found.places]
    results = ""
    if row is not None:
        data = job.results.read_bytes() if row.status != "skipped" else row.model_dump_json().encode()
        results = hashlib.sha256(data).hexdigest()
    started = milliseconds(meta.started_at or meta.created_at if meta else None) or 0
    ended = milliseconds(meta.ended_at if meta else None)
    tags = {
        "trace_bench.kind": "job",
        "trace_bench.run_id": row.run_id if row else run.run_id,
        "trace_bench.job_id": entry.job_id,
        "trace_bench.task_id": entry.task_id,
        "trace_bench.trainer_id": entry.trainer_id,
        "trace_bench.suite": entry.suite,
        "trace_bench.variant": entry.variant,
        "trace_bench.model": entry.model,
        "trace_bench.seed": str(entry.seed),
        "trace_bench.integrity": entry.integrity,
        "trace_bench.score_direction": entry.score_direction,
        "trace_bench.fingerprint": entry.fingerprint,
        "trace_bench.status": row.status if row else "running",
    }
    if meta is not None and meta.image is not None:
        tags["trace_bench.image_key"] = meta.image.key
    if row is not None:
        more = {
            "stop_reason": row.stop_reason, "failure_kind": row.failure_kind, "failure_boundary": row.failure_boundary,
            "integrity_flags": row.integrity_flags, "feedback": row.feedback,
        }  # fmt: skip
        tags |= {f"trace_bench.{name}": str(value) for name, value in more.items() if value}
    end = ended if ended is not None else started
    return JobContent(
        name=f"{entry.task_id} {entry.trainer_id} {entry.variant} seed {entry.seed}",
        tags=tags,
        params=_params(entry),
        lines=found.lines,
        raw=raw,
        places=places,
        history=_digest_of(raw, places, len(places)),
        results=results,
        metrics=list(_metrics(row, end)) if row is not None else [],
        status=_status(row),
        started_at=started,
        ended_at=ended,
        files=(
            job.results, job.meta, job.initial_state, job.best_state, job.final_state, job.state_history, job.pareto,
        ),
    )  # fmt: skip


def run_tags(run: RunLayout, manifest: Manifest) -> dict[str, str]:
    """What is known of a run from its beginning on."""
    lock, git = _model(Lock, run.lock), _model(GitInfo, run.git)
    tags = {
        "trace_bench.kind": "run",
        "trace_bench.run_id": manifest.run_id,
        "trace_bench.config_hash": manifest.config_hash,
        "trace_bench.version": lock.code_version if lock else __version__,
        "trace_bench.sources_hash": lock.sources_hash if lock else "",
        "trace_bench.tags": " ".join(manifest.tags),
        "mlflow.source.git.commit": git.commit or "" if git else "",
        "mlflow.source.git.branch": git.branch or "" if git else "",
        "trace_bench.git_dirty": str(git.dirty).lower() if git and git.dirty is not None else "",
    }
    return {name: value for name, value in tags.items() if value}


def run_content(run: RunLayout, manifest: Manifest, rows: Sequence[Results]) -> RunContent:
    """Totals, tables, and what the run as a whole came to."""
    going_on = has_controller(run)
    ok = sum(row.status == "ok" and is_final(row) for row in rows)
    failed = sum(row.status == "failed" and not was_cut(row) for row in rows)
    status: Status
    if going_on:
        status = "RUNNING"
    elif ok == len(manifest.jobs):
        status = "FINISHED"
    else:
        status = "FAILED" if failed else "KILLED"
    index = read_index(run) if not going_on else None
    time = _modified(run.summary) or milliseconds(manifest.generated_at) or 0
    totals = {
        "jobs": len(manifest.jobs),
        "jobs_ok": ok,
        "jobs_failed": failed,
        "jobs_left": len(manifest.jobs) - sum(map(is_final, rows)),
        "llm_calls": sum(row.llm_calls for row in rows),
        "total_tokens": sum(row.total_tokens for row in rows),
        "cost_usd": math.fsum(row.cost_usd for row in rows),
        "evaluations": sum(row.evaluations for row in rows),
    }
    tags = {**run_tags(run, manifest), "trace_bench.status": status.lower()}
    if index is not None:
        tags["trace_bench.digest"] = index_digest(index)
    shown = jsonio.canonical([totals, tags])
    return RunContent(
        tags=tags,
        metrics=[Point(name, value, time, 0) for name, value in totals.items()],
        files=(
            run.results_csv, run.results_parquet, run.summary, run.leaderboard, run.manifest, run.lock,
            run.config_snapshot, run.git, run.files_index,
        ),
        status=status,
        ended_at=None if going_on else time,
        digest=hashlib.sha256(shown).hexdigest(),
    )  # fmt: skip


def started_at(run: RunLayout, manifest: Manifest) -> int:
    """When its first controller began; before there was one, when it was planned."""
    for line in read_journal(run.events).lines[:1]:
        if (found := milliseconds(str(line.get("t")))) is not None:
            return found
    return milliseconds(manifest.generated_at) or 0


# --------------------------------------------------------------------------------------------- what MLflow takes


def safe_points(points: Iterable[Point]) -> list[Point]:
    """Those that are finite, each under a name that MLflow takes."""
    kept = [point for point in points if isinstance(point.value, int | float) and math.isfinite(point.value)]
    return [Point(_key(point.name), float(point.value), point.time, point.step) for point in kept]


def safe_params(params: Mapping[str, Any]) -> dict[str, str]:
    """Texts of at most `PARAM` characters without secrets; what is no text is JSON."""
    return {
        _key(name): _cut(value if isinstance(value, str) else jsonio.dumps(value), PARAM)
        for name, value in params.items()
    }


def safe_tags(tags: Mapping[str, str]) -> dict[str, str]:
    return {_key(name): _cut(value, TAG) for name, value in tags.items()}


def holds_secret(path: Path) -> bool:
    """Whether a file has one of the secrets of this process in it, which the run's controller did not know."""
    data = path.read_bytes()
    return known.data(data) != data


def milliseconds(text: str | None) -> int | None:
    try:
        when = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    if when is None:
        return None
    return round(1000 * (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def _key(name: str) -> str:
    """`name` if MLflow takes it; else one that is as unlike all others as `name` is."""
    plain = _FORBIDDEN.sub("_", name)
    if plain == name and len(name) <= KEY and not name.startswith(("/", ".")) and ".." not in name and "//" not in name:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[./]{2,}', '_', plain).strip('/. ')[: KEY - 9]}_{mark}"


def _cut(text: str, limit: int) -> str:
    text = known.text(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _params(entry: ManifestEntry) -> dict[str, Any]:
    named = {
        "task_id": entry.task_id, "suite": entry.suite, "trainer_id": entry.trainer_id, "variant": entry.variant,
        "model": entry.model, "seed": entry.seed, "optimizer": entry.resolved_optimizer, "guide": entry.resolved_guide,
    }  # fmt: skip
    for prefix, values in (
        ("trainer", entry.resolved_trainer_kwargs),
        ("optimizer", entry.resolved_optimizer_kwargs),
        ("guide", entry.resolved_guide_kwargs),
        ("eval", entry.eval_kwargs),
    ):
        named |= {f"{prefix}.{name}": value for name, value in values.items()}
    return named


def _metrics(row: Results, time: int) -> Iterator[Point]:
    for name in RESULTS:
        value = getattr(row, name)
        if value is not None:
            yield Point(name, value, time, 0)
    for state in ("initial", "final", "best", "test"):
        for name, value in getattr(row, f"metrics_{state}").items():
            yield Point(f"metrics_{state}/{name}", value, time, 0)


def _status(row: Results | None) -> Status:
    if row is None:
        return "RUNNING"
    if row.status == "skipped" or was_cut(row):
        return "KILLED"
    return "FINISHED" if row.status == "ok" else "FAILED"


def _lines_of(history: str) -> int:
    number = history.partition(" ")[0]
    return int(number) if number.isdecimal() and len(number) < 10 else 0


def _digest_of(raw: bytes, places: Sequence[int], number: int) -> str:
    return f"{number} {hashlib.sha256(raw[: places[number - 1] if number else 0]).hexdigest()}"


def _whole_lines(path: Path, size: int) -> Iterator[bytes]:
    if size:
        with path.open("rb") as file:
            yield file.read(size)


def _modified(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def _model(model: Any, path: Path) -> Any:
    """
    Raises:
        HarnessError: it is damaged.
    """
    try:
        return jsonio.read_model(model, path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, jsonio.JsonError) as error:
        raise HarnessError(f"{path}: {error}") from None
