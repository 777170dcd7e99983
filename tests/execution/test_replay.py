"""A whole run is repeated from its cassettes, on sandboxes that are simulated."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.execution.bench import SEARCH, Bench, attempts, entries, fingerprints_of_files, read, table
from tests.execution.supervisor import Script
from trace_bench.artifacts import schema
from trace_bench.artifacts.folder_lock import lock_run
from trace_bench.artifacts.layout import RunLayout
from trace_bench.config import parse_config
from trace_bench.errors import ConfigError
from trace_bench.execution import run as run_module
from trace_bench.execution.result import RunResult
from trace_bench.gateway.base import Provider, ProviderReply, ProviderRequest
from trace_bench.planning.recording import find_recording

TIMES = {"run_id", "time_seconds", "train_seconds"}
LLM = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "temperature": 0.5}


class Paid:
    """A real model's provider that never gives an answer twice."""

    name, paid, uses_hints, quick = "paid", True, False, True

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def complete(self, request: ProviderRequest) -> ProviderReply:
        return ProviderReply(200, {"answer": next(self._numbers)}, 7, 5, 0.25, latency=1.5)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.backend.script = lambda job_id, number: Script(calls=3)
    return bench


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Mode real with a provider of this test's; gone once it is over."""
    real = run_module.providers_of

    @contextmanager
    def providers_of(config: Any, *rest: Any, **further: Any) -> Iterator[dict[str, Provider]]:
        if config.mode == "real":
            yield {"m": Paid()}
            return
        with real(config, *rest, **further) as providers:
            yield providers

    monkeypatch.setattr(run_module, "providers_of", providers_of)
    yield


def rows(layout: RunLayout) -> list[dict[str, str]]:
    return [{key: value for key, value in row.items() if key not in TIMES} for row in table(layout)]


def replay(bench: Bench, recorded: RunLayout | Path | str, **config: Any) -> RunResult:
    source = recorded.root if isinstance(recorded, RunLayout) else recorded
    return bench.run(mode="replay", replay_from=str(source), **config)


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_replay_gives_the_rows_of_its_recording(bench: Bench) -> None:
    first = bench.run()
    before = fingerprints_of_files(first.layout.root)
    again = replay(bench, first.layout)
    assert again.ok and again.layout.root != first.layout.root
    assert rows(again.layout) == rows(first.layout)
    report = read(again.layout.replay)
    schema.validate("replay", report)
    assert (report["jobs"], report["equal"], report["exact"], report["differing"]) == (4, 4, 4, 0)
    assert report["recorded_run"] == first.run_id
    assert fingerprints_of_files(first.layout.root) == before
    assert "meta/replay.json" in {entry["path"] for entry in read(again.layout.files_index)["files"]}


GEPA_PACKAGE = {"id": "GEPATrainer", "params_variants": [{"num_iters": 1}]}
SIMBA = {"id": "DSPyTrainer", "params_variants": [{"dspy_optimizer": "simba"}]}


@pytest.mark.parametrize(
    ("recorded", "trainer", "repeated"),
    [
        (True, SEARCH, True), (False, SEARCH, False), (None, SEARCH, False),
        # Adapters remembered by themselves before all trainers did.
        (None, GEPA_PACKAGE, True), (None, SIMBA, False),
    ],
)  # fmt: skip
def test_known_evaluations_are_made_again_only_where_they_were(
    bench: Bench, recorded: bool | None, trainer: dict[str, Any], repeated: bool
) -> None:
    first = bench.run(tasks=["internal:numeric_param"], trainers=[trainer])
    for job in first.layout.jobs.iterdir():
        path = RunLayout(first.layout.root).job(job.name).meta
        meta = json.loads(path.read_text())
        assert meta.pop("memo") is True
        path.write_text(json.dumps(meta if recorded is None else {**meta, "memo": recorded}))
    again = replay(bench, first.layout, tasks=["internal:numeric_param"], trainers=[trainer])
    assert {read(again.layout.job(row.job_id).meta)["memo"] for row in again.rows} == {repeated}


@pytest.mark.parametrize(("given", "num_steps"), [({"num_steps": 5}, 5), ({}, 0)])
def test_a_search_beside_a_budget_has_the_bound_that_it_had(
    bench: Bench, given: dict[str, int], num_steps: int
) -> None:
    """Runs of earlier versions had five steps where they said nothing; today they go on until the budget ends."""
    config: dict[str, Any] = {"tasks": ["internal:numeric_param"], "budget": {"evaluations": 9}}
    first = bench.run(**config, trainers=["PrioritySearch"], trainer_kwargs=given)
    again = replay(bench, first.layout, **config, trainers=["PrioritySearch"])
    assert again.ok and [row.job_id for row in again.rows] == [row.job_id for row in first.rows]
    assert {row.resolved_trainer_kwargs["num_steps"] for row in again.rows} == {num_steps}


