"""A run's results as tidy pandas frames: one row per job, per evaluated candidate, per model call, per score.

Frames are made from the files of a run and never written back. Their columns and types are the same for every run,
an empty one too: what a run does not have is missing (``NaN``, ``None`` or ``pd.NA``), never absent.

`Results.score_…` are in the task's natural units; ``score_direction`` says which way is better. `sign` of a job is 1
where more is better and -1 where less is, so that ``sign * score`` is always better when it is larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.writers import read_journal
from trace_bench.records.rows import LATER, NORMALISED, is_final, metric_columns, normalised_score, was_cut
from trace_bench.records.tables import COLUMNS

SCORE = "score"
"""Name of a task's own score among its metrics."""
IDENTITY = ("run_id", "job_id", "task_id", "suite", "trainer_id", "variant", "model", "seed")
"""Columns of every frame that identify the job of a row."""
OUTCOMES = ("ok", "failed", "infrastructure", "interrupted", "skipped")
"""Outcomes of a job. ``failed`` is a failure of its own (task, trainer, candidate, limits); ``infrastructure`` one of
provider, sandbox or harness, which says nothing of a trainer; ``interrupted`` was cut off."""

_STEP = {
    "line": "int64", "step": "int64", "candidate": "object", "parents": "object", "split": "object",
    "score": "float64", "best_score": "float64", "comparable": "bool", "accepted": "object", "reason": "object",
    "seconds": "float64", "evaluations": "int64", "llm_calls": "int64", "prompt_tokens": "int64",
    "completion_tokens": "int64", "total_tokens": "int64", "cost_usd": "float64",
}  # fmt: skip
_CALL = {
    "n": "int64", "t": "object", "attempt": "int64", "phase": "object", "slot": "object", "status": "int64",
    "provider": "object", "called_model": "object", "prompt_tokens": "int64", "completion_tokens": "int64",
    "cached_tokens": "int64", "reasoning_tokens": "int64", "cost_usd": "float64", "latency": "float64",
    "tries": "int64", "inert": "bool", "estimated": "bool", "cached": "bool", "refused": "bool",
    "reused_from": "Int64",
}  # fmt: skip


def jobs_frame(rows: Sequence[Results]) -> pd.DataFrame:
    """One row per job: the columns of ``results.csv``, one for each metric of each state (``metric_best:NAME``), and

    * ``outcome``: one of `OUTCOMES`;
    * ``sign``: 1.0 or -1.0;
    * ``improvement``: ``sign * (score_best - score_initial)``, better when larger, natural units;
    * ``normalised``, ``normalised_test`` and ``normalised_initial``: `normalised_score` of the best state on the
      selection split and on held-out data, and of the initial state on the former; NaN where the task has none.
    """
    metrics = metric_columns(rows)
    records = [vars(row) for row in rows]  # several times as fast as `model_dump`; no value is a model
    frame = _frame({name: [record[name] for record in records] for name in COLUMNS})
    for name in COLUMNS:
        annotation = str(Results.model_fields[name].annotation)
        if "float" in annotation and "dict" not in annotation:
            frame[name] = pd.to_numeric(frame[name]).astype("float64")
    frame = frame.astype({name: "Int64" for name in LATER if "dict" not in str(Results.model_fields[name].annotation)})
    extra: dict[str, Any] = {
        name: pd.array([value(row) for row in rows], dtype="float64") for name, value in metrics.items()
    }
    sign = pd.Series([1.0 if row.score_direction == "maximize" else -1.0 for row in rows], dtype="float64")
    extra["outcome"] = pd.Series([outcome_of(row) for row in rows], dtype="object")
    extra["sign"] = sign
    extra["improvement"] = sign * (frame["score_best"] - frame["score_initial"])
    for name, state in ((NORMALISED, "best"), (f"{NORMALISED}_test", "test"), (f"{NORMALISED}_initial", "initial")):
        values = [normalised_score(getattr(row, f"metrics_{state}")) for row in rows]
        extra[name] = pd.Series(values, dtype="float64")
    return pd.concat([frame, pd.DataFrame(extra, index=frame.index)], axis=1)


