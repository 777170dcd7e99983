"""A copy of OpenTrace in an image, in place of trace-opt: its trainers are listed, validated and run in containers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli import cli, run, write_config
from tests.integration.test_replay import assert_equal, replay
from tests.trainers.opto_checkout import write_checkout
from tests.trainers.test_opto_real import CHECKOUT, RUNNING
from trace_bench.images.layers import family_named
from trace_bench.images.lock import read_lock
from trace_bench.images.wheels import Target, gather

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Iterator[Path]:
    """A repository with one commit."""
    folder = write_checkout(tmp_path_factory.mktemp("opentrace"))
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a copy"]):
        subprocess.run(["git", "-C", str(folder), *who, *command], check=True, capture_output=True)
    yield folder
    import docker

    client = docker.from_env()
    images_of = [image for name in ("", "-deps") for image in client.images.list(f"trace-bench/*__opentrace{name}")]
    for tag in [tag for image in images_of for tag in image.tags if "opentrace" in tag]:
        client.images.remove(tag)
    client.close()
    lock = json.loads((images / "images.lock.json").read_text())
    lock["images"].pop("core+opentrace", None)
    (images / "images.lock.json").write_text(json.dumps(lock))


@pytest.mark.slow
def test_its_trainers_run_in_containers_and_candidates_where_they_always_do(
    checkout: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENTRACE", str(checkout))
    done = cli("images", "build", "core", home=images)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["core", "core+opentrace"], done.stderr
    listed = cli("list-trainers").stdout.splitlines()
    assert "opto:Minibatch\tavailable" in listed and "opto:SearchTemplate\tavailable" not in listed

    wanted = {
        "tasks": ["internal:numeric_param", "internal:code_param"],
        "trainers": [{"id": "opto:Minibatch", "params": {"num_epochs": 3}}],
    }
    path = write_config(tmp_path, **wanted)
    checked = cli("validate", "--config", str(path), home=images)
    assert checked.returncode == 0 and "OK trainer opto:Minibatch" in checked.stdout, checked.stderr
    result = run(tmp_path, images, **wanted)
    assert [(row["status"], row["integrity"]) for row in result["jobs"]] == [("ok", "unprotected")] * 2, result[
        "stderr"
    ]
    assert result["jobs"][1]["score_best"] == 1.0 > result["jobs"][1]["score_initial"]
    assert [row["llm_calls"] for row in result["jobs"]] == [3, 6], "three passes over one and over two examples"

    folder = Path(result["folder"])
    image = json.loads((folder / "meta" / "lock.json").read_text())["images"]["core+opentrace"]
    asked = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert image["plugins"] == {"opentrace": f"0.1.3.8 git {commit.stdout[:12]}"}
    for row in result["jobs"]:
        lines = (folder / "jobs" / row["job_id"] / "artifacts" / "state_history.jsonl").read_text().splitlines()
        assert len(lines) > 1 and json.loads(lines[0])["candidate"] == "seed"
    # The program that the model wrote ran as a candidate, and nowhere else.
    (code,) = [row for row in result["jobs"] if row["task_id"] == "internal:code_param"]
    report = json.loads((folder / "jobs" / code["job_id"] / "job_meta.json").read_text())["integrity_report"]
    assert report["candidates"]["train"]["opened"] > 0


@pytest.mark.slow
@pytest.mark.skipif(not CHECKOUT, reason="OPENTRACE names no checkout of OpenTrace")
@pytest.mark.parametrize("backend", ["docker", "local"])
def test_trainers_of_a_real_checkout_run_and_are_repeated(images: Path, tmp_path: Path, backend: str) -> None:
    if backend == "docker":
        assert cli("images", "build", "core", home=images).returncode == 0
    result = run(
        tmp_path, images, tasks=["internal:numeric_param"], trainers=[f"opto:{name}" for name in RUNNING], seeds=[1],
        budget={"evaluations": 60, "calls": 40}, backend=backend, timeout=500,
    )  # fmt: skip
    assert [(row["trainer_id"], row["status"]) for row in result["jobs"]] == [(f"opto:{n}", "ok") for n in RUNNING]
    assert all(row["score_best"] > row["score_initial"] for row in result["jobs"])
    assert_equal(result["folder"], replay(result["folder"], tmp_path, images, "--backend", backend))


@pytest.mark.slow
def test_a_copy_without_trainers_is_built_and_the_sentence_says_that_it_has_none(images: Path, tmp_path: Path) -> None:
    (base, *_) = read_lock(images).bases.values()
    target = Target(base.python, base.machine, base.glibc)
    wheels = gather(list(family_named("core").requirements), target, images / "cache")
    (wheel,) = (each for each in wheels if each.name.startswith("trace_opt-"))
    path = write_config(tmp_path, tasks=["internal:numeric_param"], trainers=["opto:Minibatch"])
    done = cli("run", "--config", str(path), home=images, OPENTRACE=str(wheel))
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"unknown trainer 'opto:Minibatch': {wheel} has no trainers; set OPENTRACE" in done.stderr
    home = tmp_path / "home"
    home.mkdir()
    (home / "images.lock.json").write_bytes((images / "images.lock.json").read_bytes())
    (images / "cache").mkdir(exist_ok=True)  # nothing had to be downloaded, if the engine had every image
    (home / "cache").symlink_to(images / "cache")
    built = cli("images", "build", "llm4ad+opentrace", "--opentrace", str(wheel), "--json", home=home)
    assert [pin["plugins"] for pin in json.loads(built.stdout)] == [{"opentrace": "0.1.3.8"}], built.stderr
    # Its layer pins numpy, which this family has: there is nothing to install.
    other = cli("images", "build", "core", "--opentrace", str(tmp_path), home=home)
    assert other.returncode == 2 and "is not a checkout or a wheel with a package opto" in other.stderr