def test_tokens_and_cost_of_a_paid_run_are_those_of_its_replay(bench: Bench, paid: None) -> None:
    first = bench.run(mode="real", llm=LLM)
    again = replay(bench, first.layout, llm=LLM)
    assert again.ok and rows(again.layout) == rows(first.layout)
    assert {(row["model"], row["cost_usd"], row["llm_calls"]) for row in rows(again.layout)} == {("m", "0.75", "3")}


@pytest.mark.parametrize("budget", [{"calls": 2}, {"tokens": 24}, {"usd": 0.5}])
def test_the_end_of_a_budget_is_at_the_recorded_call(bench: Bench, paid: None, budget: dict[str, Any]) -> None:
    first = bench.run(mode="real", llm=LLM, budget=budget)
    again = replay(bench, first.layout, budget=budget)
    assert again.ok and rows(again.layout) == rows(first.layout)
    assert {(row.llm_calls, row.cost_usd) for row in again.rows} == {(2, 0.5)}
    without = replay(bench, first.layout)
    assert without.ok and {row.llm_calls for row in without.rows} == {2}, "the recorded stop counts, and no meter"


def test_a_config_without_a_model_takes_that_of_the_recording(bench: Bench, paid: None) -> None:
    first = bench.run(mode="real", llm=LLM)
    again = replay(bench, first.layout)
    assert again.ok and [row.job_id for row in again.rows] == [row.job_id for row in first.rows]


def test_a_config_that_leaves_its_model_to_the_environment_takes_that_of_the_recording(
    bench: Bench, paid: None
) -> None:
    first = bench.run(mode="real", llm=LLM)
    again = replay(bench, first.layout, llm={"temperature": 0.5})
    assert again.ok and [row.job_id for row in again.rows] == [row.job_id for row in first.rows]
    assert '"temperature":0.9' in refusal(bench, first.layout, llm={"temperature": 0.9}), "what it does say counts"


def test_held_out_data_is_drawn_with_the_recorded_salt(bench: Bench) -> None:
    first = bench.run()
    again = replay(bench, first.layout)
    assert read(again.layout.lock)["salt"] == read(first.layout.lock)["salt"] is not None


def test_the_config_of_a_replay_is_the_recorded_one(bench: Bench) -> None:
    first = bench.run(run_id="named", seeds=[4, 5], tags=["t"])
    config = find_recording("named", bench.folder / "runs", "here").config({"max_workers": 3})
    assert (config.mode, config.run_id, config.seeds, config.max_workers) == ("replay", None, (4, 5), 3)
    assert config.replay_from == str(first.layout.root.resolve()) and config.tags == ("t",)


def test_a_copy_that_cannot_be_written_is_replayed_too(bench: Bench, tmp_path: Path) -> None:
    first = bench.run()
    copy = tmp_path / "elsewhere" / "copy"
    shutil.copytree(first.layout.root, copy)
    shutil.rmtree(first.layout.root)
    for path in copy.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = fingerprints_of_files(copy)
    again = replay(bench, copy)
    assert again.ok and fingerprints_of_files(copy) == before


def test_a_replay_can_be_replayed(bench: Bench) -> None:
    first = bench.run()
    again = replay(bench, replay(bench, first.layout).layout)
    assert again.ok and rows(again.layout) == rows(first.layout)


def test_part_of_a_run_can_be_replayed(bench: Bench) -> None:
    first = bench.run(seeds=[1, 2])
    again = replay(bench, first.layout, seeds=[2])
    assert again.ok and {row.seed for row in again.rows} == {2}


