"""Tables in long form say what the files of the jobs say, with types, and without formulas."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest

from tests.analysis.folders import job_id, make_job, make_run, row
from trace_bench.analysis import long_form
from trace_bench.analysis.frames import jobs_frame
from trace_bench.analysis.long_form import TABLES, scores_of, table, write_csv_table, write_parquet_table
from trace_bench.artifacts.layout import RESULT, RunLayout
from trace_bench.artifacts.records import Results
from trace_bench.records.reading import read_row, read_rows


def read(run: RunLayout, name: str, tmp_path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table as parquet and as CSV."""
    rows = read_rows(run)
    for write, path in ((write_parquet_table, tmp_path / "t.parquet"), (write_csv_table, tmp_path / "t.csv")):
        columns, batches = table(run, rows, name)  # type: ignore[arg-type]
        count = write(path, columns, batches)
    frame = pd.read_parquet(tmp_path / "t.parquet")
    assert list(frame.columns) == list(columns) and len(frame) == count
    return frame, pd.read_csv(tmp_path / "t.csv", float_precision="round_trip", keep_default_na=False, na_values=[""])


def test_scores_have_the_true_names_of_splits_and_how_many_examples(recorded: RunLayout, tmp_path: Path) -> None:
    frame, text = read(recorded, "scores", tmp_path)
    jobs = jobs_frame(read_rows(recorded)).set_index("job_id")
    of_score = frame[frame["metric"] == "score"].set_index(["job_id", "state", "split"])["value"]
    for job, found in jobs.iterrows():
        selection = "validate" if (job, "best", "validate") in of_score.index else "train"
        for state in ("initial", "final", "best"):
            assert of_score[job, state, selection] == found[f"score_{state}"]
    knapsack = frame[(frame["task_id"] == "llm4ad:optimization/knapsack_construct") & (frame["state"] == "best")]
    assert set(knapsack["split"]) == {"validate", "test"} and set(knapsack["metric"]) == {"score", "normalised", "gap"}
    assert (knapsack["examples"] > 1).all() and (knapsack["failed_examples"] == 0).all()
    held_out = knapsack[(knapsack["split"] == "test") & (knapsack["metric"] == "normalised")].set_index("job_id")[
        "value"
    ]
    assert (held_out == jobs.loc[held_out.index, "metric_test:normalised"]).all()
    convex = frame[frame["task_id"] == "internal:multiobjective_convex"]
    assert set(convex["direction"]) == {"minimize"} and set(convex["metric"]) == {"score", "base_loss", "reg_loss"}
    pd.testing.assert_frame_equal(text.fillna(""), frame.fillna(""), check_dtype=False)


@pytest.mark.parametrize("name", [name for name in TABLES if name != "scores"])
def test_every_table_is_the_same_in_parquet_and_csv(recorded: RunLayout, tmp_path: Path, name: str) -> None:
    frame, text = read(recorded, name, tmp_path)
    assert len(frame) == len(text) == {"jobs": 18, "steps": 26, "calls": 40}[name]
    for column in frame.select_dtypes("number"):
        assert frame[column].fillna(-1).tolist() == text[column].fillna(-1).tolist()
    types = pyarrow.parquet.read_schema(tmp_path / "t.parquet")
    expected = {"jobs": {"seed": "int64", "score_best": "double", "stub_inert": "bool", "eval_kwargs": "string"},
                "steps": {"accepted": "bool", "line": "int64", "score": "double", "parents": "string"},
                "calls": {"reused_from": "int64", "inert": "bool", "latency": "double"}}[name]  # fmt: skip
    assert {column: str(types.field(column).type) for column in expected} == expected


def test_a_part_at_a_time_gives_the_same_table(
    recorded: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = read(recorded, "scores", tmp_path)
    monkeypatch.setattr(long_form, "BATCH", 5)
    parts, _ = read(recorded, "scores", tmp_path)
    pd.testing.assert_frame_equal(whole, parts)
    assert pyarrow.parquet.ParquetFile(tmp_path / "t.parquet").num_row_groups == 4


def test_equal_rows_give_equal_bytes(recorded: RunLayout, tmp_path: Path) -> None:
    read(recorded, "scores", tmp_path)
    first = (tmp_path / "t.parquet").read_bytes()
    read(recorded, "scores", tmp_path)
    assert (tmp_path / "t.parquet").read_bytes() == first


@pytest.fixture
def made(tmp_path: Path) -> RunLayout:
    nothing = dict.fromkeys(("score_initial", "score_final", "score_best", "score_test"))
    failed = row(1, status="failed", failure_boundary="task", failure_kind="x", **nothing)
    run = make_run(tmp_path / "runs", rows=[row(0, score_test=1.5, metrics_best={"cost": 2.0}), failed], planned=3)
    make_job(run, 0)
    return run


def one(run: RunLayout, number: int) -> Results:
    return read_row(run.job(job_id(number)).results)


def test_a_job_without_its_result_has_what_its_row_says(made: RunLayout) -> None:
    (made.job(job_id(0)).attempt_out(1) / RESULT).unlink()
    found = scores_of(made, one(made, 0))
    assert {line["split"] for line in found} == {"selection", "test"}
    assert {line["metric"]: line["direction"] for line in found} == {"score": "maximize", "cost": None}
    assert all(line.get("examples") is None for line in found)
    assert scores_of(made, one(made, 1)) == []


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"status": 1}'])
def test_a_damaged_result_does_not_stop_an_export(made: RunLayout, data: bytes) -> None:
    (made.job(job_id(0)).attempt_out(1) / RESULT).write_bytes(data)
    assert {line["split"] for line in scores_of(made, one(made, 0))} == {"selection", "test"}


def test_an_empty_run_has_all_columns(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", started=None)
    for name in TABLES:
        columns, batches = table(run, [], name)  # type: ignore[arg-type]
        assert write_parquet_table(tmp_path / "t.parquet", columns, batches) == 0
        assert pyarrow.parquet.read_schema(tmp_path / "t.parquet").names == list(columns)


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", rows=[row(0, trainer_id="=cmd()", feedback="a\nb", variant="@x")], planned=1)
    columns, batches = table(run, read_rows(run), "jobs")
    write_csv_table(tmp_path / "t.csv", columns, batches)
    with (tmp_path / "t.csv").open() as file:
        (found,) = csv.DictReader(file)
    assert (found["trainer_id"], found["variant"], found["feedback"]) == ("'=cmd()", "'@x", "a\\nb")
