"""A run on an MLflow server: a parent run, and a nested run for each job that has ended.

Runs are found again by tags: ``trace_bench.run_id`` and, of a job, ``trace_bench.job_id``. A job's last tag,
``trace_bench.results``, is a hash of its result. If the tag is missing or differs, the copy was cut off or the job ran
again: the copy is deleted and made again, since MLflow cannot take back a logged value. Times are those of the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import GitInfo, Lock, Manifest, Results
from trace_bench.artifacts.writers import read_journal
from trace_bench.display.text import clean_line
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.mirrors import Mirrored, MirrorError
from trace_bench.records.digest import index_digest
from trace_bench.records.reading import read_index, read_manifest, read_meta, read_optional, read_rows
from trace_bench.records.rows import is_final, was_cut
from trace_bench.secrets import known

URI_VARIABLE = "MLFLOW_TRACKING_URI"
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Variables of the client while it works, where the user has not set them."""
WAIT = 10.0
"""Longest wait for an answer of the server, in seconds."""
STEPS = ("score", "best_score", "evaluations", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds")
"""Fields of each line of a history, as metrics ``step/NAME``."""
RESULTS = (
    "score_initial", "score_final", "score_best", "score_test", "hypervolume", "time_seconds", "train_seconds",
    "evaluations", "score_evaluations", "llm_calls", "prompt_tokens", "completion_tokens", "total_tokens", "cost_usd",
)  # fmt: skip
JOB_TAGS = (
    "run_id", "job_id", "task_id", "trainer_id", "suite", "variant", "model", "seed", "integrity", "score_direction",
    "fingerprint", "status", "image_key", "stop_reason", "failure_kind", "failure_boundary", "integrity_flags",
    "feedback",
)  # fmt: skip
"""Fields of a result as tags ``trace_bench.NAME``, where they are not empty."""
_KEY = 250
"""Longest name that MLflow takes, in characters. It cuts longer texts itself."""
_PARENT = "mlflow.parentRunId"
_FORBIDDEN = re.compile(r"[^\w\-./ ]", re.ASCII)
T = TypeVar("T")


def address(uri: str | None, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the server's address without user and password, and the variables from which the client reads those.

    Raises:
        ConfigError: there is no address, or it is invalid.
    """
    uri = uri or environ.get(URI_VARIABLE, "")
    if not uri:
        raise ConfigError(f"mirror mlflow: no server is named; give --tracking-uri, or set {URI_VARIABLE}")
    try:
        parts = urlsplit(uri)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
    except ValueError:
        raise ConfigError("mirror mlflow: invalid address of the server; write http://HOST:PORT") from None
    known.add([password, parts.password or "", f"{parts.username}:{parts.password}"])
    if parts.scheme not in ("http", "https") or not (user or password):
        return uri, {}
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return bare, {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": password}


class MlflowMirror:
    """Copies one run to the server at `uri`.

    Args:
        experiment: its name on the server; made if it does not exist.
        files: copy states, histories and tables too, as artifacts.
        wait: longest wait for an answer of the server, in seconds.

    Raises:
        ConfigError: no server is named. MirrorError: the client cannot be made.
    """

    def __init__(
        self, run: RunLayout, uri: str | None, experiment: str | None, *, files: bool = True, wait: float = WAIT
    ) -> None:
        uri, login = address(uri, os.environ)
        defaults = {**SETTINGS, "MLFLOW_HTTP_REQUEST_TIMEOUT": str(max(1, math.ceil(wait)))}
        self._environ = {name: value for name, value in defaults.items() if name not in os.environ} | login
        self._run, self._files = run, files
        self._experiment = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "trace-bench"
        self.place = f"{_without_login(uri)} (experiment {self._experiment})"
        self._client = self._ask(_client, uri)
        self._experiment_id = ""
        self._parent = ""
        self._copies: dict[str, tuple[str, str]] = {}
        self._problems: list[str] = []

    def copy_run(self) -> Mirrored:
        """Copy the jobs that have ended, and the totals and tables of the run. What the server has is not sent again.

        Raises:
            MirrorError: the server refuses, hangs or cannot be reached. HarnessError: a file of the run is damaged.
        """
        rows = read_rows(self._run)
        changed = sum(map(self.copy_job, rows))
        manifest = self._connected()
        ok = sum(row.status == "ok" and is_final(row) for row in rows)
        failed = sum(row.status == "failed" and not was_cut(row) for row in rows)
        status = "FINISHED" if ok == len(manifest.jobs) else "FAILED" if failed else "KILLED"
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
        run, index = self._run, read_index(self._run)
        ended = run.summary.stat().st_mtime_ns // 1_000_000 if run.summary.is_file() else _ms(manifest.generated_at)
        tags = {"trace_bench.status": status.lower()}
        if index is not None:
            tags["trace_bench.digest"] = index_digest(index)
        self._log(self._parent, [(name, value, ended, 0) for name, value in totals.items()], {}, tags)
        tables = (run.results_csv, run.results_parquet, run.summary, run.leaderboard)
        records = (run.manifest, run.lock, run.config_snapshot, run.git, run.files_index)
        self._upload(self._parent, run.root, (*tables, *records))
        self._ask(self._client.set_terminated, self._parent, status=status, end_time=ended)
        return Mirrored(self.place, len(rows), changed, tuple(self._problems))

    def copy_job(self, row: Results) -> bool:
        """Copy a job that has ended; True if the server did not have it yet.

        Raises:
            MirrorError, HarnessError: as `copy_run`.
        """
        self._connected()
        digest = hashlib.sha256(row.model_dump_json().encode()).hexdigest()
        copy, copied = self._copies.get(row.job_id, ("", ""))
        if copied == digest or (copied == f"{digest} without files" and not self._files):
            return False
        if copy:
            self._ask(self._client.delete_run, copy)
        job = self._run.job(row.job_id)
        meta = read_meta(job)
        started = _ms(meta.started_at or meta.created_at if meta else None)
        ended = _ms(meta.ended_at if meta else None) or started
        tags = {
            f"trace_bench.{name}": str(value) for name in JOB_TAGS if (value := getattr(row, name)) not in ("", None)
        }
        name = f"{row.task_id} {row.trainer_id} {row.variant} seed {row.seed}"
        copy = self._create(name, started, {_PARENT: self._parent, "trace_bench.job_id": row.job_id})
        points = [*_steps(read_journal(job.state_history).lines, started), *_metrics(row, ended)]
        self._log(copy, points, _params(row), {"trace_bench.kind": "job", **tags})
        states = (job.initial_state, job.best_state, job.final_state, job.state_history, job.pareto)
        complete = self._upload(copy, job.root, (job.results, job.meta, *states))
        status = "KILLED" if row.status == "skipped" or was_cut(row) else "FINISHED" if row.status == "ok" else "FAILED"
        self._ask(self._client.set_terminated, copy, status=status, end_time=ended)
        copied = digest if complete else f"{digest} without files"
        self._log(copy, [], {}, {"trace_bench.results": copied})
        self._copies[row.job_id] = (copy, copied)
        return True

    # -- the server ------------------------------------------------------------------------------------------------

    def _connected(self) -> Manifest:
        """Find or make the experiment and the parent run, and find the copies of jobs; returns the run's manifest."""
        manifest = read_manifest(self._run)
        if manifest is None:
            raise HarnessError(f"{self._run.manifest}: it is missing, so there is nothing to copy yet")
        if self._parent:
            return manifest
        experiment = self._ask(self._client.get_experiment_by_name, self._experiment)
        if experiment is not None and experiment.lifecycle_stage != "active":
            raise MirrorError(f"mirror mlflow: experiment {self._experiment!r} is deleted; restore it")
        self._experiment_id = (
            experiment.experiment_id
            if experiment is not None
            else self._ask(self._client.create_experiment, self._experiment)
        )
        name = "".join(c for c in manifest.run_id if c.isalnum() or c in "._-")
        parents = self._search(f"tags.`trace_bench.run_id` = '{name}' and tags.`trace_bench.kind` = 'run'")
        if parents:
            self._parent = parents[0].info.run_id
        else:
            begun = [_ms(str(line.get("t"))) for line in read_journal(self._run.events).lines[:1]]
            started = begun[0] if begun and begun[0] else _ms(manifest.generated_at)
            self._parent = self._create(manifest.run_id, started, _run_tags(self._run, manifest))
        for one in reversed(self._search(f"tags.`{_PARENT}` = '{self._parent}'")):  # of two copies the first counts
            tags = one.data.tags
            self._copies[tags.get("trace_bench.job_id", "")] = one.info.run_id, tags.get("trace_bench.results", "")
        return manifest

    def _create(self, name: str, started: int, tags: Mapping[str, str]) -> str:
        run = self._ask(
            self._client.create_run, self._experiment_id, start_time=started, run_name=known.text(name)[:_KEY],
            tags={_name(key): known.text(value) for key, value in tags.items()},
        )  # fmt: skip
        return str(run.info.run_id)

    def _search(self, text: str) -> list[Any]:
        """Return active runs, oldest first."""
        runs: list[Any] = []
        token = None
        while True:
            page = self._ask(
                self._client.search_runs, [self._experiment_id], text, max_results=1000, page_token=token,
                order_by=["attributes.start_time ASC"],
            )  # fmt: skip
            runs += page
            token = page.token
            if not token:
                return runs

    def _log(
        self,
        copy: str,
        points: Sequence[tuple[str, Any, int, int]],
        params: Mapping[str, Any],
        tags: Mapping[str, str],
    ) -> None:
        """Log values (name, value, milliseconds since 1970, step) that are finite numbers, parameters and tags."""
        from mlflow.entities import Metric, Param, RunTag

        metrics = [
            Metric(_name(name), float(value), time, step)
            for name, value, time, step in points
            if isinstance(value, int | float) and math.isfinite(value)
        ]
        texts = {name: value if isinstance(value, str) else jsonio.dumps(value) for name, value in params.items()}
        self._ask(
            self._client.log_batch, copy, metrics=metrics,
            params=[Param(_name(name), known.text(text)) for name, text in texts.items()],
            tags=[RunTag(_name(name), known.text(text)) for name, text in tags.items()],
        )  # fmt: skip

    def _upload(self, copy: str, root: Path, files: Sequence[Path]) -> bool:
        """Copy `files`; True if the server has them. A server without a place for files gets all the rest."""
        for path in files if self._files else ():
            if not path.is_file() or path.is_symlink():
                continue
            data = path.read_bytes()
            if known.data(data) != data:
                self._problems.append(f"{path} holds what looks like one of your secrets; it was not copied")
                continue
            folder = path.parent.relative_to(root).as_posix()
            try:
                self._ask(self._client.log_artifact, copy, str(path), None if folder == "." else folder)
            except MirrorError as error:
                self._problems.append(f"files are not copied: {error}")
                self._files = False
        return self._files

    def _ask(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call the client with its variables, and without the output of its packages.

        Raises:
            MirrorError: anything goes wrong in the client or on the server.
        """
        with _settings(self._environ):
            try:
                return call(*args, **kwargs)
            except Exception as error:
                raise MirrorError(f"mirror mlflow: {self.place}: {_reason(error)}") from None


def _client(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


@contextlib.contextmanager
def _settings(variables: Mapping[str, str]) -> Iterator[None]:
    """Set `variables` and silence the client's packages, in a process that is the user's."""
    before = {name: os.environ.get(name) for name in variables}
    levels = {logger: logger.level for logger in map(logging.getLogger, ("mlflow", "urllib3", "alembic"))}
    os.environ.update(variables)
    for logger in levels:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({name: value} if value is not None else {})


def _reason(error: Exception) -> str:
    """Return the reason of a failed request in one line."""
    text = str(error)
    for word, reason in (
        ("Connection refused", "the connection is refused"),
        ("timed out", "it does not answer in time"),
        ("Name or service not known", "there is no such host"),
        ("RemoteDisconnected", "it closed the connection without an answer"),
    ):
        if word in text:
            return reason
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return clean_line(first, 300).rstrip(".")


def _without_login(uri: str) -> str:
    head, at, tail = uri.rpartition("@")
    return f"{head.partition('://')[0]}://***@{tail}" if at and "://" in head else uri


# ------------------------------------------------------------------------------------------------ what MLflow is sent


def _run_tags(run: RunLayout, manifest: Manifest) -> dict[str, str]:
    lock, git = read_optional(Lock, run.lock), read_optional(GitInfo, run.git)
    tags = {
        "trace_bench.kind": "run",
        "trace_bench.run_id": manifest.run_id,
        "trace_bench.config_hash": manifest.config_hash,
        "trace_bench.version": lock.code_version if lock else "",
        "trace_bench.sources_hash": lock.sources_hash if lock else "",
        "trace_bench.tags": " ".join(manifest.tags),
        "mlflow.source.git.commit": git.commit or "" if git else "",
        "mlflow.source.git.branch": git.branch or "" if git else "",
        "trace_bench.git_dirty": str(git.dirty).lower() if git and git.dirty is not None else "",
    }
    return {name: value for name, value in tags.items() if value}


def _params(row: Results) -> dict[str, Any]:
    params = {name: getattr(row, name) for name in ("task_id", "suite", "trainer_id", "variant", "model", "seed")}
    params |= {"optimizer": row.resolved_optimizer, "guide": row.resolved_guide}
    for prefix, values in (
        ("trainer", row.resolved_trainer_kwargs),
        ("optimizer", row.resolved_optimizer_kwargs),
        ("guide", row.resolved_guide_kwargs),
        ("eval", row.eval_kwargs),
    ):
        params |= {f"{prefix}.{name}": value for name, value in values.items()}
    return params


def _steps(lines: Sequence[Mapping[str, Any]], started: int) -> Iterator[tuple[str, Any, int, int]]:
    for step, line in enumerate(lines):
        time = started + round(1000 * line.get("seconds", 0.0))
        values = {name: line.get(name, 0) for name in STEPS}
        values["total_tokens"] = line.get("prompt_tokens", 0) + line.get("completion_tokens", 0)
        values |= {f"metrics/{name}": value for name, value in line.get("metrics", {}).items()}
        for name, value in values.items():
            yield f"step/{name}", value, time, step


def _metrics(row: Results, time: int) -> Iterator[tuple[str, Any, int, int]]:
    for name in RESULTS:
        yield name, getattr(row, name), time, 0
    for state in ("initial", "final", "best", "test"):
        for name, value in getattr(row, f"metrics_{state}").items():
            yield f"metrics_{state}/{name}", value, time, 0


def _name(name: str) -> str:
    """Return `name` if MLflow takes it; else a name that differs from all others as `name` does."""
    plain = _FORBIDDEN.sub("_", name)
    if (
        plain == name
        and len(name) <= _KEY
        and not name.startswith(("/", "."))
        and ".." not in name
        and "//" not in name
    ):
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[./]{2,}', '_', plain).strip('/. ')[: _KEY - 9]}_{mark}"


def _ms(text: str | None) -> int:
    """Return milliseconds since 1970; 0 if `text` is not a time."""
    try:
        when = datetime.fromisoformat(text or "")
    except ValueError:
        return 0
    return round(1000 * (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
