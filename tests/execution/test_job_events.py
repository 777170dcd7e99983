"""What a run tells whoever looks on of its sandboxes, of what jobs cost while they run, and of its end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import Bench, journal, read
from tests.execution.listening import Listener
from tests.execution.simulated import Script
from trace_bench.artifacts.calls import Usage
from trace_bench.artifacts.writers import write_json
from trace_bench.errors import EnvironmentUnavailable, Interrupted
from trace_bench.execution import reporting
from trace_bench.planning.backends import backend_choice_of_run
from trace_bench.sandbox.base import Host

ONE = {"tasks": ["internal:numeric_param"], "trainers": ["NoOp"], "seeds": [1]}


class Told(Listener):
    def __init__(self) -> None:
        self.up_on: list[str] = []
        self.usage: list[Usage] = []

    def sandbox_up(self, job: Any, host: str) -> None:
        self.up_on.append(host)

    def usage_changed(self, job: Any, usage: Usage) -> None:
        self.usage.append(usage)


def test_a_job_is_up_once_for_each_attempt_and_says_where(bench: Bench) -> None:
    bench.backend.several = (Host("near", slots=1, memory_bytes=64 << 30),)
    bench.backend.script = lambda job_id, number: Script(ends="dies") if number == 1 else Script()
    told = Told()
    result = bench.run(told, retries=1, **ONE)
    assert result.ok and told.up_on == ["near", "near"]
    lines = journal(result.layout)
    events = [line["event"] for line in lines]
    assert events == ["run.start", "job.start", "job.up", "job.retry", "job.up", "job.end", "run.end"]
    assert {line["host"] for line in lines if line["event"] == "job.up"} == {"near"} and lines[0]["workers"] == 8
    meta = read(result.layout.job(result.rows[0].job_id).meta)
    assert (meta["host"], [attempt["host"] for attempt in meta["attempts"]]) == ("near", ["near", "near"])


def test_where_there_is_one_host_its_name_is_nobody_s_business(bench: Bench) -> None:
    told = Told()
    result = bench.run(told, **ONE)
    meta = read(result.layout.job(result.rows[0].job_id).meta)
    assert (told.up_on, meta["host"], meta["attempts"][0]["host"]) == ([""], None, None)


def test_what_a_job_has_used_is_told_while_it_runs_as_the_gateway_metered_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "USAGE_EVERY", 0.0)
    bench.backend.script = lambda job_id, number: Script(calls=3, seconds=1.6)
    told = Told()
    result = bench.run(told, **ONE)
    assert told.usage and told.usage[-1].calls == result.rows[0].llm_calls == 3
    assert len(told.usage) == len({usage.calls for usage in told.usage}), "only what is new is told"


def test_the_journal_s_last_line_says_what_ended_the_run_before_its_time(bench: Bench) -> None:
    with pytest.raises(Interrupted):
        bench.run(run_id="cut", stop_wanted=lambda: "interrupted", **ONE)
    last = journal(bench.plan(run_id="cut", **ONE).layout)[-1]
    assert (last["event"], last["exit_code"]) == ("run.end", 130) and "interrupted" in last["error"]

    def create(_: Any) -> None:
        raise EnvironmentUnavailable("no such machine")

    bench.backend.on_create = create
    with pytest.raises(EnvironmentUnavailable):
        bench.run(run_id="broken", **ONE)
    last = journal(bench.plan(run_id="broken", **ONE).layout)[-1]
    assert (last["error"], last["exit_code"]) == ("no such machine", 3)
    bench.backend.on_create = lambda _: None
    whole = journal(bench.run(run_id="whole", **ONE).layout)[-1]
    assert "exit_code" not in whole and "error" not in whole


def test_a_run_with_places_of_its_own_is_found_again_by_its_user(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "home"))
    bench.run(run_id="mine", docker={"hosts": [{"url": "ssh://me@far"}]}, **ONE)
    assert [host.called for host in backend_choice_of_run("mine").docker.hosts] == ["far"]


@pytest.mark.parametrize("record", [None, b"", b"[]", b'{"host": 3}', b"\xff", b'{"host": null}'])
def test_a_record_that_says_nothing_of_a_host_names_none(bench: Bench, record: bytes | None) -> None:
    job = bench.plan(**ONE).layout.job("0" * 12).make()
    if record is not None:
        job.meta.write_bytes(record)
    assert reporting.host_of(job) == ""
    write_json(job.meta, {"host": "far"})
    assert reporting.host_of(job) == "far" and json.loads(job.meta.read_bytes())["host"] == "far"
