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
from trace_bench.config.models import TENSORBOARD, RunConfig
from trace_bench.errors import EnvironmentUnavailable

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


def check_tensorboard(config: RunConfig) -> None:
    """
    Raises:
        EnvironmentUnavailable: a trainer entry wants TensorBoard's files, and what writes them is not installed.
    """
    for index, entry in enumerate(config.trainers):
        if entry.logger == TENSORBOARD and importlib.util.find_spec("tensorboardX") is None:
            where = config.source.where(("trainers", index, "logger"))
            raise EnvironmentUnavailable(
                f"{where}: {TENSORBOARD} needs tensorboardX, which is not installed: pip install "
                "'trace-bench[tensorboard]'; or use logger: default, and state_history.jsonl"
            )


def write_events(job: JobLayout) -> None:
    """Make ``tb/`` of the history that was collected; what is there of an earlier attempt goes.

    Raises:
        OSError: the disk does not take it.
    """
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(job.tb)
    if not job.state_history.is_file():
        return
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.record_writer import RecordWriter

    job.tb.mkdir()
    unfinished = job.tb / f".{FILE}.tmp"
    writer = RecordWriter(str(unfinished.absolute()))
    try:
        writer.write(Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())
        for number, line in enumerate(_lines(job.state_history)):
            values = [Summary.Value(tag=tag, simple_value=_single(line[name])) for tag, name in SCALARS.items()]
            event = Event(wall_time=line["seconds"], step=number, summary=Summary(value=values))
            writer.write(event.SerializeToString())
    finally:
        writer.close()
    unfinished.replace(job.tb / FILE)


def _single(number: float) -> float:
    if abs(number) <= _LARGEST:
        return number
    return float("inf") if number > 0 else float("-inf")


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """The lines of a history, which the collector has checked against their schema."""
    with path.open("rb") as file:
        for raw in file:
            with contextlib.suppress(jsonio.JsonError):  # the unfinished end of a sandbox that was killed
                line = jsonio.loads(raw)
                yield {"llm_calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0, **line}
