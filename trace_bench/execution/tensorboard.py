"""TensorBoard's event files, made of a job's history by the host: ``logger: TensorboardLogger``.

The x-axis of every curve is the line of the history: a step of a search may have several. The time of an event is the
seconds of training, since 1970: TensorBoard's relative time is then that of the search, and equal histories give equal
files. A scalar is a 32-bit float, as TensorBoard has it; what does not fit is an infinity there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.records import ManifestEntry, Results
from trace_bench.config.models import TENSORBOARD, RunConfig
from trace_bench.execution.hparams import end_summary, start_summaries

Described = ManifestEntry | Results
"""Who says what a job is: they call it the same."""

FILE = "events.out.tfevents.0.trace-bench"
"""By ``tfevents`` TensorBoard knows it; a real one has a time and a host there."""
SCALARS = {
    "score/candidate": "score",
    "score/best": "best_score",
    "spent/evaluations": "evaluations",
    "spent/llm_calls": "llm_calls",
    "spent/prompt_tokens": "prompt_tokens",
    "spent/completion_tokens": "completion_tokens",
    "spent/cost_usd": "cost_usd",
    "search/step": "step",
}
"""Tag, and the field of a line that it is of."""
_LARGEST = 3.4028234e38


def with_loggers_that_exist(config: RunConfig) -> RunConfig:
    """Return `config` with the default logger for TensorboardLogger if TensorBoard's writer is not installed, and a
    warning for each trainer entry that this changes."""
    needed = [index for index, entry in enumerate(config.trainers) if entry.logger == TENSORBOARD]
    if not needed or importlib.util.find_spec("tensorboardX") is not None:
        return config
    trainers = [e.model_copy(update={"logger": "default"}) if e.logger == TENSORBOARD else e for e in config.trainers]
    why = (
        f"{TENSORBOARD} needs tensorboardX, which is not installed (pip install 'trace-bench[tensorboard]'); "
        "default is used, and trace-bench mirror makes the files later"
    )
    warnings = [f"{config.source.where(('trainers', index, 'logger'))}: {why}" for index in needed]
    return config.changed({"trainers": tuple(trainers)}, warnings=warnings)


def write_events(job: JobLayout, entry: Described | None = None, row: Results | None = None) -> None:
    """Make ``tb/`` of the history that was collected; that of an earlier attempt is replaced.

    Args:
        entry, row: what the job is and its result, for the table of hyperparameters; without them there is none.

    Raises:
        OSError: the disk does not take it.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(job.tb)
    if job.state_history.is_file():
        write_event_file(job.tb, job.state_history, entry, row)


def write_event_file(folder: Path, history: Path, entry: Described | None = None, row: Results | None = None) -> None:
    """Make the event file of a job in `folder`, from its `history` (which may be missing), `entry` and `row`.

    Raises:
        OSError: the disk does not take it.
    """
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.record_writer import RecordWriter

    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".{FILE}.tmp"
    unfinished.unlink(missing_ok=True)
    writer = RecordWriter(str(unfinished.absolute()))
    results = _results(row) if row is not None else {}
    number, seconds = 0, 0.0
    try:
        writer.write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())
        if entry is not None:
            for summary in start_summaries(_parameters(entry), results):
                writer.write(Event(wall_time=0.0, summary=summary).SerializeToString())
        for number, line in enumerate(_lines(history)):
            values = [Summary.Value(tag=tag, simple_value=_single(line[name])) for tag, name in SCALARS.items()]
            seconds = line["seconds"]
            event = Event(wall_time=seconds, step=number, summary=Summary(value=values))
            writer.write(event.SerializeToString())
        if results:
            values = [Summary.Value(tag=tag, simple_value=_single(value)) for tag, value in results.items()]
            event = Event(wall_time=seconds, step=number, summary=Summary(value=values))
            writer.write(event.SerializeToString())
        if entry is not None and row is not None:
            summary = end_summary(failed=row.status != "ok")
            writer.write(Event(wall_time=seconds, summary=summary).SerializeToString())
    finally:
        writer.close()
    unfinished.replace(folder / FILE)


def _results(row: Results) -> dict[str, float]:
    """By tag, what the table of hyperparameters compares jobs by."""
    found = {name: getattr(row, name) for name in ("score_initial", "score_best", "score_test")}
    found["normalised"] = row.metrics_best.get("normalised")
    found["normalised_test"] = row.metrics_test.get("normalised")
    return {f"result/{name}": value for name, value in found.items() if value is not None}


def _parameters(entry: Described) -> dict[str, Any]:
    """What the job is, each under the name that it has in a manifest, those of trainer and optimizer with a dot."""
    named = {name: getattr(entry, name) for name in ("task_id", "trainer_id", "variant", "seed", "model")}
    for prefix, values in (
        ("trainer", entry.resolved_trainer_kwargs),
        ("optimizer", entry.resolved_optimizer_kwargs),
        ("eval", entry.eval_kwargs),
    ):
        named |= {f"{prefix}.{name}": value for name, value in sorted(values.items())}
    return {"optimizer": entry.resolved_optimizer, **named}


def _single(number: float) -> float:
    if abs(number) <= _LARGEST:
        return number
    return float("inf") if number > 0 else float("-inf")


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """The lines of a history, which the collector has checked against their schema; none if it is missing."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for raw in file:
            with contextlib.suppress(jsonio.JsonError):  # the unfinished end of a sandbox that was killed
                line = jsonio.loads(raw)
                yield {"llm_calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0, **line}
