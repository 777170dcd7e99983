"""The tables of a run in long form, for programs: as parquet with real types, or as CSV that no spreadsheet takes for
formulas. Both are written a thousand jobs at a time."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from csv import writer as csv_writer
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from trace_bench import __version__
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.outputs import StateScores, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.writers import make_folders, write_pieces
from trace_bench.config.objectives import SCORE
from trace_bench.display.text import csv_cell
from trace_bench.errors import HarnessError
from trace_bench.records.integrity import is_withheld
from trace_bench.records.parquet import arrow_value
from trace_bench.records.reading import last_result, read_meta
from trace_bench.records.rows import GAP

Table = Literal["scores", "jobs", "steps", "calls"]
TABLES: Sequence[str] = get_args(Table)
BATCH = 1000
"""Jobs that are held in memory at a time."""

SCORES: Mapping[str, str] = {
    "run_id": "string", "job_id": "string", "task_id": "string", "suite": "string", "trainer_id": "string",
    "variant": "string", "optimizer": "string", "model": "string", "seed": "int64", "outcome": "string",
    "integrity": "string", "integrity_flags": "string", "state": "string", "split": "string", "metric": "string",
    "direction": "string", "value": "float64", "examples": "int64", "failed_examples": "int64",
}  # fmt: skip
"""Columns of the table ``scores`` and their types, as Arrow calls them."""
_ARROW = {"int64": "int64", "Int64": "int64", "float64": "float64", "bool": "bool", "boolean": "bool"}
_OBJECTS = {"accepted": "bool"}
"""Columns whose values are not texts, although a frame, in which they may be missing, has objects there."""

Row = dict[str, Any]
Batches = Iterator[list[Row]]


def scores_of(run: RunLayout, row: Results) -> list[Row]:
    """Official scores of one job, a row for each state (``initial``, ``final``, ``best``), split and metric that has a
    value, natural units. `metric` ``score`` is what states are compared by.

    Splits are ``train``, ``validate`` and ``test`` where the job's ``result.json`` is there, with the number of
    `examples` that the value is the mean of, and those of them that the candidate failed on. Of a job without it, or
    whose record does not fit its row, only the row is used: ``selection`` is validation data, or training data of a
    task without any, and the numbers of examples are missing.
    """
    from trace_bench.analysis.frames import outcome_of, row_scores

    who: Row = {name: getattr(row, name, None) for name in SCORES}
    who |= {"optimizer": row.resolved_optimizer, "outcome": outcome_of(row), "direction": row.score_direction}
    meta, result = _evidence(run, row)
    if meta is not None and result is not None:
        return [{**who, **found} for found in (*_from_result(meta, result), *_gaps(row, result))]
    return [{**who, **found} for found in row_scores(row)]


def write_csv_table(path: Path, columns: Mapping[str, str], batches: Batches) -> int:
    """Replace `path`; returns the number of rows. Cells are as in ``results.csv``."""
    count = 0

    def pieces() -> Iterator[bytes]:
        nonlocal count
        yield _csv([list(columns)])
        for batch in batches:
            count += len(batch)
            yield _csv([[csv_cell(_plain(row.get(name))) for name in columns] for row in batch])

    write_pieces(path, pieces())
    return count


def write_parquet_table(path: Path, columns: Mapping[str, str], batches: Batches) -> int:
    """Replace `path`; returns the number of rows. Equal rows give equal bytes under one version of pyarrow."""
    import pyarrow
    import pyarrow.parquet

    fields = [pyarrow.field(name, pyarrow.type_for_alias(kind)) for name, kind in columns.items()]
    schema = pyarrow.schema(fields, metadata={"trace_bench": __version__})
    texts = [name for name, kind in columns.items() if kind == "string"]
    make_folders(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    count = 0
    try:
        with pyarrow.parquet.ParquetWriter(str(temporary), schema, use_dictionary=texts) as writer:
            for batch in batches:
                arrays = [pyarrow.array([arrow_value(row.get(name)) for row in batch], type=schema.field(name).type)
                          for name in columns]  # fmt: skip
                writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
                count += len(batch)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def table(run: RunLayout, rows: Sequence[Results], name: Table) -> tuple[Mapping[str, str], Batches]:
    """Columns with their types, and the rows, of the table `name` of the jobs `rows`.

    Raises:
        HarnessError: while the rows are taken: a line that is not the last one of its file is damaged.
    """
    if name == "scores":
        return SCORES, ([line for row in part for line in scores_of(run, row)] for part in _parts(rows))
    from trace_bench.analysis import frames

    if name == "jobs":
        frame = frames.jobs_frame(rows)
        return _types(frame), iter([_records(frame)])
    make: Callable[[Sequence[Results]], Any] = partial(
        frames.steps_frame if name == "steps" else frames.calls_frame, run
    )
    return _types(make([])), (_records(make(part)) for part in _parts(rows))


# ---------------------------------------------------------------------------------------------------------- scores


def _evidence(run: RunLayout, row: Results) -> tuple[JobMeta | None, WorkerResult | None]:
    if row.status == "skipped":
        return None, None
    job = run.job(row.job_id)
    try:
        meta = read_meta(job)
        if meta is None or meta.fingerprint != row.fingerprint or meta.status != row.status:
            return None, None
        result = last_result(job, meta)
    except HarnessError:
        return None, None
    if result is None or is_withheld(meta.failure or result.failure, meta.integrity_report):
        return None, None
    return meta, result


def _from_result(meta: JobMeta, result: WorkerResult) -> Iterator[Row]:
    for state in ("initial", "final", "best"):
        scores: StateScores | None = getattr(result.scores, state)
        if scores is None:
            continue
        for split, mean in (("train", scores.train), ("validate", scores.validate_), ("test", scores.test)):
            examples = [example for example in scores.examples if example.split == split]
            counts = {"examples": len(examples), "failed_examples": sum(example.failed for example in examples)}
            values: dict[str, float | None] = {SCORE: mean}
            found = scores.metrics.get(split, {})  # type: ignore[call-overload]
            values |= {
                name: found[name] for name in meta.objective.metrics if name in found and name not in (SCORE, GAP)
            }
            for metric, value in values.items():
                if value is not None:
                    declared = meta.objective.metrics.get(metric)
                    direction = declared.direction if declared and metric != SCORE else meta.score_direction
                    yield {"state": state, "split": split, "metric": metric, "direction": direction, "value": value,
                           **counts}  # fmt: skip


def _gaps(row: Results, result: WorkerResult) -> Iterator[Row]:
    """The gaps of a job, which are in its row alone."""
    for state, split, metrics in (
        ("initial", None, row.metrics_initial), ("final", None, row.metrics_final), ("best", None, row.metrics_best),
        ("best", "test", row.metrics_test),
    ):  # fmt: skip
        scores: StateScores | None = getattr(result.scores, state)
        if GAP in metrics and scores is not None:
            examples = [example for example in scores.examples if example.split == (split or scores.selection_split)]
            yield {"state": state, "split": split or scores.selection_split, "metric": GAP, "direction": "maximize",
                   "value": metrics[GAP], "examples": len(examples),
                   "failed_examples": sum(example.failed for example in examples)}  # fmt: skip


# --------------------------------------------------------------------------------------------------------- writing


def _parts(rows: Sequence[Results]) -> Iterator[Sequence[Results]]:
    return (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))


def _types(frame: Any) -> dict[str, str]:
    types = {str(name): _ARROW.get(str(kind), "string") for name, kind in frame.dtypes.items()}
    return {name: _OBJECTS.get(name, kind) for name, kind in types.items()}


def _records(frame: Any) -> list[Row]:
    """The rows of a frame with None for what is missing."""
    columns = {str(name): _nulled(frame[name]) for name in frame.columns}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _nulled(series: Any) -> list[Any]:
    values = series.tolist()
    if str(series.dtype) in ("float64", "Int64"):
        return [None if missing else value for value, missing in zip(values, series.isna(), strict=True)]
    return values  # type: ignore[no-any-return]


def _csv(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv_writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def _plain(value: Any) -> Any:
    """`value` as a cell takes it: words as they are, mappings and lists as JSON."""
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, str) else value
