"""What another terminal sees of a run on several engines, and does with what its controller left there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import OtherEngine, engines
from tests.integration.cli import TASKS, cli, start
from tests.integration.test_interruption import run_id, slow_config, wait_for
from trace_bench.images.lock import read_lock

pytestmark = pytest.mark.docker
__all__ = ["run_id"]


@pytest.fixture(scope="module")
def pair(images: Path) -> Iterator[list[OtherEngine]]:
    with engines(2) as found:
        for engine in found:
            engine.load(read_lock(images).images["core"].ref)
        yield found


@pytest.mark.slow
def test_what_a_dead_controller_left_on_several_hosts_is_seen_and_removed_without_its_config(
    pair: list[OtherEngine], images: Path, tmp_path: Path, run_id: str
) -> None:
    hosts = [{"url": engine.url, "name": name, "slots": 1} for engine, name in zip(pair, ("near", "far"), strict=True)]
    config = slow_config(tmp_path, 600.0, run_id, seeds=[1, 2], max_workers=2, docker={"hosts": hosts})
    process = start("run", "--config", str(config), "--root", str(TASKS), home=images)
    journal = tmp_path / "runs" / run_id / "events.jsonl"
    wait_for(lambda: journal.exists() and journal.read_text().count("job.up") == 2)
    watcher = start("attach", run_id, home=images, cwd=tmp_path)
    assert watcher.stderr is not None
    seen = {watcher.stderr.readline().split()[0] for _ in range(5)}
    rows = json.loads(cli("ps", run_id, "--json", home=images, cwd=tmp_path).stdout)
    assert [(row["host"], row["state"], row["controller"]) for row in sorted(rows, key=lambda row: row["host"])] == [
        ("far", "running", "alive"), ("near", "running", "alive"),
    ]  # fmt: skip
    process.kill()
    process.communicate()
    _, err = watcher.communicate(timeout=30)
    assert watcher.returncode == 1 and seen == {"run", "start", "up"} and "controller has died" in err
    assert cli("ps", run_id, "--json", home=tmp_path / "another", cwd=tmp_path).stdout == "[]\n"
    pair[1].stop()
    found = cli("ps", run_id, "--json", home=images, cwd=tmp_path)
    assert [row["host"] for row in json.loads(found.stdout)] == ["near"] and "host far does not answer" in found.stderr
    pair[1].start()
    done = cli("cancel", run_id, "--json", home=images, cwd=tmp_path)
    assert done.returncode == 0 and len(json.loads(done.stdout)["removed"]) == 2, done.stderr
    assert [engine.containers() for engine in pair] == [[], []] == [engine.volumes() for engine in pair]
    metas = [json.loads(path.read_text()) for path in (tmp_path / "runs" / run_id).glob("jobs/*/job_meta.json")]
    assert {meta["host"] for meta in metas} == {"near", "far"}
    checks = json.loads(cli("doctor", "--config", str(config), "--json", home=images).stdout)
    told = {check["name"]: check for check in checks}
    assert told["host near"]["ok"] and told["host far"]["ok"] and "1 slots" in told["host far"]["detail"]
