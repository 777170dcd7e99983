"""A run on a real MLflow server: all of it, once, however often it is copied and wherever that was cut off."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError
from trace_bench.mirrors import MirrorError
from trace_bench.mirrors.mlflow import MlflowMirror, address
from trace_bench.records.digest import index_digest
from trace_bench.records.reading import read_index, read_manifest, read_rows


class Copy:
    """What the server has of a run, in an experiment of its own."""

    def __init__(self, server: str, experiment: str) -> None:
        from mlflow import MlflowClient

        self.client: Any = MlflowClient(server)
        self.server, self.experiment = server, experiment

    def mirror(self, run: RunLayout, **options: Any) -> MlflowMirror:
        """Another process's mirror, which knows nothing."""
        return MlflowMirror(run, self.server, self.experiment, **options)

    def runs(self) -> tuple[Any, dict[str, Any]]:
        """The parent, and the nested runs by job id."""
        experiment = self.client.get_experiment_by_name(self.experiment)
        found = self.client.search_runs([experiment.experiment_id])
        (parent,) = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
        jobs = [run for run in found if run is not parent]
        assert all(run.data.tags["mlflow.parentRunId"] == parent.info.run_id for run in jobs)
        by_id = {run.data.tags["trace_bench.job_id"]: run for run in jobs}
        assert len(by_id) == len(jobs)  # no job is there twice
        return parent, by_id

    def steps(self, run: Any, name: str) -> list[tuple[int, float]]:
        return sorted((one.step, one.value) for one in self.client.get_metric_history(run.info.run_id, f"step/{name}"))

    def content(self) -> dict[str, Any]:
        """All that the server has, without ids of its own."""
        parent, jobs = self.runs()
        return {
            job_id: [run.info.status, run.data.params, run.data.metrics, self.steps(run, "score"), _own(run.data.tags)]
            for job_id, run in [("", parent), *jobs.items()]
        }


def _own(tags: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in tags.items() if not name.startswith("mlflow.")}


@pytest.fixture
def copy(server: str, request: pytest.FixtureRequest) -> Copy:
    return Copy(server, request.node.name)


def lines(run: RunLayout, job_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run.job(job_id).state_history.read_text().splitlines()]


def test_a_run_is_a_parent_and_each_job_a_nested_run_and_a_second_time_changes_nothing(
    small: RunLayout, copy: Copy, tmp_path: Path
) -> None:
    manifest, rows = read_manifest(small), {row.job_id: row for row in read_rows(small)}
    assert manifest is not None
    before_it = dict(os.environ)
    found = copy.mirror(small).copy_run()
    assert dict(os.environ) == before_it  # the client's settings do not stay in a user's process
    assert (found.jobs, found.changed, found.problems) == (4, 4, ())
    parent, jobs = copy.runs()
    assert parent.info.run_name == parent.data.tags["trace_bench.run_id"] == manifest.run_id
    assert parent.data.tags["trace_bench.config_hash"] == manifest.config_hash
    index = read_index(small)
    assert index is not None and parent.data.tags["trace_bench.digest"] == index_digest(index)
    assert parent.info.status == "FINISHED" and parent.data.metrics["jobs_ok"] == 4
    assert list(jobs) and set(jobs) == {entry.job_id for entry in manifest.jobs}
    for entry in manifest.jobs:
        run, row = jobs[entry.job_id], rows[entry.job_id]
        assert (run.info.status, run.data.params["seed"]) == ("FINISHED", str(entry.seed))
        assert run.data.tags["trace_bench.integrity"] == "unprotected"
        for name, value in entry.resolved_trainer_kwargs.items():
            assert run.data.params[f"trainer.{name}"] == (value if isinstance(value, str) else json.dumps(value))
        assert run.data.metrics["score_best"] == row.score_best
        assert run.data.metrics["total_tokens"] == row.total_tokens
        assert {name: run.data.metrics[f"metrics_best/{name}"] for name in row.metrics_best} == row.metrics_best
        written = lines(small, entry.job_id)
        for name in ("score", "best_score", "evaluations", "cost_usd"):
            assert copy.steps(run, name) == [(n, line.get(name, 0)) for n, line in enumerate(written)]
    run = jobs[manifest.jobs[-1].job_id]
    for name in ("results.json", "artifacts/best_state.yaml", "artifacts/state_history.jsonl"):
        got = Path(copy.client.download_artifacts(run.info.run_id, name, str(tmp_path)))
        assert got.read_bytes() == (small.job(manifest.jobs[-1].job_id).root / name).read_bytes()
    got = Path(copy.client.download_artifacts(parent.info.run_id, "meta/lock.json", str(tmp_path)))
    assert got.read_bytes() == small.lock.read_bytes()

    before = copy.content()
    again = copy.mirror(small).copy_run()
    assert (again.jobs, again.changed) == (4, 0) and copy.content() == before


