"""The suite ``llm4ad`` in containers: one task of each kind always, all sixty-five with --full; and published data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.openai_server import OpenAIServer
from tests.integration.cli import REPOSITORY, cli, result_of, run, write_config
from trace_bench.config import load_config
from trace_bench.suites.registry import discover
from trace_bench.suites.spec import load_task_spec

pytestmark = pytest.mark.docker

KINDS = [
    "llm4ad:optimization/tsp_construct", "llm4ad:circle_packing", "llm4ad:optimization/jssp_construct",
    "llm4ad:science_discovery/oscillator1", "llm4ad:machine_learning/pendulum",
]  # fmt: skip
"""Constructive, packing, scheduling, fitting, control."""
COVERAGE = REPOSITORY / "configs" / "m2_coverage.yaml"
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 1, "num_proposals": 2}}
SPLITS = {"train": 1, "validate": 2, "test": 1}
ONE = {"num_train": 1, "num_validate": 1, "num_test": 0}
"""For tasks of one instance."""


def entries(tasks: list[str]) -> list[Any]:
    """Task entries of a config."""
    single = [t for t in tasks if t in ("llm4ad:circle_packing", "llm4ad:optimization/admissible_set")]
    return [{"id": task, "eval_kwargs": ONE} if task in single else task for task in tasks]


def programs() -> dict[str, tuple[str, str]]:
    """Of each task: what its signature begins with, and its reference."""
    found = {}
    for entry in discover(["llm4ad"]):
        spec = load_task_spec(entry.folder)
        assert spec.candidates is not None and spec.candidates.reference is not None and spec.signature is not None
        found[entry.id] = (spec.statement.strip(), (entry.folder / spec.candidates.reference).read_text())
    return found


def knows_the_references(body: Mapping[str, Any]) -> str:
    """A model that finds the task by its statement in the prompt, and answers with that task's reference program."""
    prompt = "\n".join(str(message.get("content")) for message in body.get("messages") or ())
    plain = " ".join(prompt.split())
    source = next((code for said, code in programs().values() if " ".join(said.split())[:300] in plain), None)
    names = re.findall(r"^\(code\) (\w+):", prompt, re.MULTILINE)
    suggestion = {} if source is None else dict.fromkeys(names, source)
    return json.dumps({"reasoning": "I have seen this before.", "answer": "", "suggestion": suggestion})


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "TRACE_LITELLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with OpenAIServer(knows_the_references) as started:
        yield started


def lifted(folder: Path, home: Path, provider: OpenAIServer, tasks: list[str], timeout: float) -> dict[str, bool]:
    """Whether a search with that provider came to a better program than it started from, by task."""
    llm = {"provider": "openai", "model": "gpt-x", "base_url": provider.url, "prices": {"prompt": 1.0}}
    got = run(folder, home, mode="real", llm=llm, tasks=entries(tasks), trainers=[SEARCH], seeds=[1], max_workers=2,
              splits=SPLITS, timeout=timeout)  # fmt: skip
    assert got["code"] == 0, [(r["task_id"], r["feedback"]) for r in got["jobs"] if r["status"] != "ok"]
    return {row["task_id"]: better(row) for row in got["jobs"]}


def better(row: Mapping[str, Any]) -> bool:
    way = 1 if row["score_direction"] == "maximize" else -1
    return bool(way * row["score_best"] > way * row["score_initial"])


@pytest.mark.slow
def test_a_search_lifts_a_task_of_each_kind(images: Path, tmp_path: Path, provider: OpenAIServer) -> None:
    found = lifted(tmp_path, images, provider, KINDS, 300)
    assert found == dict.fromkeys(KINDS, True)


@pytest.mark.slow
def test_a_search_lifts_most_tasks_above_their_templates(images: Path, tmp_path: Path, provider: OpenAIServer) -> None:
    found = lifted(
        tmp_path, images, provider, ["llm4ad:circle_packing", "llm4ad:optimization/admissible_set", "llm4ad:all"], 3000
    )
    assert len(found) == 65 and sum(found.values()) >= 40, [task for task, up in found.items() if not up]


