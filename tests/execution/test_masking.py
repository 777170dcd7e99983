"""What a run tells and records while it goes on holds no secret."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.execution.bench import Bench
from tests.execution.listening import Listener
from trace_bench.execution.events import JobView
from trace_bench.execution.live import JobListener
from trace_bench.secrets import known

KEY = "planted-0123456789"


@pytest.fixture(autouse=True)
def _one_key() -> Iterator[None]:
    known.add([KEY])
    yield
    known.clear()


class Heard(Listener):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def sandbox_output(self, job: JobView, phase: str, text: str) -> None:
        self.texts.append(text)

    def sandbox_event(self, job: JobView, line: Mapping[str, Any]) -> None:
        self.texts.append(json.dumps(line))

    def candidate_evaluated(self, job: JobView, line: Mapping[str, Any]) -> None:
        self.texts.append(json.dumps(line))


def test_what_a_sandbox_prints_and_reports_is_masked_also_in_pieces(tmp_path: Path) -> None:
    plan = Bench(tmp_path).plan()
    heard = Heard()
    job = plan.jobs[0]
    log = plan.layout.job(job.job_id).make().stdout

    listener = JobListener(job, plan.layout.job(job.job_id), heard, lambda job: None)
    for piece in (f"one {KEY[:7]}", f"{KEY[7:]} two {KEY}", "\n"):
        listener.log("train", piece)
    listener.log("score", KEY[7:])
    listener.event({"t": 1.0, "event": "warning", "text": f"<{KEY}>"})
    listener.history({"step": 1, "extra": {KEY: [KEY]}})
    assert "".join(heard.texts[:-2]) == f"one *** two ***\n{KEY[7:]}"
    assert [json.loads(text) for text in heard.texts[-2:]] == [
        {"t": 1.0, "event": "warning", "text": "<***>"}, {"step": 1, "extra": {"***": ["***"]}},
    ]  # fmt: skip
    assert log.read_text() == f"one *** two ***\n{KEY[7:]}"


def test_a_secret_in_the_config_is_in_no_file_of_the_run(tmp_path: Path) -> None:
    task = {"id": "internal:code_param", "eval_kwargs": {"n_strings": 4}}
    result = Bench(tmp_path).run(tasks=[task], tags=[f"<{KEY}>"], trainers=[{"id": "NoOp"}])
    assert len(result.rows) == 1
    files = [path for path in result.layout.root.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
    assert "<***>" in result.layout.manifest.read_text()


def test_the_parquet_table_is_masked_before_it_is_compressed(tmp_path: Path) -> None:
    from trace_bench.records.parquet import write_parquet

    row = Bench(tmp_path).run(trainers=[{"id": "NoOp"}]).rows[0]
    told = row.model_copy(update={"feedback": f"<{KEY}>", "eval_kwargs": {"a": KEY}})
    write_parquet(tmp_path / "t.parquet", [told])
    (line,) = pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert (line["feedback"], line["eval_kwargs"]) == ("<***>", '{"a":"***"}')
