"""A run on an MLflow server: a parent run, and a nested run for each job that has begun.

Runs are found again by tags: ``trace_bench.run_id`` and, of a job, ``trace_bench.job_id``. Further tags of a job say
how far its copy is: ``trace_bench.history`` (lines copied and their SHA-256), ``trace_bench.results`` (SHA-256 of
``results.json``) and ``trace_bench.files`` (the same, once its files are copied). What has only grown is added to. A
job that was run again is another one, and MLflow cannot take back what was logged: the old copy is deleted and made
anew. Times are those of the files, so that a value that is logged twice is one value.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Manifest, ManifestEntry
from trace_bench.display.text import clean_line
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.mirrors import mlflow_content as content
from trace_bench.mirrors.registry import Mirrored, MirrorError
from trace_bench.records.reading import RowReader, read_manifest
from trace_bench.secrets import known

URI_VARIABLE = "MLFLOW_TRACKING_URI"
EXPERIMENT_VARIABLE = "MLFLOW_EXPERIMENT_NAME"
EXPERIMENT = "trace-bench"
METRICS, PARAMS, TAGS = 1000, 100, 100
"""Of one batch at most, as the server has it."""
PAGE = 1000
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""Of the client, where the user has not set them: we try again ourselves."""
PARENT = "mlflow.parentRunId"
QUIET_LOGGERS = ("mlflow", "urllib3", "alembic")
"""Of the client's packages. The logger of this package is left alone."""
T = TypeVar("T")


@dataclass
class _Copy:
    """A run on the server, and how far it is."""

    run_id: str
    history: str = ""
    results: str = ""
    files: str = ""