def test_attempts_of_the_recording_and_of_the_replay_do_not_show(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(calls=3, ends="dies" if number == 1 else "done")
    first = bench.run(retries=1)
    assert first.ok and {row.llm_calls for row in first.rows} == {3}
    bench.backend.script = lambda job_id, number: Script(calls=3, ends="dies" if number == 3 else "done")
    again = replay(bench, first.layout, retries=1)
    assert again.ok and rows(again.layout) == rows(first.layout)
    assert attempts(again.layout, again.rows[0].job_id) == [(1, "failed"), (2, "ok")]


def test_a_job_whose_controller_was_killed_in_the_middle_is_replayed_whole(bench: Bench) -> None:
    plan = bench.records()
    for planned in plan.jobs:
        bench.converse(plan, planned, bench.sandbox(plan, planned), until="history")
    first = bench.run()
    assert first.ok and {row.llm_calls for row in first.rows} == {3}
    again = replay(bench, first.layout)
    assert again.ok and rows(again.layout) == rows(first.layout)


# -------------------------------------------------------------------------------------------------- what differs


def test_a_request_that_is_not_recorded_fails_its_job_alone(bench: Bench) -> None:
    first = bench.run()
    job_id = first.rows[1].job_id
    cassette = first.layout.job(job_id).cassette

    def change(line: dict[str, Any]) -> None:
        if line["slot"] == "step=1":
            line["request"]["body"]["messages"][0]["content"] = "question 7"

    edit(cassette, change)
    again = replay(bench, first.layout, retries=2)
    assert not again.ok and [row.status for row in again.rows].count("failed") == 1
    row = again.rows[1]
    assert (row.failure_boundary, row.failure_kind) == ("trainer", "not_recorded")
    assert row.score_initial is row.score_best is None and row.stop_reason is None
    assert "slot step=1" in row.feedback and "'question 1', and was 'question 7'" in row.feedback
    assert attempts(again.layout, job_id) == [(1, "failed")], "never retried"
    told = (again.layout.job(job_id).attempt(1) / "not_recorded.txt").read_text()
    assert "-  question 7\n+  question 1\n" in told
    report = read(again.layout.replay)
    assert report["differing"] == 1 and {d["job_id"] for d in report["differences"]} == {job_id}
    assert ("status", "ok", "failed") in {(d["what"], d["recorded"], d["replayed"]) for d in report["differences"]}


def test_a_job_that_ends_before_it_can_be_stopped_gets_no_score_either(bench: Bench) -> None:
    """Its agent did not care for the answer, and was done at once."""
    bench.backend.script = lambda job_id, number: Script(calls=1)
    first = bench.run()
    bench.backend.script = lambda job_id, number: Script(calls=2)
    again = replay(bench, first.layout)
    assert {row.failure_kind for row in again.rows} == {"not_recorded"}
    assert {row.score_best for row in again.rows} == {None}


def test_a_failure_of_the_job_itself_comes_again_and_is_equal(bench: Bench) -> None:
    bench.backend.script = lambda job_id, number: Script(calls=2, failure="candidate")
    first = bench.run()
    assert not first.ok
    again = replay(bench, first.layout)
    assert again.ok and {row.failure_boundary for row in again.rows} == {"candidate"}


def test_jobs_without_an_ending_that_counts_are_left_out_and_told(bench: Bench) -> None:
    failing = ""

    def script(job_id: str, number: int) -> Script:
        nonlocal failing
        failing = failing or job_id
        return Script(calls=2, ends="dies" if job_id == failing else "done")

    bench.backend.script = script
    first = bench.run()
    bench.backend.script = lambda job_id, number: Script(calls=2)
    again = replay(bench, first.layout)
    assert not again.ok
    assert [row.job_id for row in again.rows if row.status == "skipped"] == [failing]
    assert "failed at sandbox" in entries(again.layout)[failing]["decision_reason"]
    assert read(again.layout.replay)["skipped"] == 1
    assert any("1 of 4 jobs did not finish in" in text for text in read(again.layout.manifest)["warnings"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image": "other"}, "the image of core is not the one"),
        ({"sources": "other"}, "the code that runs in sandboxes has changed"),
    ],
)
def test_another_image_or_code_is_a_recorded_warning(bench: Bench, change: dict[str, str], said: str) -> None:
    first = bench.run()
    again = replay(replace(bench, **change), first.layout)
    assert again.ok
    assert any(said in text for text in read(again.layout.manifest)["warnings"])


def test_another_task_content_is_a_recorded_warning(bench: Bench) -> None:
    first = bench.run()
    edit_json(first.layout.lock, lambda lock: lock["tasks"].update({"internal:code_param": "0" * 64}))
    again = replay(bench, first.layout)
    assert any("the task internal:code_param has changed" in text for text in read(again.layout.manifest)["warnings"])


def test_other_limits_are_a_recorded_warning(bench: Bench) -> None:
    first = bench.run()
    again = replay(bench, first.layout, score_timeout=17.0)
    assert any("budget, splits or limits" in text for text in read(again.layout.manifest)["warnings"])


def edit_json(path: Path, change: Callable[[Any], Any]) -> None:
    value = read(path)
    change(value)
    path.write_text(json.dumps(value))


# ---------------------------------------------------------------------------------------- told before anything starts


def refusal(bench: Bench, recorded: RunLayout | Path | str, **config: Any) -> str:
    there = bench.runs()
    with pytest.raises(ConfigError) as caught:
        replay(bench, recorded, **config)
    assert bench.runs() == there, "nothing was created"
    return str(caught.value)


def test_a_job_that_was_not_recorded_is_told_with_what_differs(bench: Bench) -> None:
    first = bench.run()
    said = refusal(bench, first.layout, seeds=[9]).splitlines()
    assert len(said) == 4 and said[-1].endswith("and 1 more of 4 jobs are not in it")
    assert all("its seed is 9, and was 1" in line for line in said[:3])


def test_another_parameter_is_told(bench: Bench) -> None:
    first = bench.run()
    said = refusal(bench, first.layout, trainers=[{"id": "PrioritySearch", "params": {"num_steps": 7}}])
    assert said.splitlines()[0].endswith("its num_steps is 7, and was 1"), "what is the same is not told"


def test_another_model_is_told(bench: Bench, paid: None) -> None:
    first = bench.run(mode="real", llm=LLM)
    said = refusal(bench, first.layout, llm={**LLM, "temperature": 0.9})
    assert "its model is " in said and '"temperature":0.9' in said and '"temperature":0.5' in said
    assert "its model is other, and was m" in refusal(bench, first.layout, llm={**LLM, "model": "other"})


def test_a_stub_run_is_replayed_as_one_whatever_model_the_config_names(bench: Bench) -> None:
    first = bench.run()
    again = replay(bench, first.layout, llm=LLM)
    assert again.ok
    assert any("was recorded in mode stub" in text for text in read(again.layout.manifest)["warnings"])


def test_what_is_no_recording_is_told(bench: Bench, tmp_path: Path) -> None:
    assert "there is no run 'gone'" in refusal(bench, "gone")
    assert "nothing says which run to replay" in _refused(lambda: bench.plan(mode="replay"))
    bench.run(run_id="first")
    with lock_run(RunLayout(bench.folder / "runs" / "first")):
        assert "first is running; wait until it has ended" in refusal(bench, "first")


def _refused(act: Callable[[], Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        act()
    return str(caught.value)


def test_a_run_that_never_ended_is_told(bench: Bench) -> None:
    plan = bench.records()
    said = refusal(bench, plan.layout)
    assert "none of these jobs can be replayed" in said and "it never ran to an end" in said


def test_a_snapshot_that_would_fill_the_memory_is_refused(bench: Bench) -> None:
    """The run may be somebody else's."""
    first = bench.run()
    laughs = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 1}]\n" for i in range(12))
    first.layout.config_snapshot.write_text(laughs)
    said = refusal(bench, first.layout)
    assert "config.snapshot.yaml" in said and len(said.splitlines()) == 1


@pytest.mark.parametrize("what", ["damaged", "missing", "record", "lock", "manifest", "snapshot", "row"])
def test_damage_of_the_recording_is_told_with_its_place(bench: Bench, what: str) -> None:
    first = bench.run()
    job = first.layout.job(first.rows[0].job_id)
    path = {
        "damaged": job.cassette, "missing": job.cassette, "record": job.meta, "lock": first.layout.lock,
        "manifest": first.layout.manifest, "snapshot": first.layout.config_snapshot, "row": job.results,
    }[what]  # fmt: skip
    if what in ("missing", "lock", "manifest", "snapshot"):
        path.unlink()
    else:
        path.write_text("{\n{}\n")
    said = refusal(bench, first.layout)
    assert str(path.name) in said and len(said.splitlines()) == 1
    assert "restore the recorded run from a copy" in said or what == "manifest"


def test_a_snapshot_with_what_no_replay_needs_is_taken_all_the_same(bench: Bench) -> None:
    """Its own folder and name, and models that mode stub did not use."""
    first = bench.run(run_id="named", llm=LLM, resume="none")
    config = find_recording(str(first.layout.root), Path("nowhere"), "here").config({})
    assert (config.run_id, config.resume, config.runs_dir, config.llm) == (None, "auto", "runs", None)
    parse_config(config.to_snapshot())
