"""A config becomes the right jobs, in order, each once, and fast."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import pytest

from trace_bench import identity
from trace_bench.config import RunConfig, load_config, parse_config
from trace_bench.config.resolve import resolve
from trace_bench.errors import ConfigError
from trace_bench.matrix import Job, expand
from trace_bench.suites.base import Suite
from trace_bench.suites.spec import Task, TaskSpec
from trace_bench.trainers.base import Param

SUITE = Suite("internal", "Fakes", "core", "internal", "nowhere:build")


def fake_task(name: str) -> Task:
    raw = {
        "title": name,
        "statement": "…",
        "interaction": "value",
        "score": {"direction": "maximize", "failure": 0.0},
        "eval_kwargs": {"n": {"type": "int", "default": 1, "minimum": 0}},
    }
    return Task(f"internal:{name}", SUITE, Path("nowhere"), TaskSpec.model_validate(raw))


class FakeSearch:
    name = "FakeSearch"
    summary = "…"
    source = "…"
    params = (
        Param("steps", 5, int, "…", minimum=1, aliases=("ps_steps", "iters")),
        Param("weight", 1.0, float, "…"),
    )
    uses_llm = True
    uses_graph = True

    def train(self, problem: Any, params: Any, context: Any) -> dict[str, Any]:
        raise NotImplementedError


class FakeBaseline(FakeSearch):
    name = "FakeBaseline"
    params = ()
    uses_llm = False
    uses_graph = False


TASKS = {task.id: task for task in map(fake_task, "abcd")}
TRAINERS: dict[str, Any] = {"FakeSearch": FakeSearch, "FakeBaseline": FakeBaseline}


def jobs_of(data: dict[str, Any]) -> list[Job]:
    return expand(parse_config(data), TASKS, TRAINERS)


def test_jobs_come_task_by_task_trainer_by_trainer_variant_by_variant_seed_by_seed() -> None:
    jobs = jobs_of(
        {
            "tasks": ["internal:b", "internal:a"],
            "trainers": ["FakeBaseline", {"id": "FakeSearch", "params_variants": [{"steps": 2}, {}]}],
            "seeds": [9, 4],
        }
    )
    assert [(j.task_id[-1], j.trainer_id, j.variant.index, j.seed) for j in jobs] == [
        (task, trainer, variant, seed)
        for task in "ba"
        for trainer, variant in (("FakeBaseline", 0), ("FakeSearch", 0), ("FakeSearch", 1))
        for seed in (9, 4)
    ]
    assert [j.variant.label for j in jobs[:6:2]] == ["default", "steps=2", "default"]
    assert len({j.job_id for j in jobs}) == 12


def test_a_job_carries_everything_resolved() -> None:
    [job] = jobs_of(
        {
            "tasks": [{"id": "internal:a", "eval_kwargs": {"n": 3}, "sandbox": {"pids": 32}}],
            "trainers": [
                {"id": "FakeSearch", "params": {"iters": 7, "weight": 2}, "optimizer_kwargs": {"memory_size": 1}}
            ],
            "job_timeout": 9,
        }
    )
    assert job.params == {"steps": 7, "weight": 2.0} and type(job.params["weight"]) is float
    assert job.optimizer == "OptoPrime" and job.optimizer_kwargs["memory_size"] == 1
    assert (job.suite, job.image_family, job.eval_kwargs, job.model) == ("internal", "core", {"n": 3}, {"id": "stub"})
    assert job.limits["job_timeout"] == 9.0 and job.limits["candidate"]["memory_bytes"] == 1 << 30
    assert job.sandbox.pids == 32 == job.limits["sandbox"]["pids"] and (job.guide, job.logger) == ("default", "default")
    assert job.splits == {"train": 1, "validate": 0, "test": 0} and job.seed == 123
    assert job.job_id == identity.job_id(job)
    with pytest.raises(AttributeError):
        job.seed = 4  # type: ignore[misc]


ONE: dict[str, Any] = {"tasks": ["internal:a"], "trainers": [{"id": "FakeSearch", "params": {"steps": 5}}]}


@pytest.mark.parametrize(
    "changes",
    [
        {"max_workers": 9, "tags": ["x"], "runs_dir": "y", "run_id": "z", "retries": 0, "job_timeout": 5},
        {"trainers": ["FakeSearch"]},
        {"trainers": [{"id": "FakeSearch", "params": {"ps_steps": 5, "weight": 1}, "logger": "none"}]},
        {"ps_steps": 5, "trainers": ["FakeSearch"]},
        {"tasks": [{"id": "internal:a", "eval_kwargs": {"n": 1}}]},
        {"eval_kwargs": {"n": 1}},
    ],
    ids=str,
)
def test_what_is_the_same_job_keeps_its_id(changes: dict[str, Any]) -> None:
    assert [j.job_id for j in jobs_of(ONE | changes)] == [j.job_id for j in jobs_of(ONE)]


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": [1]},
        {"tasks": ["internal:b"]},
        {"eval_kwargs": {"n": 2}},
        {"trainers": ["FakeBaseline"]},
        {"trainers": [{"id": "FakeSearch", "params": {"steps": 6}}]},
        {"trainers": [{"id": "FakeSearch", "params": {"weight": 1.5}}]},
        {"optimizer_kwargs": {"memory_size": 4}},
    ],
    ids=str,
)
def test_what_is_another_job_has_another_id(changes: dict[str, Any]) -> None:
    assert not {j.job_id for j in jobs_of(ONE | changes)} & {j.job_id for j in jobs_of(ONE)}


@pytest.mark.parametrize(
    ("text", "line", "other"),
    [
        (
            "tasks: [internal:a]\ntrainers:\n  - id: FakeSearch\n"
            "    params_variants:\n      - {}\n      - {iters: 5}\n",
            6,
            5,
        ),
        ("tasks: [internal:a]\ntrainers:\n  - FakeBaseline\n  - FakeSearch\n  - FakeBaseline\n", 5, 3),
        ("tasks:\n  - internal:a\n  - {id: 'internal:a', eval_kwargs: {n: 1}}\ntrainers: [FakeSearch]\n", 3, 2),
    ],
)
def test_entries_that_make_the_same_jobs_are_an_error_that_names_both_lines(
    text: str, line: int, other: int, tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        expand(load_config(path), TASKS, TRAINERS)
    assert str(caught.value).startswith(f"{path}, line {line}: ") and f"line {other}: " in str(caught.value)[5:]
    assert "makes the same jobs" in str(caught.value) and "\n" not in str(caught.value)


def test_what_was_not_looked_up_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="there is no task 'internal:z'"):
        jobs_of({"tasks": ["internal:z"], "trainers": ["FakeSearch"]})
    with pytest.raises(ConfigError, match="unknown trainer 'FakeSerch'; did you mean 'FakeSearch'"):
        jobs_of({"tasks": ["internal:a"], "trainers": ["FakeSerch"]})


def test_a_hundred_thousand_jobs_take_seconds_and_little_memory() -> None:
    config: RunConfig = parse_config(
        {
            "tasks": [f"internal:{name}" for name in "abcd"],
            "trainers": [{"id": "FakeSearch", "params_variants": [{"steps": i} for i in range(1, 51)]}],
            "seeds": list(range(500)),
        }
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    jobs = expand(config, TASKS, TRAINERS)
    assert time.perf_counter() - start < 10
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 500
    assert len({j.job_id for j in jobs}) == 100_000


def test_the_shipped_configs_expand() -> None:
    from trace_bench.config.selectors import select
    from trace_bench.resources import data_dir

    counts = {}
    for path in data_dir("configs").glob("*.yaml"):
        config = select(load_config(path))
        found = resolve(config)
        counts[path.stem] = len(expand(config, found.tasks, found.trainers))
    assert counts["smoke"] == 2 and counts["m1_matrix_smoke"] == 4 and counts["m1_validation"] == 7
    assert counts["m2_coverage"] == 130