@pytest.mark.slow
def test_all_tasks_run_and_one_of_each_kind_comes_out_equal_again(images: Path, tmp_path: Path) -> None:
    runs = []
    config = yaml.safe_load(COVERAGE.read_text())
    kinds = [config["tasks"][0], *(task for task in KINDS if task != "llm4ad:circle_packing")]
    for name, tasks in (("one", config["tasks"]), ("two", kinds)):
        path = write_config(tmp_path, **config | {"tasks": tasks})
        done = cli("run", str(path), "--runs-dir", str(tmp_path / name), "--json", home=images, timeout=3000)
        got = result_of(done.stdout)
        assert done.returncode == 0, [(r["task_id"], r["feedback"]) for r in got["jobs"] if r["status"] != "ok"]
        runs.append({row["job_id"]: row for row in got["jobs"]})
    assert len(runs[0]) == 130 and len(runs[1]) == 10 and runs[0].keys() > runs[1].keys()
    assert {(row["integrity"], row["integrity_flags"]) for row in runs[0].values()} == {("protected", "")}
    for job in runs[1]:
        row = runs[0][job]
        for key in ("score_initial", "score_best", "score_final", "score_test"):
            # Held-out data follow from the run's salt, so they are others each time.
            assert key == "score_test" or row[key] == runs[1][job][key], (row["task_id"], key)


def test_the_coverage_config_has_a_job_of_each_trainer_for_every_task(tmp_path: Path) -> None:
    done = cli(
        "run", "--config", str(COVERAGE), "--dry-run", "--json", "--runs-dir", str(tmp_path), "--backend", "local"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"job_id"') == 130 and load_config(COVERAGE).tasks[2].id == "llm4ad:all"


def test_a_job_is_judged_on_published_data_and_held_out_files_reach_the_score_alone(
    images: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "Graph colouring"
    folder.mkdir(parents=True)
    for number in range(1, 7):  # rings: three colours where their length is odd, else two
        size = 4 + number
        rows = [f"e {i} {i % size + 1}" for i in range(1, size + 1)]
        (folder / f"gcol{number}.txt").write_text(f"p edge {size} {size}\n" + "\n".join(rows) + "\n")
    task = "llm4ad:optimization/graph_colouring"
    got = run(tmp_path, images, tasks=[task], trainers=[SEARCH], seeds=[1], data_root=str(tmp_path / "data"))
    assert got["code"] == 0, got["stderr"]
    (row,) = got["jobs"]
    result = json.loads((Path(got["folder"]) / "jobs" / row["job_id"] / "attempts/1/out/result.json").read_text())
    examples = result["scores"]["best"]["examples"]
    assert sorted(e["split"] for e in examples) == ["test", "test", "validate", "validate"]
    assert {e["score"] for e in examples} <= {2.0, 3.0} and row["score_test"] is not None


@pytest.mark.parametrize(
    ("task", "counted"),
    [("llm4ad:optimization/online_bin_packing_2O", ["bins", "operations"]),
     pytest.param("llm4ad:optimization/tsp_gls_2O", ["length", "operations"], marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_task_of_two_objectives_has_a_front(task: str, counted: list[str], images: Path, tmp_path: Path) -> None:
    objective = {"mode": "pareto", "pareto_metrics": counted}
    search = {"id": "PrioritySearch", "params": {"num_steps": 3, "num_candidates": 1, "num_proposals": 2}}
    got = run(tmp_path, images, tasks=[task], trainers=[search], seeds=[3], objective=objective, splits=SPLITS)
    assert got["code"] == 0, got["stderr"]
    (row,) = got["jobs"]
    front = json.loads((Path(got["folder"]) / "jobs" / row["job_id"] / "artifacts" / "pareto.json").read_text())
    points = [[point["metrics"][name] for name in counted] for point in front["points"]]
    assert points and all(len(set(values)) == 2 for values in points)
    for one in points:
        assert not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in points)