def _frame(columns: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return the frame of `columns`. Texts are objects, and None stays None, under pandas 3 too."""
    return pd.DataFrame({
        name: pd.Series(values, dtype="object" if any(isinstance(value, str) for value in values) else None)
        for name, values in columns.items()
    })  # fmt: skip


def outcome_of(row: Results) -> str:
    """One of `OUTCOMES`. A job that the end of the run's budget cut off counts as interrupted."""
    if row.status == "skipped":
        return "skipped"
    if not is_final(row):
        infrastructure = row.failure_boundary is not None and row.failure_boundary.is_infrastructure
        return "infrastructure" if infrastructure and not was_cut(row) else "interrupted"
    return row.status


def scores_frame(rows: Sequence[Results]) -> pd.DataFrame:
    """Official scores in long form, one row per job, state, split and metric that has a value.

    Columns: `IDENTITY`, ``outcome``, ``state`` (``initial``, ``final``, ``best``), ``split`` (``selection``: validation
    data, or training data of a task without any; ``test``: held-out data), ``metric`` (``score`` is what states are
    compared by), ``direction`` of the job's score, ``value`` in natural units.
    """
    columns = [*IDENTITY, "outcome", "state", "split", "metric", "direction", "value"]
    found = [
        {
            **{name: getattr(row, name) for name in IDENTITY},
            **score,
            "outcome": outcome_of(row),
            "direction": row.score_direction,
        }
        for row in rows
        for score in row_scores(row)
    ]
    frame = _frame({name: [line[name] for line in found] for name in columns})
    return frame.astype({"seed": "int64", "value": "float64"})


def row_scores(row: Results) -> Iterator[dict[str, Any]]:
    """The scores of a job's row: state, split, metric, direction and value. Only the job's record has the direction of
    a metric other than ``score``."""
    places = (("initial", "selection", "initial"), ("final", "selection", "final"), ("best", "selection", "best"),
              ("best", "test", "test"))  # fmt: skip
    for state, split, name in places:
        metrics: Mapping[str, float] = getattr(row, f"metrics_{name}")
        values: dict[str, float | None] = {SCORE: getattr(row, f"score_{name}")}
        values |= {metric: value for metric, value in metrics.items() if metric != SCORE}
        for metric, value in values.items():
            if value is not None:
                direction = row.score_direction if metric == SCORE else None
                yield {"state": state, "split": split, "metric": metric, "direction": direction, "value": value}


def steps_frame(run: RunLayout, rows: Sequence[Results], *, parameters: bool = False) -> pd.DataFrame:
    """One row per evaluated candidate, from ``state_history.jsonl``: what training saw, and no official score.

    Columns: `IDENTITY`, ``line`` (from 1) and what `HistoryLine` says; spent calls, tokens, dollars, evaluations
    and seconds are cumulative. The unfinished last line of a job that was killed is left out.

    Args:
        parameters: the candidates themselves too, as a column of mappings.

    Raises:
        HarnessError: a line that is not the last one is damaged.
    """
    types = {**_STEP, "parameters": "object"} if parameters else _STEP
    return _lines_frame(((row, line) for row in rows for line in _steps(run, row, types)), types)


def calls_frame(run: RunLayout, rows: Sequence[Results]) -> pd.DataFrame:
    """One row per line of the cassettes, ``llm.jsonl``, without requests and answers.

    Columns: `IDENTITY` and what `LlmCall` says; ``called_model`` is the model that was called, ``tries`` the number of
    requests.

    Raises:
        HarnessError: a line that is not the last one is damaged.
    """
    return _lines_frame(((row, line) for row in rows for line in _calls(run, row)), _CALL)


def _steps(run: RunLayout, row: Results, types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(read_journal(run.job(row.job_id).state_history).lines, start=1):
        values = {name: line.get(name, _DEFAULTS.get(types[name])) for name in types}
        prompt, completion = line.get("prompt_tokens", 0), line.get("completion_tokens", 0)
        yield {**values, "line": number, "parents": tuple(line.get("parents", ())), "total_tokens": prompt + completion}


def _calls(run: RunLayout, row: Results) -> Iterator[dict[str, Any]]:
    for line in read_journal(run.job(row.job_id).cassette).lines:
        values = {name: line.get(name, _DEFAULTS.get(_CALL[name])) for name in _CALL}
        tries = line.get("tries", ())
        for name in ("prompt_tokens", "completion_tokens", "cost_usd"):  # of answers that were discarded
            values[name] += sum(made.get(name, 0) for made in tries)
        yield {**values, "called_model": line.get("model", ""), "tries": len(tries)}


_DEFAULTS: Mapping[str, Any] = {"int64": 0, "float64": 0.0, "bool": False}


def _lines_frame(lines: Iterable[tuple[Results, dict[str, Any]]], types: Mapping[str, str]) -> pd.DataFrame:
    columns: dict[str, list[Any]] = {name: [] for name in (*IDENTITY, *types)}
    for row, line in lines:
        for name in IDENTITY:
            columns[name].append(getattr(row, name))
        for name in types:
            columns[name].append(line[name])
    frame = _frame(columns)
    return frame.astype({**dict.fromkeys(IDENTITY, "object"), "seed": "int64", **types})
