"""What somebody who wants a published run to say something else has at hand: its files, and our own writers.

A `Forger` changes the copy of a run; it knows the job that was best and one that failed. `forgery` registers a small
function as a way of tampering, with the claim that an audit must contradict.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.tables import refresh_tables
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import JobMeta
from trace_bench.artifacts.writers import write_json
from trace_bench.records.pareto import pareto_front
from trace_bench.records.parquet import write_parquet
from trace_bench.records.tables import write_files_index


@dataclass(frozen=True)
class Forger:
    """A copy of a run, to be changed.

    Attributes:
        good: a job that is ok, of the first seed. Its last attempt is its first one.
        other: the same of the second seed.
        failed: one that has failed twice, for a reason of its own.
    """

    run: RunLayout
    good: JobLayout
    other: JobLayout
    failed: JobLayout

    @classmethod
    def of(cls, run: RunLayout) -> Forger:
        rows = [json.loads(job.results.read_text()) for job in run.job_dirs()]
        good = sorted((row for row in rows if row["status"] == "ok"), key=lambda row: row["seed"])
        (failed, *_) = sorted((row for row in rows if row["status"] == "failed"), key=lambda row: row["seed"])
        return cls(run, *(run.job(row["job_id"]) for row in (*good, failed)))

    @property
    def result(self) -> Path:
        """What the sandbox of the good job found."""
        return self.good.attempt_out(1) / "result.json"

    @property
    def states(self) -> Path:
        return self.good.attempt_out(1) / "states.json"

    @contextlib.contextmanager
    def json(self, path: Path) -> Iterator[Any]:
        """The value in `path`, written back when it has been changed."""
        value = json.loads(path.read_text())
        yield value
        write_json(path, value)

    @contextlib.contextmanager
    def yaml(self, path: Path) -> Iterator[Any]:
        value = yaml.safe_load(path.read_text())
        yield value
        path.write_text(yaml.safe_dump(value, sort_keys=False))

    @contextlib.contextmanager
    def lines(self, path: Path) -> Iterator[list[dict[str, Any]]]:
        """The lines of a JSONL file, to be changed, added to, or put in another order."""
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        yield lines
        path.write_text("".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines))

    def row(self, job: JobLayout | None = None, **changes: Any) -> None:
        """Change columns of a job's row; of the good one if none is named."""
        with self.json((job or self.good).results) as row:
            row |= changes

    def meta(self, job: JobLayout | None = None, **changes: Any) -> None:
        """Change keys of a job's record."""
        with self.json((job or self.good).meta) as meta:
            meta |= changes

    def entry(self, job: JobLayout | None = None, **changes: Any) -> None:
        """Change keys of a job's entry in the manifest."""
        job_id = (job or self.good).job_id
        with self.json(self.run.manifest) as manifest:
            for entry in manifest["jobs"]:
                if entry["job_id"] == job_id:
                    entry |= changes

    def lock(self, **changes: Any) -> None:
        with self.json(self.run.lock) as lock:
            lock |= changes

    def front(self) -> None:
        """The good job's front anew, from its history, and what its row says of it."""
        meta = JobMeta.model_validate_json(self.good.meta.read_text())
        front = pareto_front(self.good.state_history, self.good.job_id, meta.objective)
        assert front is not None
        write_json(self.good.pareto, front)
        self.row(hypervolume=front.hypervolume)

    def tables(self) -> None:
        """All tables anew, from what the jobs' files say now."""
        rows = refresh_tables(self.run)
        write_parquet(self.run.results_parquet, rows)

    def index(self) -> None:
        write_files_index(self.run)


@dataclass(frozen=True)
class Forgery:
    """A way of tampering.

    Attributes:
        claim: that an audit must contradict when the index was made anew after it, too.
        names: what the evidence must name, somewhere in its file, key or values.
    """

    change: Callable[[Forger], None]
    claim: str
    names: str

    @property
    def name(self) -> str:
        return self.change.__name__


def forgery(into: list[Forgery], claim: str, names: str = "") -> Callable[[Callable[[Forger], None]], object]:
    """Add the decorated function to `into`."""

    def add(change: Callable[[Forger], None]) -> Callable[[Forger], None]:
        into.append(Forgery(change, claim, names))
        return change

    return add