@pytest.mark.slow
def test_a_job_that_ran_again_replaces_its_copy_and_files_follow_later(small: RunLayout, copy: Copy) -> None:
    rows = read_rows(small)
    assert copy.mirror(small, files=False).copy_run().changed == 4
    assert copy.mirror(small, files=False).copy_run().changed == 0
    assert copy.mirror(small).copy_run().changed == 4 and copy.mirror(small, files=False).copy_run().changed == 0
    _, first = copy.runs()
    job = small.job(rows[0].job_id)
    job.results.write_text(json.dumps({**json.loads(job.results.read_text()), "score_best": -7.5}))
    job.state_history.write_bytes(job.state_history.read_bytes().splitlines(keepends=True)[0])
    assert copy.mirror(small).copy_run().changed == 1
    _, now = copy.runs()
    changed = {job_id for job_id in now if now[job_id].info.run_id != first[job_id].info.run_id}
    assert changed == {rows[0].job_id}
    assert now[rows[0].job_id].data.metrics["score_best"] == -7.5
    assert len(copy.steps(now[rows[0].job_id], "score")) == 1


@pytest.mark.slow
def test_failed_and_skipped_jobs_are_told_apart_and_odd_values_are_fitted(small: RunLayout, copy: Copy) -> None:
    manifest = json.loads(small.manifest.read_text())
    failed, cut, skipped, odd = manifest["jobs"]
    _change(small, failed, status="failed", failure_kind="timeout", failure_boundary="trainer", feedback="x" * 9000)
    _change(small, cut, stop_reason="interrupted")
    small.job(skipped["job_id"]).results.unlink()
    skipped |= {"status": "not_executed", "reason": "the run's budget is used up"}
    _change(small, odd, resolved_trainer_kwargs={"prompt: ü/../\n": "y" * 7000, "list": [1, None]})
    small.manifest.write_text(json.dumps(manifest))
    copy.mirror(small, files=False).copy_run()
    parent, jobs = copy.runs()
    assert [jobs[job["job_id"]].info.status for job in manifest["jobs"]] == ["FAILED", "KILLED", "KILLED", "FINISHED"]
    assert jobs[failed["job_id"]].data.tags["trace_bench.failure_boundary"] == "trainer"
    assert len(jobs[failed["job_id"]].data.tags["trace_bench.feedback"]) == 8000
    params = {name: value for name, value in jobs[odd["job_id"]].data.params.items() if name.startswith("trainer.")}
    assert params.pop("trainer.list") == "[1,null]"
    ((name, value),) = params.items()
    assert name.startswith("trainer.prompt_") and value == "y" * 6000
    assert parent.info.status == "FAILED"


def _change(run: RunLayout, job: dict[str, Any], **values: Any) -> None:
    path = run.job(job["job_id"]).results
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.slow
def test_a_copy_that_is_cut_off_anywhere_is_completed(small: RunLayout, copy: Copy, server: str) -> None:
    whole = Copy(server, "whole")
    whole.mirror(small).copy_run()
    expected = whole.content()
    for allowed in range(1, 60, 7):
        mirror = copy.mirror(small)
        left = [allowed]

        def ask(call: Any, *args: Any, inner: Any = mirror._ask, left: list[int] = left, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise MirrorError("cut off")
            return inner(call, *args, **kwargs)

        mirror._ask = ask  # type: ignore[method-assign]
        with pytest.raises(MirrorError):
            mirror.copy_run()
            raise MirrorError("it was through")
    copy.mirror(small).copy_run()
    assert copy.content() == expected


def test_a_user_and_a_password_in_an_address_are_taken_out_of_it() -> None:
    bare, login = address("http://me:pa%24sword99@host:1/x", {})
    assert bare == "http://host:1/x"
    assert login == {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "pa$sword99"}
    assert address(None, {"MLFLOW_TRACKING_URI": "http://host"}) == ("http://host", {})
    with pytest.raises(ConfigError, match="no server is named; give --tracking-uri, or set MLFLOW_TRACKING_URI"):
        address(None, {})
