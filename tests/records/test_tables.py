"""Tables are derived from files, and only from files."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.artifacts.samples import ENTRY, HASH, RESULTS, TIME
from tests.tables import refresh_tables
from trace_bench.analysis.leaderboard_table import leaderboard_lines
from trace_bench.artifacts import schema
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import OTHER_NAMES, Results
from trace_bench.artifacts.writers import write_json
from trace_bench.errors import HarnessError
from trace_bench.records import reading
from trace_bench.records import tables as tables_module
from trace_bench.records.leaderboard import LeaderboardRow, rank
from trace_bench.records.parquet import write_parquet
from trace_bench.records.reading import read_rows
from trace_bench.records.rows import FIELDS
from trace_bench.records.tables import COLUMNS, LiveTables, write_files_index

FIRST_COLUMNS = (
    "run_id,job_id,task_id,suite,trainer_id,variant,seed,status,failure_kind,stop_reason,integrity,score_initial,"
    "score_final,score_best,score_test,score_direction,time_seconds,evaluations,llm_calls,prompt_tokens,"
    "completion_tokens,total_tokens,cost_usd"
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunLayout]:
    yield RunLayout(tmp_path / "20260102-030405-0123abcd").make()


def results(job_id: str = "0123456789ab", **change: Any) -> Results:
    return Results.model_validate({**RESULTS, "job_id": job_id, **change})


def put(run: RunLayout, *rows: Results) -> None:
    for row in rows:
        write_json(run.job(row.job_id).make().results, row)


def put_manifest(run: RunLayout, *entries: dict[str, Any]) -> None:
    jobs = [{**ENTRY, **entry} for entry in entries]
    write_json(run.manifest, {"run_id": "r", "config_hash": HASH, "generated_at": TIME, "tags": ["demo"], "jobs": jobs})


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def table_files(run: RunLayout) -> dict[str, Any]:
    """The tables, but for the time at which the summary was made."""
    summary = json.loads(run.summary.read_text())
    assert summary.pop("generated_at")
    return {"csv": run.results_csv.read_bytes(), "leaderboard": run.leaderboard.read_bytes(), "summary": summary}


def test_the_columns_are_in_the_documented_order() -> None:
    assert ",".join(COLUMNS).startswith(FIRST_COLUMNS + ",resolved_optimizer,")


def test_a_rerun_replaces_its_row(run: RunLayout) -> None:
    for score in (1.0, 2.0):
        put(run, results(score_best=score))
        refresh_tables(run)
        [row] = read_csv(run.results_csv)
        assert float(row["score_best"]) == score


def test_rows_follow_the_manifest(run: RunLayout) -> None:
    put(run, results("aaaaaaaaaaaa"), results("bbbbbbbbbbbb"), results("cccccccccccc"))
    assert [row.job_id[0] for row in read_rows(run)] == ["a", "b", "c"]
    put_manifest(run, {"job_id": "cccccccccccc"}, {"job_id": "aaaaaaaaaaaa"}, {"job_id": "bbbbbbbbbbbb"})
    assert [row.job_id[0] for row in read_rows(run)] == ["c", "a", "b"]


def test_tables_are_rebuilt_from_files_alone(run: RunLayout) -> None:
    put(run, results(score_best=0.5, feedback="line one\nline two", eval_kwargs={"n": [1, 2]}))
    refresh_tables(run)
    before = {path.name: path.read_bytes() for path in (run.results_csv, run.leaderboard)}
    for name in before:
        (run.root / name).unlink()
    refresh_tables(run)
    assert {name: (run.root / name).read_bytes() for name in before} == before
    [row] = read_csv(run.results_csv)
    assert row["feedback"] == "line one\\nline two"
    assert json.loads(row["eval_kwargs"]) == {"n": [1, 2]}
    assert len(run.results_csv.read_text().splitlines()) == 2


def test_a_reader_reads_only_rows_that_changed(run: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []
    original = reading.read_row

    def read_row(path: Path) -> Results:
        reads.append(path)
        return original(path)

    monkeypatch.setattr("trace_bench.records.reading.read_row", read_row)
    put(run, results("aaaaaaaaaaaa"), results("bbbbbbbbbbbb"))
    rows = reading.RowReader(run)
    rows.rows()
    put(run, results("bbbbbbbbbbbb", score_best=9.0))
    assert [row.score_best for row in rows.rows()] == [None, 9.0]
    assert [path.parent.name[0] for path in reads] == ["a", "b", "b"]


def test_live_tables_are_throttled_and_follow_the_plan(run: RunLayout) -> None:
    tables = LiveTables(run, ["bbbbbbbbbbbb", "aaaaaaaaaaaa", "cccccccccccc"], ["demo"], min_interval=3600)
    tables.put(results("aaaaaaaaaaaa"))
    assert tables.maybe_write()
    tables.put(results("bbbbbbbbbbbb"))
    assert not tables.maybe_write()
    assert [row["job_id"][0] for row in read_csv(run.results_csv)] == ["a"]
    assert json.loads(run.summary.read_text())["counts"] == {
        "ok": 1,
        "failed": 0,
        "interrupted": 0,
        "skipped": 0,
        "pending": 2,
    }
    tables.write()
    assert [row["job_id"][0] for row in read_csv(run.results_csv)] == ["b", "a"]


def test_live_tables_are_what_the_files_give(run: RunLayout) -> None:
    rows = [results("bbbbbbbbbbbb", score_best=1.5), results("aaaaaaaaaaaa", status="failed", failure_kind="oom")]
    put(run, *rows)
    put_manifest(run, {"job_id": "bbbbbbbbbbbb"}, {"job_id": "aaaaaaaaaaaa"}, {"job_id": "cccccccccccc"})
    live = LiveTables(run, ["bbbbbbbbbbbb", "aaaaaaaaaaaa", "cccccccccccc"], ["demo"])
    for row in reversed(rows):
        live.put(row)
    live.write()
    wrote = table_files(run)
    refresh_tables(run)
    assert table_files(run) == wrote


def test_live_tables_make_the_line_of_a_row_once(run: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    inner = tables_module._line_of
    monkeypatch.setattr(tables_module, "_line_of", lambda row: (made.append(row.job_id[0]), inner(row))[1])
    live = LiveTables(run, ["aaaaaaaaaaaa", "bbbbbbbbbbbb"])
    live.put(results("aaaaaaaaaaaa", metrics_best={"gap": 0.5}))
    live.write()
    live.put(results("bbbbbbbbbbbb", task_id='internal:"quoted", and more'))
    live.write()
    live.put(results("bbbbbbbbbbbb", score_best=3.0))
    live.write()
    assert made == ["a", "b", "b"]
    found = read_csv(run.results_csv)
    assert [(row["score_best"], row["metric_best:gap"]) for row in found] == [("", "0.5"), ("3.0", "")]


def test_writing_live_tables_takes_a_hundredth_of_the_time(run: RunLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]

    def slow(*_: Any, **__: Any) -> None:
        now[0] += 1.0

    monkeypatch.setattr(tables_module, "write_tables", slow)
    monkeypatch.setattr(tables_module.time, "monotonic", lambda: now[0])
    live = LiveTables(run, [])
    wrote = 0
    while now[0] < 1000.0 + 1000.0:
        wrote += live.maybe_write()
        now[0] += 0.5
    assert wrote == 10


def test_a_damaged_row_is_named(run: RunLayout) -> None:
    job = run.job("0123456789ab").make()
    job.results.write_text('{"run_id": 1}')
    with pytest.raises(HarnessError, match=r"results\.json: \$\.run_id: .* run the job again"):
        refresh_tables(run)
    write_json(job.results, results("aaaaaaaaaaaa"))
    with pytest.raises(HarnessError, match="belongs to job aaaaaaaaaaaa"):
        refresh_tables(run)
    put(run, results())
    run.manifest.write_text("{")
    with pytest.raises(HarnessError, match=r"manifest\.json: it is not JSON"):
        refresh_tables(run)


def test_the_summary_counts_every_job_of_the_manifest(run: RunLayout) -> None:
    put(
        run,
        results("aaaaaaaaaaaa", prompt_tokens=3, completion_tokens=4, llm_calls=1),
        results("bbbbbbbbbbbb", status="failed", failure_kind="oom", failure_boundary="sandbox"),
        results("cccccccccccc", integrity="unprotected", cost_usd=0.5),
        results("ffffffffffff", stop_reason="interrupted"),
        results("111111111111", status="failed", stop_reason="interrupted", failure_kind="interrupted",
                failure_boundary="harness"),
    )  # fmt: skip
    put_manifest(
        run,
        {"job_id": "aaaaaaaaaaaa", "status": "ok"},
        {"job_id": "bbbbbbbbbbbb"},
        {"job_id": "cccccccccccc", "decision": "reuse", "status": "ok"},
        {"job_id": "dddddddddddd"},
        {"job_id": "eeeeeeeeeeee", "status": "not_executed", "reason": "fail_fast: job bbbbbbbbbbbb failed"},
        {"job_id": "ffffffffffff", "status": "ok"},
        {"job_id": "111111111111", "status": "failed"},
    )
    refresh_tables(run)
    summary = json.loads(run.summary.read_text())
    schema.validate("summary", summary)
    assert summary["counts"] == {"ok": 2, "failed": 1, "interrupted": 2, "skipped": 1, "pending": 1}
    assert summary["total_jobs"] == 7 == sum(summary["counts"].values())
    assert summary["failures"] == {"sandbox:oom": 1}
    assert summary["token_totals"] == {"prompt": 3, "completion": 4, "cached": 0, "reasoning": 0, "total": 7}
    assert (summary["unprotected_jobs"], summary["cost_usd"], summary["tags"]) == (1, 0.5, ["demo"])


def test_a_job_that_was_not_executed_has_a_row_that_says_so(run: RunLayout) -> None:
    put(run, results("bbbbbbbbbbbb"))
    put_manifest(
        run,
        {"job_id": "aaaaaaaaaaaa", "seed": 3, "status": "not_executed", "reason": "cancelled"},
        {"job_id": "bbbbbbbbbbbb", "status": "not_executed"},
        {"job_id": "cccccccccccc"},
    )
    first, second = refresh_tables(run)
    assert (first.job_id[0], first.seed, first.status, first.failure_kind) == ("a", 3, "skipped", "not_executed")
    assert (first.feedback, first.failure_boundary, first.score_best) == ("cancelled", None, None)
    assert second.status == "ok", "what a job left counts, whatever the manifest says"


@pytest.mark.parametrize(("status", "shown"), [("not_executed", ["skipped", "ok"]), (None, ["ok"])])
def test_a_result_of_another_fingerprint_does_not_count(run: RunLayout, status: str | None, shown: list[str]) -> None:
    put(run, results("aaaaaaaaaaaa", fingerprint="1" * 64), results("bbbbbbbbbbbb"))
    put_manifest(run, {"job_id": "aaaaaaaaaaaa", "status": status}, {"job_id": "bbbbbbbbbbbb"})
    assert [row.status for row in refresh_tables(run)] == shown
    assert [row["status"] for row in read_csv(run.results_csv)] == shown
    assert "aaaaaaaaaaaa" not in run.leaderboard.read_text()
    counts = json.loads(run.summary.read_text())["counts"]
    assert {name: n for name, n in counts.items() if n} == {"ok": 1, "skipped" if status else "pending": 1}


def test_the_tables_of_an_earlier_run_have_the_columns_that_they_had(run: RunLayout) -> None:
    row = {**RESULTS}
    later = ("evaluations_saved", "search_answers", "unusable_answers", "scoring_calls")
    for name in later:
        del row[name]
    write_json(run.job(row["job_id"]).make().results, row)
    refresh_tables(run)
    assert list(read_csv(run.results_csv)[0]) == list(FIELDS) == [c for c in COLUMNS if c not in later]
    put(run, results("1" * 12, evaluations_saved=4))
    refresh_tables(run)
    assert {line["job_id"]: line["evaluations_saved"] for line in read_csv(run.results_csv)} == {
        row["job_id"]: "", "1" * 12: "4",
    }  # fmt: skip


def test_scores_have_the_names_of_the_prototype_too(run: RunLayout) -> None:
    put(run, results("aaaaaaaaaaaa", score_initial=0.25, score_final=-1e-9, score_best=0.1 + 0.2))
    put(run, results("bbbbbbbbbbbb", score_initial=None, score_final=None, score_best=None, metrics_best={"m": 1.0}))
    refresh_tables(run)
    found = read_csv(run.results_csv)
    assert list(found[0])[-4:] == ["metric_best:m", "score_val_initial", "score_val_final", "score_val"]
    for row in found:
        assert [row[other] for other in OTHER_NAMES] == [row[name] for name in OTHER_NAMES.values()]
    assert {row["score_val"] for row in found} == {"0.30000000000000004", ""}


def test_an_empty_run_has_tables_with_headers(run: RunLayout) -> None:
    refresh_tables(run)
    assert run.results_csv.read_text() == ",".join((*FIELDS, *OTHER_NAMES)) + "\n"
    assert run.leaderboard.read_text() == ",".join(c for c in LeaderboardRow.columns() if c != "fixture") + "\n"
    assert json.loads(run.summary.read_text())["total_jobs"] == 0


def ranked(*rows: Results, **options: bool) -> list[tuple[str, int, str]]:
    return [(row.task_id, row.rank, row.trainer_id) for row in rank(rows, **options)]


def test_the_leaderboard_ranks_within_a_task_and_in_its_direction() -> None:
    up = {"task_id": "internal:up", "score_direction": "maximize"}
    down = {"task_id": "internal:down", "score_direction": "minimize"}
    got = ranked(
        results(trainer_id="A", score_best=1.0, **up),
        results(trainer_id="B", score_best=2.0, **up),
        results(trainer_id="A", score_best=1.0, **down),
        results(trainer_id="B", score_best=2.0, **down),
    )
    assert got == [
        ("internal:down", 1, "A"),
        ("internal:down", 2, "B"),
        ("internal:up", 1, "B"),
        ("internal:up", 2, "A"),
    ]


def test_a_lucky_seed_does_not_lead() -> None:
    lucky = [results(f"{i:012x}", trainer_id="lucky", seed=i, score_best=s) for i, s in enumerate((10.0, 0.0, 0.0))]
    steady = [results(f"{i + 9:012x}", trainer_id="steady", seed=i, score_best=5.0) for i in range(3)]
    first, second = rank([*lucky, *steady])
    assert (first.trainer_id, first.score_mean, first.score_std, first.jobs) == ("steady", 5.0, 0.0, 3)
    assert (second.score_best, second.best_job_id) == (10.0, "000000000000")


def test_equal_means_share_a_rank() -> None:
    rows = [results(f"{i:012x}", trainer_id=t, score_best=s) for i, (t, s) in enumerate([("A", 1), ("B", 1), ("C", 0)])]
    assert [row.rank for row in rank(rows)] == [1, 1, 3]


def test_failed_and_unprotected_jobs_stay_out_unless_asked_for() -> None:
    rows = [
        results("aaaaaaaaaaaa", trainer_id="A", score_best=1.0),
        results("bbbbbbbbbbbb", trainer_id="B", score_best=9.0, integrity="unprotected"),
        results("cccccccccccc", trainer_id="C", score_best=9.5, status="failed"),
        results("dddddddddddd", trainer_id="D", score_best=None),
        results("eeeeeeeeeeee", trainer_id="E", status="skipped", score_best=9.9),
    ]
    assert [t for _, _, t in ranked(*rows)] == ["A"]
    assert [t for _, _, t in ranked(*rows, unprotected=True)] == ["B", "A"]
    assert [t for _, _, t in ranked(*rows, unprotected=True, failed=True)] == ["C", "B", "A"]


def test_tasks_with_other_arguments_are_not_compared() -> None:
    rows = rank([
        results("aaaaaaaaaaaa", score_best=1.0, eval_kwargs={"n": 10}),
        results("bbbbbbbbbbbb", score_best=2.0, eval_kwargs={"n": 20}),
    ])  # fmt: skip
    assert [(row.rank, row.jobs) for row in rows] == [(1, 1), (1, 1)]


def test_guides_are_not_averaged_with_each_other() -> None:
    judge = {"resolved_guide": "LLMJudge"}
    rows = [
        results("aaaaaaaaaaaa", score_best=1.0),
        results("bbbbbbbbbbbb", score_best=3.0, seed=1, **judge),
        results("cccccccccccc", score_best=3.0, seed=2, **judge),
        results("dddddddddddd", score_best=2.0, resolved_guide_kwargs={"strict": True}, **judge),
    ]
    found = [(row.guide, row.jobs, row.score_mean) for row in rank(rows)]
    assert found == [("LLMJudge", 2, 3.0), ("LLMJudge", 1, 2.0), (rows[0].resolved_guide, 1, 1.0)]


def test_a_test_score_is_given_only_if_every_seed_has_one() -> None:
    rows = [results("aaaaaaaaaaaa", score_best=1.0, score_test=3.0), results("bbbbbbbbbbbb", seed=2, score_best=1.0)]
    assert rank(rows[:1])[0].score_test == 3.0
    assert rank(rows)[0].score_test is None


def test_every_file_is_indexed_with_its_hash_and_schema(run: RunLayout, tmp_path: Path) -> None:
    put(run, results(score_best=1.0))
    refresh_tables(run)
    job = run.job("0123456789ab")
    job.stdout.write_bytes(b"out")
    (run.root / "link").symlink_to(tmp_path)
    (run.root / ".results.csv.1.2.tmp").write_text("half")
    (job.attempts / ".out.collecting-x").mkdir()
    (job.attempts / ".out.collecting-x" / "a").write_text("half")
    index = write_files_index(run)
    again = write_files_index(run)
    assert index == again
    entries = {entry.path: entry for entry in index.files}
    folder = f"jobs/{job.job_id}"
    assert set(entries) == {
        "results.csv",
        "summary.json",
        "leaderboard.csv",
        "leaderboard.md",
        f"{folder}/results.json",
        f"{folder}/stdout.log",
    }
    stdout = entries[f"jobs/{job.job_id}/stdout.log"]
    assert (stdout.size, stdout.sha256, stdout.schema_name) == (3, hashlib.sha256(b"out").hexdigest(), None)
    assert entries[f"jobs/{job.job_id}/results.json"].schema_name == "results"
    schema.validate("files_index", json.loads(run.files_index.read_text()))


def test_metrics_have_columns_of_their_own_and_the_table_stays_rectangular(run: RunLayout) -> None:
    one = {"metrics_best": {"score": 1.0, "loss": 2.0}, "metrics_initial": {"loss": 4.0}, "hypervolume": 8.0}
    put(
        run,
        results("0" * 12, score_best=1.0, **one),
        results("1" * 12, score_best=1.0, seed=8, **{**one, "metrics_best": {"score": 1.0, "loss": 3.0}}),
        results("2" * 12, score_best=1.0, task_id="internal:other", metrics_best={"hits": 5.0}),
        results("3" * 12, score_best=1.0, task_id="internal:plain"),
    )
    rows = refresh_tables(run)
    written = read_csv(run.results_csv)
    metrics = ["metric_best:score", "metric_initial:loss", "metric_best:loss", "metric_best:hits"]
    assert list(written[0]) == [*COLUMNS, *metrics, *OTHER_NAMES]
    assert [[row[name] for name in metrics] for row in written] == [
        ["1.0", "4.0", "2.0", ""], ["1.0", "4.0", "3.0", ""], ["", "", "", "5.0"], ["", "", "", ""],
    ]  # fmt: skip
    write_parquet(run.results_parquet, rows)
    table = pyarrow.parquet.read_table(run.results_parquet)
    assert table.column_names == [*COLUMNS, *metrics] and table.column("metric_best:loss").to_pylist() == [
        2,
        3,
        None,
        None,
    ]
    board = read_csv(run.leaderboard)
    means = {row["task_id"]: (row["metric_mean:loss"], row["metric_mean:hits"], row["hypervolume"]) for row in board}
    assert means == {
        "internal:numeric_param": ("2.5", "", "8.0"), "internal:other": ("", "5.0", ""), "internal:plain": ("", "", ""),
    }  # fmt: skip


def test_a_metric_that_a_seed_lacks_has_no_mean() -> None:
    rows = [
        results(f"{i}" * 12, seed=i, score_best=1.0, metrics_best=metrics)
        for i, metrics in enumerate([{"loss": 1.0, "hits": 1.0}, {"loss": 3.0}])
    ]
    (row,) = rank(rows)
    assert row.metrics == {"loss": 2.0} and row.hypervolume is None


def test_a_leaderboard_for_people_lists_metrics_where_there_are_any() -> None:
    many = {f"m{i}": float(i) for i in range(9)}
    rows = rank([results(score_best=1.0, metrics_best=many, hypervolume=2.5)])
    told = "\n".join(leaderboard_lines(rows, several_objectives=True))
    assert "metrics of the best states, means over seeds; the first 6 of 9, all are in leaderboard.csv" in told
    assert " m5 " in told and " m6 " not in told and told.rstrip().endswith("2.5")
    assert "metrics" not in "\n".join(leaderboard_lines(rank([results(score_best=1.0)])))
