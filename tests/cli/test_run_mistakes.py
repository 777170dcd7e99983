"""A config that is wrong, or a machine that lacks something: one sentence, an exit code, and nothing is created."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import NO_ENGINE, assert_refused, refused
from tests.integration.cli import cli, write_config

TASK = "internal:numeric_param"


def _refused(folder: Path, text: str | bytes, *arguments: str, code: int = 2, home: Path | None = None) -> str:
    """Run a config of `text`, which must be refused without a trace."""
    config = folder / "config.yaml"
    config.write_bytes(text if isinstance(text, bytes) else text.encode())
    said = refused("run", "--config", "config.yaml", *arguments, code=code, home=home or folder / "home", cwd=folder)
    assert sorted(p.name for p in folder.iterdir()) == ["config.yaml"], "something was created"
    return said


def test_a_missing_file(tmp_path: Path) -> None:
    assert refused("run", "--config", "none.yaml", cwd=tmp_path) == (
        "error: none.yaml: does not exist; check the path after --config"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder(tmp_path: Path) -> None:
    assert "is a folder" in refused("run", "--config", str(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tasks: [a\n b: {", "config.yaml, line 2: is not valid YAML"),
        (b"tasks: [\xff]", "config.yaml, line 1: is not UTF-8"),
        ("", "config.yaml: is empty"),
        (f"tasks: [{TASK}]\ntrainer: [NoOp]\n", "config.yaml, line 2: unknown key 'trainer'; did you mean 'trainers'?"),
        ("tasks: [internal:numeric_parm]\n", "no task 'internal:numeric_parm'; did you mean 'internal:numeric_param'?"),
        ("tasks: [nope:x]\n", "there is no suite 'nope'"),
        (f"tasks: [{TASK}]\ntrainers: [NoOpp]\n", "no trainer 'NoOpp'; did you mean 'NoOp'?"),
        (f"tasks: [{TASK}]\nbackend: dcoker\n", "line 2: backend must be one of 'auto', 'docker', 'local'"),
        (f"tasks: [{TASK}]\nmax_workers: 0\n", "line 2: max_workers must be at least 1"),
        (f"tasks: [{TASK}]\ntasks: [{TASK}]\n", "line 2: "),
        (f"tasks: [{TASK}]\nllm: {{api_key: {'sk-' + 5 * '0123'}}}\n", "line 2: "),
        (f"tasks: [{TASK}]\nsandbox: {{require_controls: [netwrok]}}\n", "no control 'netwrok'; did you mean"),
    ],
)  # fmt: skip
def test_a_wrong_config(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert said in _refused(tmp_path, text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--backend", "nope"], "option --backend: backend must be one of 'auto', 'docker', 'local', not 'nope'"),
        (["--max-workers", "0"], "option --max-workers: max_workers must be at least 1, not the number 0"),
        (["--run-id", "a/b"], "option --run-id: run_id must be a folder name"),
        (["--run-id", "../x"], "option --run-id: run_id must be a folder name"),
        (["--run-id", ""], "option --run-id: "),
        (["--runs-dir", ""], "option --runs-dir: runs_dir must not be empty"),
        (["--runs-dir", "config.yaml"], "option --runs-dir: runs_dir: "),
        (["--runs-dir", "config.yaml/x/y"], "config.yaml is no folder; name another one"),
        (["--root", "nowhere"], "the task root nowhere does not exist"),
    ],
)
def test_a_wrong_option(tmp_path: Path, arguments: list[str], said: str) -> None:
    assert said in _refused(tmp_path, f"tasks: [{TASK}]\n", *arguments)


def test_several_mistakes_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("tasks: [internal:nope]\ntrainers: [Nope]\n")
    done = cli("run", "--config", "config.yaml", cwd=tmp_path)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.count("config.yaml, line ") == 2 and done.stderr.count("\n") == 2


def test_without_an_engine_nothing_falls_back(tmp_path: Path) -> None:
    path = write_config(tmp_path, tasks=[TASK], trainers=["NoOp"])
    said = refused("run", "--config", str(path), code=3, home=tmp_path / "home", DOCKER_HOST=NO_ENGINE)
    assert f"engine at {NO_ENGINE} " in said and "--backend local" in said and "unprotected" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json"]


@pytest.mark.docker
def test_no_build_builds_nothing(tmp_path: Path) -> None:
    path = write_config(tmp_path, tasks=[TASK], trainers=["NoOp"])
    said = refused("run", "--config", str(path), "--no-build", code=3, home=tmp_path / "home")
    assert said == "error: the image of family core was not built here; run `trace-bench images build core`"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json"]


@pytest.mark.skipif(os.getuid() == 0 and not shutil.which("mount"), reason="root writes anywhere")
def test_a_runs_folder_without_rights_is_refused_before_anything_is_done(small: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    path = write_config(tmp_path, tasks=[TASK], trainers=["NoOp"])
    said = refused("run", "--config", str(path), "--backend", "local", "--runs-dir", str(small / "runs"), code=3)
    assert said == f"error: {small} cannot be written; name another folder with --runs-dir"


def test_a_full_disk_is_one_sentence_and_keeps_what_was_finished(small: Path, tmp_path: Path) -> None:
    search = {"id": "PrioritySearch", "params": {"num_steps": 2}}
    path = write_config(tmp_path, tasks=[TASK], trainers=[search], seeds=list(range(12)))
    run = ("run", "--config", str(path), "--backend", "local", "--run-id", "full", "--runs-dir", str(small), "-q")
    done = cli(*run, timeout=120)
    assert_refused(done, 3)
    assert "No space left on device" in done.stderr and "--run-id" in done.stderr
    finished = len(list(small.glob("full/jobs/*/results.json")))
    assert 0 < finished < 12

    subprocess.run(["mount", "-o", "remount,size=16m", str(small)], check=True)
    done = cli(*run, "--json", timeout=120)
    assert done.returncode == 0, done.stderr
    starts = [json.loads(line) for line in (small / "full" / "events.jsonl").read_text().splitlines()]
    assert len(json.loads(done.stdout)["jobs"]) == 12
    assert len([e for e in starts if e["event"] == "job.start"]) < 24, "finished jobs ran again"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("no right to mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
