"""TensorBoard's event files, made on the host from a job's history.

The x-axis of every curve is the line of the history: a step of a search may have several lines. The time of an event is
the seconds of training since 1970, so TensorBoard's relative time is that of the search, and equal histories give equal
files. A scalar is a 32-bit float, as TensorBoard has it; a larger number becomes an infinity.
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
from trace_bench.artifacts.records import Results
from trace_bench.config.models import TENSORBOARD, RunConfig

FILE = "events.out.tfevents.0.trace-bench"
"""TensorBoard recognises ``tfevents``; other programs write a time and a host behind it."""
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
"""Field of a line of the history, by tag."""
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


def write_events(job: JobLayout, row: Results) -> None:
    """Replace the files in ``tb/`` of `job` by those of its history; a job without a history has no files.

    Raises:
        OSError: the disk does not take them.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(job.tb)
    if job.state_history.is_file():
        write_event_file(job.tb, job.state_history, row)


def write_event_file(folder: Path, history: Path, row: Results) -> None:
    """Write the event file of a job into `folder`: its hyperparameters, the curves of its `history` and its result.

    Args:
        history: may be missing.

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

    def write(seconds: float, **content: Any) -> None:
        writer.write(Event(wall_time=seconds, **content).SerializeToString())

    def write_scalars(seconds: float, step: int, values: Mapping[str, float]) -> None:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=_single(v)) for tag, v in values.items()])
        write(seconds, step=step, summary=summary)

    results, number, seconds = _results(row), 0, 0.0
    experiment, start, end = _hyperparameters(row, results)
    try:
        write(0.0, file_version="brain.Event:2")
        write(0.0, summary=experiment)
        write(0.0, summary=start)
        for number, line in enumerate(_lines(history)):
            seconds = line["seconds"]
            write_scalars(seconds, number, {tag: line[name] for tag, name in SCALARS.items()})
        if results:
            write_scalars(seconds, number, results)
        write(seconds, summary=end)
    finally:
        writer.close()
    unfinished.replace(folder / FILE)


def _results(row: Results) -> dict[str, float]:
    """Return the scores of the table of hyperparameters, by tag."""
    scores = {name: getattr(row, name) for name in ("score_initial", "score_best", "score_test")}
    scores["normalised"] = row.metrics_best.get("normalised")
    scores["normalised_test"] = row.metrics_test.get("normalised")
    return {f"result/{name}": value for name, value in scores.items() if value is not None}


def _hyperparameters(row: Results, results: Mapping[str, float]) -> list[Any]:
    """Return the summaries of TensorBoard's plug-in ``hparams``: the experiment, the session's start and its end.

    tensorboardX writes maps in the order of a hash table, and the status of a success: both are corrected here.
    """
    from tensorboardX.proto.api_pb2 import Status
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData
    from tensorboardX.summary import hparams

    summaries = list(hparams(_parameters(row), results))
    for summary in summaries:
        plugin = summary.value[0].metadata.plugin_data
        data = HParamsPluginData.FromString(plugin.content)
        if data.HasField("session_end_info") and row.status != "ok":
            data.session_end_info.status = Status.Value("STATUS_FAILURE")
        plugin.content = data.SerializeToString(deterministic=True)
    return summaries


def _parameters(row: Results) -> dict[str, Any]:
    """Return what defines the job: names as in a manifest, those of trainer and optimizer with a dot. A value that is
    not a number, a truth value or text is JSON text."""
    named = {name: getattr(row, name) for name in ("task_id", "trainer_id", "variant", "seed", "model")}
    for prefix, values in (
        ("trainer", row.resolved_trainer_kwargs),
        ("optimizer", row.resolved_optimizer_kwargs),
        ("eval", row.eval_kwargs),
    ):
        named |= {f"{prefix}.{name}": value for name, value in sorted(values.items())}
    plain = (str, bool, int, float, type(None))
    return {
        name: value if isinstance(value, plain) else jsonio.dumps(value)
        for name, value in {"optimizer": row.resolved_optimizer, **named}.items()
    }


def _single(number: float) -> float:
    if abs(number) <= _LARGEST:
        return number
    return float("inf") if number > 0 else float("-inf")


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the lines of a history, which the collector has validated; none if it is missing."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for raw in file:
            with contextlib.suppress(jsonio.JsonError):  # the unfinished end of a sandbox that was killed
                line = jsonio.loads(raw)
                yield {"llm_calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0, **line}
