"""The files of a job's attempts: those of the last attempt are in the job's folder, those of earlier ones in folders of
their own."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from trace_bench.artifacts import layout as files
from trace_bench.artifacts import yamlio
from trace_bench.artifacts.collector import Collected
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.records import Attempt, JobMeta
from trace_bench.artifacts.writers import make_folders, repair_journal, sync_folder, write_bytes


def _published(job: JobLayout) -> dict[str, Path]:
    """The published path of each file that an attempt leaves, by its name."""
    return {
        files.EVENTS: job.events,
        files.STDOUT: job.stdout,
        files.HISTORY: job.state_history,
        files.EXTRA: job.extra,
    }


@dataclass
class Kept:
    """The changes that `keep_attempt` made."""

    moved: list[tuple[Path, Path]] = field(default_factory=list)
    made: dict[Path, bytes] = field(default_factory=dict)

    def put_back(self) -> None:
        """Undo the changes: no further attempt has started."""
        for path, data in self.made.items():
            write_bytes(path, data, durable=False)
        for source, target in reversed(self.moved):
            target.replace(source)


def keep_attempt(job: JobLayout, *, calls: bool = False) -> Kept:
    """Move the published files of the last attempt, its result too, into that attempt's folder.

    Args:
        calls: its cassette and its checkpoint as well.
    """
    kept = Kept()
    last = max(_attempts(job), default=0)
    if last == 0:
        return kept
    folder, out = job.attempt(last), job.attempt_out(last)
    repair_journals(job)
    # The result first: one that has lost its files must not be there to be reused.
    moves = {job.results: folder / job.results.name}
    moves |= {source: out / name for name, source in _published(job).items()}
    if calls:
        moves |= {path: folder / path.name for path in (job.cassette, job.pending, job.checkpoint, job.services)}
    for source, target in moves.items():
        if source.exists() and not target.exists():
            make_folders(target.parent)
            source.replace(target)
            kept.moved.append((source, target))
            if source == job.results:
                # It must have gone for good before its files go.
                sync_folder(target.parent)
                sync_folder(source.parent)
    for made in (job.initial_state, job.best_state, job.final_state, job.pareto):
        with contextlib.suppress(FileNotFoundError):
            kept.made[made] = made.read_bytes()
            made.unlink()  # from states.json and the history
    return kept


def repair_journals(job: JobLayout) -> None:
    """Cut off unfinished lines that a dead controller left, for example in the history of a running job."""
    for path in (job.state_history, job.events, job.cassette, job.checkpoint, job.services):
        repair_journal(path)


def publish(collected: Collected, job: JobLayout) -> None:
    """Publish the files that were collected. They are not flushed here: the whole job is flushed once."""
    job.artifacts.mkdir(exist_ok=True)
    for name, target in _published(job).items():
        source = collected.root / name
        if source.exists():
            if target.is_dir():
                shutil.rmtree(target)
            source.replace(target)
    states = collected.states
    for path, name in ((job.initial_state, "initial"), (job.best_state, "best"), (job.final_state, "final")):
        state = getattr(states, name, None)
        if state is not None:
            yamlio.write_state(path, state, durable=False)
        else:
            # An earlier attempt's state is not this one's.
            path.unlink(missing_ok=True)


def earlier_attempts(job: JobLayout) -> tuple[Attempt, ...]:
    """The attempts in the record of the job; none if it is damaged."""
    try:
        return read_model(JobMeta, job.meta.read_bytes()).attempts
    except (FileNotFoundError, JsonError):
        return ()


def _attempts(job: JobLayout) -> list[int]:
    if not job.attempts.is_dir():
        return []
    return [int(p.name) for p in job.attempts.iterdir() if p.name.isascii() and p.name.isdigit()]


def next_attempt(job: JobLayout) -> int:
    number = max(_attempts(job), default=0) + 1
    job.attempt(number).mkdir(parents=True)
    return number


def forget_attempt(job: JobLayout, number: int, meta: bytes | None) -> None:
    """Remove the record of attempt `number`, which made no sandbox.

    Args:
        meta: the job's record before it; None if there was none.
    """
    if meta is None:
        job.meta.unlink(missing_ok=True)
    else:
        write_bytes(job.meta, meta)
    folder = job.attempt(number)
    with contextlib.suppress(FileNotFoundError):
        (folder / files.CHECKPOINT).replace(job.checkpoint)  # it was put aside for that attempt
    shutil.rmtree(folder, ignore_errors=True)
