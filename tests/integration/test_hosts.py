"""Runs whose jobs are spread over several engines: engines of this machine stand in for other machines'."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines import OtherEngine, engines
from tests.integration.cli import cli
from tests.integration.faults import Trial, Undisturbed, finished, run_of, run_undisturbed
from tests.integration.test_faults import matrix
from tests.integration.test_interruption import wait_for
from tests.ssh_server import ssh_server

pytestmark = pytest.mark.docker
USUAL = "unix:///var/run/docker.sock"
TASKS = [
    {"id": "internal:slow", "eval_kwargs": {"seconds": 0.2}, "sandbox": {"labels": ["near"]}},
    "internal:numeric_param",
]


@pytest.fixture(scope="module")
def two(images: Path) -> Iterator[list[OtherEngine]]:
    """Two engines that run and have no image yet; the first answers over TLS."""
    with engines(2, tls=1) as found:
        yield found


@pytest.fixture
def pair(two: list[OtherEngine]) -> list[OtherEngine]:
    for engine in two:
        if not engine.is_up:
            engine.start()
    return two


@pytest.fixture(scope="module")
def undisturbed(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The same jobs on the usual engine."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return run_undisturbed(folder, images, matrix(folder))


def hosts_of(pair: list[OtherEngine]) -> list[dict[str, Any]]:
    near, far = pair
    return [
        {"url": near.tcp_url, "tls": str(near.tls), "name": "near", "slots": 2, "labels": ["near"]},
        {"url": far.url, "name": "far", "slots": 2},
    ]


def spread(folder: Path, pair: list[OtherEngine], tasks: list[Any] = TASKS) -> Path:
    return matrix(folder, tasks=tasks, max_workers=4, docker={"hosts": hosts_of(pair)})


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_of(folder) / "events.jsonl").read_text().splitlines()]


def ran_on(folder: Path) -> dict[str, str]:
    """Host by job, where it began last."""
    return {line["job_id"]: line["host"] for line in events(folder) if line["event"] == "job.start"}


def nothing_is_left(pair: list[OtherEngine]) -> None:
    for engine in pair:
        assert engine.containers() == engine.volumes() == [], engine.name


@pytest.mark.slow
def test_jobs_are_spread_over_hosts_by_labels_and_slots_and_come_out_the_same(
    pair: list[OtherEngine], images: Path, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    trial = Trial(tmp_path, images, spread(tmp_path, pair))
    with trial.controller() as process:
        said = trial.ended(process, 200)
        assert process.returncode == 0, said
    trial.check(undisturbed)
    for host in ("near", "far"):
        assert said.count(f"{host}: copying trace-bench/core:") == said.count(f"{host}: copied trace-bench/core:") == 1

    rows = {p.parent.name: json.loads(p.read_text()) for p in run_of(tmp_path).glob("jobs/*/results.json")}
    where = ran_on(tmp_path)
    assert {where[job] for job, row in rows.items() if row["task_id"] == "internal:slow"} == {"near"}
    assert "far" in {where[job] for job, row in rows.items() if row["task_id"] == "internal:numeric_param"}
    metas = {p.parent.name: json.loads(p.read_text()) for p in run_of(tmp_path).glob("jobs/*/job_meta.json")}
    assert {job: meta["host"] for job, meta in metas.items()} == where
    running: Counter[str] = Counter()
    for line in events(tmp_path):
        if line["event"] in ("job.start", "job.end"):
            running[where[line["job_id"]]] += 1 if line["event"] == "job.start" else -1
            assert max(running.values()) <= 2, "no host has more jobs than slots"
    facts = json.loads((run_of(tmp_path) / "meta" / "env.json").read_text())["backend"]
    assert list(facts["hosts"]) == ["near", "far"] and all(host["engine"] for host in facts["hosts"].values())
    nothing_is_left(pair)


@pytest.fixture(scope="module")
def other(images: Path) -> Iterator[OtherEngine]:
    """An engine beside the usual one, which has all images."""
    if os.environ.get("DOCKER_HOST", USUAL) != USUAL:
        pytest.skip("the engine is not at the default socket")
    with engines(1) as (engine,):
        yield engine


@pytest.mark.slow
def test_a_job_of_an_engine_that_vanishes_is_done_on_the_other(
    other: OtherEngine, images: Path, tmp_path: Path
) -> None:
    """Two jobs for two slots. The next test has more jobs, and compares them with a run without a fault."""
    hosts = [{"url": USUAL, "name": "near", "slots": 1}, {"url": other.url, "name": "far", "slots": 1}]
    task = {"id": "internal:slow", "eval_kwargs": {"seconds": 2.0}}
    config = matrix(tmp_path, tasks=[task], trainers=["NoOp"], seeds=[1, 2], docker={"hosts": hosts})
    trial = Trial(tmp_path, images, config)
    with trial.controller() as process:
        wait_for(lambda: other.docker("ps", "-q").strip())
        other.vanish()
        said = trial.ended(process, 200)
        assert process.returncode == 0, said
    trial.stopped()
    assert sorted(attempts for _, attempts in finished(tmp_path).values()) == [1, 2]
    assert set(ran_on(tmp_path).values()) == {"near", "far"}
    metas = [json.loads(path.read_text()) for path in run_of(tmp_path).glob("jobs/*/job_meta.json")]
    assert {meta["host"] for meta in metas} == {"near"}
    assert [line["event"] for line in events(tmp_path) if line["event"].startswith("host.")] == ["host.lost"]


@pytest.mark.slow
@pytest.mark.parametrize("comes_back", [pytest.param(False, id="for good"), pytest.param(True, id="for a moment")])
def test_jobs_of_a_host_that_vanishes_are_done_on_the_other(
    pair: list[OtherEngine], images: Path, tmp_path: Path, undisturbed: Undisturbed, comes_back: bool
) -> None:
    near, far = pair
    trial = Trial(tmp_path, images, spread(tmp_path, pair, [TASKS[0] | {"sandbox": {}}, TASKS[1]]))  # type: ignore[operator]
    with trial.controller() as process:
        wait_for(lambda: far.docker("ps", "-q").strip() and near.docker("ps", "-q").strip())
        wait_for(lambda: len(finished(tmp_path)) >= 1)
        wait_for(lambda: far.docker("ps", "-q").strip())
        far.vanish()
        if comes_back:
            wait_for(lambda: any(line["event"] == "host.lost" for line in events(tmp_path)))
            far.start()
        said = trial.ended(process, 200)
        assert process.returncode == 0, said
    trial.check(undisturbed)
    told = [line["event"] for line in events(tmp_path) if line["event"].startswith("host.")]
    if comes_back:
        assert told == ["host.lost", "host.back"]
    else:
        assert told == ["host.lost"]
        far.start()
        assert far.containers()
        left = len(far.containers())
        removed: list[str] = []

        def all_removed() -> bool:
            # Meanwhile the uids of one may be another controller's, who could not see it: it waits for that.
            cleaned = cli("clean", "--config", str(trial.config), home=images)
            assert cleaned.returncode == 0, cleaned.stderr
            removed.extend(line for line in cleaned.stdout.splitlines() if line.startswith("removed trace-bench-"))
            return len(removed) == left

        wait_for(all_removed, 120)
    nothing_is_left(pair)


@pytest.mark.slow
def test_a_controller_finds_what_runs_on_all_hosts_again(
    pair: list[OtherEngine], images: Path, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    trial = Trial(tmp_path, images, spread(tmp_path, pair))
    with trial.controller():
        wait_for(lambda: all(engine.docker("ps", "-q").strip() for engine in pair))
        wait_for(lambda: len(finished(tmp_path)) >= 1)
        wait_for(lambda: all(engine.docker("ps", "-q").strip() for engine in pair))
    left = [len(engine.containers()) for engine in pair]
    assert all(left), "killed, it leaves them behind"
    with trial.controller() as process:
        said = trial.ended(process, 200)
        assert process.returncode == 0, said
    adopted = [line for line in events(tmp_path) if line["event"] == "job.start" and line["adopted"]]
    assert {line["host"] for line in adopted} == {"near", "far"}
    trial.check(undisturbed)
    nothing_is_left(pair)


@pytest.mark.slow
def test_a_whole_run_over_ssh(pair: list[OtherEngine], images: Path, tmp_path: Path, undisturbed: Undisturbed) -> None:
    with ssh_server(pair[1]) as server:
        hosts = [hosts_of(pair)[0], {"url": server.url, "name": "far", "slots": 2}]
        config = matrix(tmp_path, tasks=TASKS, max_workers=4, docker={"hosts": hosts})
        trial = Trial(tmp_path, images, config, env={"PATH": server.path})
        with trial.controller() as process:
            said = trial.ended(process, 200)
            assert process.returncode == 0, said
        trial.check(undisturbed)
    assert set(ran_on(tmp_path).values()) == {"near", "far"}
    nothing_is_left(pair)
