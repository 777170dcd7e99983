"""What differs between two jobs is found where it is, and times are no difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_bench.artifacts.layout import RunLayout
from trace_bench.audit.job_diff import Difference, Job, JobDiff, diff
from trace_bench.records.reading import read_manifest, read_rows

KNAPSACK = "llm4ad:optimization/knapsack_construct"


def job(run: RunLayout, *, variant: str = "num_steps=2,num_candidates=2,num_proposals=2", seed: int = 1) -> Job:
    manifest = read_manifest(run)
    assert manifest is not None
    return next(Job(run, e) for e in manifest.jobs if (e.task_id, e.variant, e.seed) == (KNAPSACK, variant, seed))


def what(differences: list[Difference]) -> set[str]:
    return {difference.what for difference in differences}


def test_a_job_and_itself_do_not_differ(recorded: RunLayout, copied: RunLayout) -> None:
    assert diff(job(recorded), job(recorded)) == JobDiff()
    assert diff(job(recorded), job(copied)).is_empty


def test_another_seed_is_given_and_all_that_follows_is_found(recorded: RunLayout) -> None:
    jobs = job(recorded), job(recorded, seed=2)
    found = diff(*jobs)
    assert what(found.given) == {"fingerprint", "seed"}
    assert {"score_best", "metrics_best.normalised", "prompt_tokens"} <= what(found.came)
    # The held-out instances are drawn anew in each run, and few of them may have equal means.
    held_out = {row.score_test for row in read_rows(recorded) if row.job_id in {one.entry.job_id for one in jobs}}
    assert ("score_test" in what(found.came)) is (len(held_out) == 2)
    assert found.states == {} and found.unread == []
    assert "line 1, score" in what(found.history) and "line 1, seconds" not in what(found.history)
    assert what(found.calls) >= {"line 1, request", "line 1, response"}
    assert not what(found.calls) & {"line 1, request_hash", "line 1, latency", "line 1, t"}


def test_another_variant_differs_in_its_parameters_and_in_the_state_it_starts_from_not(recorded: RunLayout) -> None:
    found = diff(job(recorded), job(recorded, variant="default"))
    assert {"trainer_id", "params.num_steps", "optimizer.id"} <= what(found.given)
    assert set(found.states) == {"final", "best"}
    (lines,) = found.states["best"].values()
    assert lines[:2] == ["--- first", "+++ second"] and any(line.startswith("-") for line in lines[3:])
    assert found.calls == [Difference("line 1", "there", None)]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def line(path: Path, number: int, change: Callable[[dict[str, object]], object]) -> None:
    lines = path.read_text().splitlines()
    value = json.loads(lines[number - 1])
    change(value)
    lines[number - 1] = json.dumps(value)
    path.write_text("\n".join(lines) + "\n")


def test_the_first_line_that_differs_is_named(recorded: RunLayout, copied: RunLayout) -> None:
    other = job(copied)
    line(other.files.state_history, 3, lambda value: value.update(score=1.25, seconds=99.0))
    line(other.files.cassette, 2, lambda value: value.update(status=502, latency=99.0))
    found = diff(job(recorded), other)
    assert what(found.history) == {"line 3, score"} and found.history[0].second == 1.25
    assert found.calls == [Difference("line 2, status", 200, 502)]
    assert found.given == [] == found.came


def test_of_two_runs_code_and_packages_are_compared_too(recorded: RunLayout, copied: RunLayout) -> None:
    edit(copied.lock, '"code_version": "', '"code_version": "9.')
    edit(copied.git, '"branch": ', '"x": ')
    found = diff(job(recorded), job(copied))
    assert "lock.code_version" in what(found.given)
    (said,) = found.unread
    assert said.startswith(f"{copied.git}: $.x")


@pytest.mark.parametrize("name", ["meta", "results", "best_state", "state_history", "cassette"])
def test_a_damaged_file_is_said_and_the_rest_compared(recorded: RunLayout, copied: RunLayout, name: str) -> None:
    other = job(copied, seed=2)
    getattr(other.files, name).write_bytes(b"\xff{\n{}\n")
    found = diff(job(recorded), other)
    (said,) = found.unread
    assert said.startswith(str(getattr(other.files, name))) and said.count(str(other.run.root)) == 1
    assert "seed" in what(found.given)


def test_a_job_that_never_ran_has_what_the_manifest_says(copied: RunLayout) -> None:
    from shutil import rmtree

    other = job(copied, seed=2)
    rmtree(other.files.root)
    found = diff(job(copied), other)
    assert what(found.given) == {"seed", "fingerprint"} and found.unread == []
    assert next(d for d in found.came if d.what == "status").second is None
    assert found.history == [Difference("line 1", "there", None)]