def address(given: str | None, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The server's address without user and password, and the variables that the client reads those from.

    Raises:
        ConfigError: no address is given.
    """
    uri = given or environ.get(URI_VARIABLE, "")
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
    """Copies runs to the server at `uri`, into the experiment of that name.

    Args:
        files: states, histories and tables too, as artifacts.

    Raises:
        MirrorError: the client cannot be made.
    """

    def __init__(self, uri: str | None, experiment: str | None, *, files: bool = True) -> None:
        self.uri, login = address(uri, os.environ)
        self._experiment = experiment or os.environ.get(EXPERIMENT_VARIABLE) or EXPERIMENT
        self.shown = f"{_without_login(self.uri)} (experiment {self._experiment})"
        self._files = files
        for name, value in {**SETTINGS, **login}.items():
            if name in login or name not in os.environ:
                os.environ[name] = value
        self._client = self._asked(_client, self.uri)
        self._tables: RowReader | None = None
        self._experiment_id = ""
        self._parent = _Copy("")
        self._copies: dict[str, _Copy] = {}
        self._done: dict[str, tuple[int, int, int]] = {}

    # -- the run ---------------------------------------------------------------------------------------------------

    def sync(self, run: RunLayout) -> Mirrored:
        """As of `Mirror`."""
        manifest = read_manifest(run)
        if manifest is None:
            raise HarnessError(f"{run.manifest}: it is missing, so there is nothing to copy yet")
        self._tables = self._tables or RowReader(run)
        rows = {row.job_id: row for row in self._tables.rows()}
        problems: list[str] = []
        if not self._parent.run_id:
            self._find(run, manifest)
        changed = 0
        for entry in manifest.jobs:
            job = run.job(entry.job_id)
            stamp = content.stamp_of(job)
            if self._done.get(entry.job_id) == stamp or not content.has_begun(job, rows.get(entry.job_id)):
                continue
            try:
                snapshot = content.job_content(run, entry, rows.get(entry.job_id))
            except HarnessError as error:
                problems.append(str(error))
                continue
            changed += self._job(run, entry, snapshot, problems)
            if snapshot.ended:
                self._done[entry.job_id] = stamp
        self._run(run, manifest, list(rows.values()), problems)
        return Mirrored(self.shown, len(self._copies), changed, tuple(problems))

    def _find(self, run: RunLayout, manifest: Manifest) -> None:
        """The experiment, the parent run and the nested ones, as far as they are there."""
        found = self._asked(self._client.get_experiment_by_name, self._experiment)
        if found is None:
            self._experiment_id = self._asked(self._client.create_experiment, self._experiment)
        elif found.lifecycle_stage != "active":
            raise MirrorError(f"mirror mlflow: experiment {self._experiment!r} is deleted; restore it")
        else:
            self._experiment_id = found.experiment_id
        mine = f"tags.`trace_bench.run_id` = '{_quoted(manifest.run_id)}'"
        parents = self._search(f"{mine} and tags.`trace_bench.kind` = 'run'")
        if parents:
            self._parent = parents[0][1]
        else:
            tags = content.run_tags(run, manifest)
            self._parent = self._create(manifest.run_id, content.started_at(run, manifest), tags)
        children = self._search(f"tags.`{PARENT}` = '{self._parent.run_id}'")
        self._copies = dict(reversed(children))  # of two copies, which there should not be, the first one counts

    def _run(self, run: RunLayout, manifest: Manifest, rows: Sequence[Any], problems: list[str]) -> None:
        """The parent: tags, totals and tables, where anything has changed."""
        whole = content.run_content(run, manifest, rows)
        if whole.digest == self._parent.results:
            return
        self._log(self._parent.run_id, whole.metrics, {}, whole.tags)
        over = whole.status != "RUNNING"
        copied = over and self._files and self._upload(self._parent, run.root, whole.files, problems)
        self._end(self._parent.run_id, whole.status, whole.ended_at)
        if copied or not over or not self._files:
            self._log(self._parent.run_id, [], {}, {"trace_bench.results": whole.digest})
            self._parent.results = whole.digest

    # -- a job -----------------------------------------------------------------------------------------------------

    def _job(self, run: RunLayout, entry: ManifestEntry, job: content.JobContent, problems: list[str]) -> bool:
        """Bring the copy of a job up to date; True if anything was logged."""
        copy = self._copies.get(entry.job_id)
        if copy is not None and not job.continues(copy.history, copy.results):
            self._asked(self._client.delete_run, copy.run_id)
            copy = None
        if copy is None:
            tags = {**job.tags, PARENT: self._parent.run_id}
            copy = self._create(job.name, job.started_at, tags)
            self._copies[entry.job_id] = copy
        logged = False
        if copy.history != job.history or copy.results != job.results:
            metrics = [*job.steps_after(copy.history), *job.metrics]
            params = {} if copy.history else job.params
            self._log(copy.run_id, metrics, params, {**job.tags, "trace_bench.history": job.history})
            copy.history = job.history
            logged = True
        wanted = job.ended and self._files and copy.files != job.results
        if wanted and self._upload(copy, run.job(entry.job_id).root, job.files, problems):
            copy.files = job.results
            self._log(copy.run_id, [], {}, {"trace_bench.files": job.results})
            logged = True
        if job.ended and copy.results != job.results:
            self._end(copy.run_id, job.status, job.ended_at)
            self._log(copy.run_id, [], {}, {"trace_bench.results": job.results})
            copy.results = job.results
        return logged

    # -- the server ------------------------------------------------------------------------------------------------

    def _create(self, name: str, started: int, tags: Mapping[str, str]) -> _Copy:
        made = self._asked(
            self._client.create_run, self._experiment_id, start_time=started, tags=content.safe_tags(tags),
            run_name=known.text(name)[:250],
        )  # fmt: skip
        return _Copy(made.info.run_id)

    def _search(self, text: str) -> list[tuple[str, _Copy]]:
        """Active runs, oldest first, by the job's id (empty for a parent)."""
        found: list[tuple[str, _Copy]] = []
        token = None
        while True:
            page = self._asked(
                self._client.search_runs, [self._experiment_id], text, max_results=PAGE, page_token=token,
                order_by=["attributes.start_time ASC"],
            )  # fmt: skip
            for one in page:
                tags = one.data.tags
                names = ("trace_bench.history", "trace_bench.results", "trace_bench.files")
                copy = _Copy(one.info.run_id, *(tags.get(name, "") for name in names))
                found.append((tags.get("trace_bench.job_id", ""), copy))
            token = page.token
            if not token:
                return found

    def _log(
        self, run_id: str, metrics: Sequence[content.Point], params: Mapping[str, Any], tags: Mapping[str, str]
    ) -> None:
        """In as many batches as it takes; tags last, as they say that the rest is there."""
        from mlflow.entities import Metric, Param, RunTag

        points = [Metric(p.name, p.value, p.time, p.step) for p in content.safe_points(metrics)]
        for some in _batches(points, METRICS):
            self._asked(self._client.log_batch, run_id, metrics=some)
        for pairs in _batches([Param(*item) for item in content.safe_params(params).items()], PARAMS):
            self._asked(self._client.log_batch, run_id, params=pairs)
        for pairs in _batches([RunTag(*item) for item in content.safe_tags(tags).items()], TAGS):
            self._asked(self._client.log_batch, run_id, tags=pairs)

    def _upload(self, copy: _Copy, root: Path, files: Sequence[Path], problems: list[str]) -> bool:
        """Copy `files`; True if all of them are there. A server without a place for files takes all the rest."""
        for path in files:
            if not path.is_file() or path.is_symlink():
                continue
            if content.holds_secret(path):
                problems.append(f"{path} holds what looks like one of your secrets; it was not copied")
                continue
            folder = path.parent.relative_to(root).as_posix()
            try:
                self._asked(self._client.log_artifact, copy.run_id, str(path), None if folder == "." else folder)
            except MirrorError as error:
                problems.append(f"files are not copied: {error}")
                return False
        return True

    def _end(self, run_id: str, status: str, ended: int | None) -> None:
        if status == "RUNNING":
            self._asked(self._client.update_run, run_id, status=status)
        else:
            self._asked(self._client.set_terminated, run_id, status=status, end_time=ended)

    def _asked(self, ask: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """
        Raises:
            MirrorError: whatever goes wrong in the client or on the server.
        """
        try:
            return ask(*args, **kwargs)
        except Exception as error:
            raise MirrorError(f"mirror mlflow: {self.shown}: {_reason(error)}") from None


def _client(uri: str) -> Any:
    warnings.simplefilter("ignore")
    from mlflow import MlflowClient

    for name in QUIET_LOGGERS:  # a failed request becomes one sentence of ours
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return MlflowClient(tracking_uri=uri)


def _reason(error: Exception) -> str:
    """The innermost cause that says something, in one line."""
    text = str(error)
    for word, said in (
        ("Connection refused", "the connection is refused"),
        ("timed out", "it does not answer in time"),
        ("Name or service not known", "there is no such host"),
        ("RemoteDisconnected", "it closed the connection without an answer"),
    ):
        if word in text:
            return said
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return clean_line(first, 300).rstrip(".")


def _without_login(uri: str) -> str:
    head, at, tail = uri.rpartition("@")
    return f"{head.partition('://')[0]}://***@{tail}" if at and "://" in head else uri


def _quoted(text: str) -> str:
    """As part of a search between single quotes: run ids have none of them."""
    return "".join(c for c in text if c.isalnum() or c in "._-")


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    left = iter(items)
    while some := list(islice(left, size)):
        yield some
