"""Tasks of data sets that were not fetched: their fixture in mode stub, and no job with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli
from tests.suites.hf.made_rows import gsm8k
from trace_bench.config import parse_config
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.matrix import expand
from trace_bench.planning.completion import complete_config

MISSING = (
    "hf:gsm8k: its data set has not been fetched; run: trace-bench data fetch hf:gsm8k (or set eval_kwargs fixture: "
    "true for the few rows that come with the program)"
)
REAL = {"mode": "real", "llm": {"model": "openai/m"}}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def config(*tasks: Any, **more: Any) -> RunConfig:
    data = {"tasks": list(tasks) or ["hf:gsm8k"], "trainers": ["NoOp"], "seeds": [1], **more}
    return parse_config(data, {}, file="c")


def fixtures(completed: RunConfig) -> list[Any]:
    return [task.eval_kwargs.get("fixture") for task in completed.tasks]


def fetched(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir(exist_ok=True)
    for split, first in (("train", 0), ("test", 500)):
        (copy / f"{split}.parquet").write_bytes(gsm8k(*range(first, first + 300)))
    done = cli("data", "fetch", "hf:gsm8k", "--from", str(copy))
    assert done.returncode == 0, done.stderr


def test_in_mode_stub_the_fixture_takes_the_place_of_what_was_not_fetched(tmp_path: Path) -> None:
    given = config("hf:gsm8k", "internal:code_param", "hf:bbeh")
    completed = complete_config(given).config
    assert fixtures(completed) == [True, None, *[True] * 23]
    said = [text for text in completed.warnings if "fixture" in text]
    assert len(said) == 1 and said[0].startswith("hf:gsm8k, hf:bbeh/boardgame_qa, hf:bbeh/boolean_expressions and 21")
    assert [entry["eval_kwargs"] for entry in completed.to_snapshot()["tasks"]][:2] == [{"fixture": True}, {}]
    resolved = resolve(completed)
    jobs = expand(completed, resolved.tasks, resolved.trainers)
    assert jobs[0].eval_kwargs["fixture"] is True
    assert {name.rpartition("/")[2] for name, _ in resolved.tasks["hf:gsm8k"].data} == {"fixture.jsonl"}
    fetched(tmp_path)
    completed = complete_config(config()).config
    assert fixtures(completed) == [None] and not completed.warnings
    resolved = resolve(completed)
    (job,) = expand(completed, resolved.tasks, resolved.trainers)
    assert job.eval_kwargs["fixture"] is False and job.job_id != jobs[0].job_id
    assert "data/train/rows.jsonl" in dict(resolved.tasks["hf:gsm8k"].data)


def test_with_a_model_the_jobs_of_what_was_not_fetched_cannot_run(tmp_path: Path) -> None:
    complete = complete_config(
        config("hf:gsm8k", "hf:qasc", {"id": "hf:drop", "eval_kwargs": {"fixture": True}}, **REAL)
    )
    missing = resolve(complete.config, complete.catalog).lost
    first, second = missing.values()
    assert str(first) == MISSING and str(second).startswith("hf:qasc: its data set")
    assert list(missing) == ["hf:gsm8k", "hf:qasc"]
    everywhere = config("hf:gsm8k", "hf:qasc", eval_kwargs={"fixture": True}, **REAL)
    assert complete_config(everywhere).config.tasks == everywhere.tasks
    asked = complete_config(config({"id": "hf:gsm8k", "eval_kwargs": {"fixture": False}}))
    assert list(resolve(asked.config, asked.catalog).lost) == ["hf:gsm8k"]
    fetched(tmp_path)
    assert fixtures(complete_config(config(**REAL)).config) == [None]


def test_a_task_on_its_fixture_does_not_depend_on_what_was_fetched(tmp_path: Path) -> None:
    given = config({"id": "hf:gsm8k", "eval_kwargs": {"fixture": True}})
    before = resolve(complete_config(given).config).tasks["hf:gsm8k"].content_hash
    fetched(tmp_path)
    assert resolve(complete_config(given).config).tasks["hf:gsm8k"].content_hash == before
    assert resolve(complete_config(config()).config).tasks["hf:gsm8k"].content_hash != before


def test_where_data_are_damaged_the_jobs_on_them_cannot_run_and_doctor_says_so(tmp_path: Path, home: Path) -> None:
    def data_line() -> str:
        return next(line for line in cli("doctor", "--backend", "local").stdout.splitlines() if " data " in line)

    assert "none fetched" in data_line()
    fetched(tmp_path)
    assert data_line().startswith("ok") and "openai/gsm8k main" in data_line()
    for path in (home / "data" / "hf" / "objects").iterdir():
        path.write_bytes(b"")
    assert data_line().startswith("MISSING") and "openai/gsm8k main damaged" in data_line()
    damaged = (
        "hf:gsm8k: its data set is damaged; run: trace-bench data fetch hf:gsm8k (openai/gsm8k main, split train: "
    )
    path = tmp_path / "c.yaml"
    path.write_text("tasks: ['hf:gsm8k', 'internal:code_param']\ntrainers: [NoOp]\nseeds: [1]\nbackend: local\n")
    alone = cli("run", "-t", "hf:gsm8k", "-T", "NoOp", "--backend", "local", "--runs-dir", str(tmp_path / "alone"))
    assert (alone.returncode, alone.stdout) == (2, ""), alone.stderr
    (line,) = alone.stderr.splitlines()
    assert damaged in line and line.endswith(" is gone or has changed)")
    done = cli("run", str(path), "--runs-dir", str(tmp_path / "runs"))
    assert done.returncode == 1, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    shown = cli("show", str(run)).stdout
    assert "internal:code_param" in shown and damaged in shown
    fetched(tmp_path)
    assert cli("run", str(path), "--runs-dir", str(tmp_path / "runs")).returncode == 0
    assert "skipped" not in cli("show", str(run)).stdout


def test_a_run_says_that_it_took_the_fixture_and_a_replay_takes_it_again(tmp_path: Path) -> None:
    token = "hf_" + "SecretOfTheHost" * 2
    path = tmp_path / "c.yaml"
    path.write_text(
        "tasks: [{id: 'hf:gsm8k', eval_kwargs: {num_train: 2, num_validate: 2, num_test: 1}}]\n"
        "trainers: [NoOp]\nseeds: [1]\n"
    )
    runs = tmp_path / "runs"
    done = cli("run", str(path), "--backend", "local", "--runs-dir", str(runs), HF_TOKEN=token)
    assert done.returncode == 0, done.stderr
    assert "warning: hf:gsm8k: the data set has not been fetched" in done.stderr
    assert "hf:gsm8k (fixture)" in done.stdout
    assert all(token.encode() not in file.read_bytes() for file in runs.rglob("*") if file.is_file())
    (run,) = runs.iterdir()
    assert "fixture: true" in (run / "meta" / "config.snapshot.yaml").read_text()
    fetched(tmp_path)
    small = {"id": "hf:gsm8k", "eval_kwargs": {"num_train": 2, "num_validate": 2, "num_test": 1}}
    again = complete_config(config(small, mode="replay", replay_from=str(run)))
    assert fixtures(again.config) == [True] and not again.config.warnings
    replayed = cli("run", str(path), "--replay", str(run), "--backend", "local", "--runs-dir", str(tmp_path / "again"))
    assert replayed.returncode == 0, replayed.stderr
