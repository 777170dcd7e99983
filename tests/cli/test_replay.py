"""``run --replay`` as people type it; on the local backend, which needs no engine."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import refused
from tests.cli.test_docs import write_files_of
from tests.console import here
from tests.integration.cli import REPOSITORY, cli, write_config
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError
from trace_bench.planning.recording import find_recording

CONFIG: dict[str, Any] = {
    "tasks": ["internal:numeric_param"], "trainers": [{"id": "PrioritySearch", "params": {"num_steps": 1}}],
    "seeds": [1, 2], "backend": "local", "run_id": "compare", "tags": ["mine"],
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a config, and a run of it that was recorded."""
    folder = tmp_path_factory.mktemp("place")
    config = write_config(folder, **CONFIG)
    done = cli("run", "--config", str(config), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def latest(folder: Path) -> Path:
    """The one run there that is not the recorded one."""
    (found,) = [path for path in folder.iterdir() if path.name != "compare"]
    return found


def test_the_command_of_the_how_to_repeats_a_run(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "runs" / "compare", tmp_path / "runs" / "compare")
    page = (REPOSITORY / "docs" / "how-to" / "replay.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("$ trace-bench ")]
    done = cli(*shlex.split(line)[2:], "--backend", "local", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "replay of compare: 2 of 2 jobs came out equal (to the bit)"
    assert "2 of 2 jobs ok" in done.stdout
    made = latest(tmp_path / "runs")
    assert json.loads((made / "meta" / "replay.json").read_text())["recorded_run"] == "compare"
    snapshot = yaml.safe_load((made / "meta" / "config.snapshot.yaml").read_text())
    assert (snapshot["mode"], snapshot["run_id"], snapshot["tags"]) == ("replay", None, ["mine"])
    assert snapshot["replay_from"] == str(tmp_path / "runs" / "compare")


def test_options_go_over_the_recorded_config(place: Path, tmp_path: Path) -> None:
    done = cli("run", "--replay", str(place / "runs" / "compare"), "--runs-dir", str(tmp_path), "--run-id", "again",
               "--max-workers", "2", "--json", "--backend", "local", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    begun, *_, ended = [json.loads(line) for line in done.stdout.splitlines()]
    assert (begun["run_id"], begun["workers"], ended["exit_code"]) == ("again", 2, 0)


def test_where_scorers_come_from_and_what_keeps_programs_is_no_strangers_to_say(place: Path, tmp_path: Path) -> None:
    copy = RunLayout(Path(shutil.copytree(place / "runs" / "compare", tmp_path / "theirs")))
    changes: dict[str, Any] = {
        "task-roots": [str(place)], "data_root": str(place), "images": {"base": "evil:1"}, "llm_cache": True,
        "mirrors": {"mlflow": {"tracking_uri": "http://127.0.0.1:9"}}, "sandbox": {"allow-weaker": ["seccomp"]},
        "tasks": [{"key": "internal:numeric_param", "sandbox": {"runtime": "runc"}}],
    }  # fmt: skip
    snapshot = yaml.safe_load(copy.config_snapshot.read_text())
    snapshot = {key: value for key, value in snapshot.items() if key not in ("task_roots", *changes)}
    copy.config_snapshot.write_text(json.dumps({**snapshot, **changes}))
    recording = find_recording(str(copy.root), tmp_path, "here")
    with pytest.raises(
        ConfigError, match="theirs was made on backend local, whose programs run as you: pass --backend "
    ):
        recording.config_alone({})
    config = recording.config_alone({"backend": "docker"})
    assert config.mirrors.mlflow is None and config.images.base is None
    assert (config.task_roots, config.data_root, config.llm_cache) == ((), None, False)
    assert (config.sandbox.allow_weaker, config.sandbox.runtime, config.tasks[0].sandbox.runtime) == ((), None, None)
    keys = ["task_roots", "data_root", "images.base", "sandbox.allow_weaker", "sandbox.runtime"]
    assert [line.split(" of theirs is not taken over; ")[0] for line in config.warnings] == keys
    assert len(recording.config_alone({"backend": "local", "data_root": "d"}).warnings) == 4


def test_a_run_with_tasks_of_ones_own_is_replayed_with_their_folder(tmp_path: Path) -> None:
    config = write_config(tmp_path, **{**CONFIG, "tasks": ["internal:sum_digits"], "seeds": [1]})
    write_files_of("how-to/write-an-evaluator.md", tmp_path)
    root = ("--root", str(tmp_path / "my-tasks"))
    done = here("run", "--config", str(config), *root)
    assert done.returncode == 0, done.stderr
    replay = ("run", "--replay", str(tmp_path / "runs" / "compare"), "--backend", "local", "--run-id", "again",
              "--runs-dir", str(tmp_path / "replays"))  # fmt: skip
    lost = here(*replay)
    assert lost.returncode == 2 and "there is no task 'internal:sum_digits' here" in lost.stderr
    assert "name the folder that holds this one with --root FOLDER" in lost.stderr and lost.stderr.count("\n") == 1
    found = here(*replay, *root)
    assert found.returncode == 0 and "1 of 1 jobs came out equal" in found.stderr, found.stderr


def test_a_config_beside_it_says_which_jobs(place: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, **{**CONFIG, "run_id": "part", "seeds": [2]})
    done = cli("run", "--replay", str(place / "runs" / "compare"), "--config", str(config), cwd=tmp_path)
    assert done.returncode == 0 and "1 of 1 jobs came out equal" in done.stderr, done.stderr


def test_the_plan_of_a_replay_is_shown_without_running_it(place: Path, tmp_path: Path) -> None:
    done = cli("run", "--replay", str(place / "runs" / "compare"), "--runs-dir", str(tmp_path), "--dry-run",
               "--backend", "local")  # fmt: skip
    assert done.returncode == 0 and "2 jobs: 2 to run" in done.stdout, done.stderr
    assert not any(tmp_path.iterdir())


def test_a_difference_ends_with_1_and_is_named(place: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(place / "runs" / "compare", tmp_path / "copy"))
    row = sorted(copy.glob("jobs/*/results.json"))[0]
    data = json.loads(row.read_text())
    row.write_text(json.dumps({**data, "score_best": data["score_best"] + 1.0}))
    done = cli("run", "--replay", str(copy), "--runs-dir", str(tmp_path / "runs"), "--backend", "local")
    assert done.returncode == 1
    told = done.stderr.splitlines()[-2:]
    assert told[0] == "replay of copy: 1 of 2 jobs came out equal (to the bit)"
    assert told[1].startswith(f"differs     {data['job_id']}  score_best: was ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--replay", "gone"), "option --replay: there is no run 'gone' in runs"),
        (("--replay", ""), "option --replay: the name of the run is empty"),
        (("--replay", "/nowhere/run"), "option --replay: '/nowhere/run': no such folder"),
        (
            ("--replay", "RUN"),
            "pass --backend local if you trust this run, or use trace-bench reproduce, which runs it in sandboxes",
        ),
        (("--replay", "RUN", "--backend", "local", "--max-workers", "0"), "max_workers"),
        (("--replay", "RUN", "--config", "CONFIG"), "its seed is 9, and was 1"),
    ],
)
def test_mistakes_are_one_sentence_and_make_nothing(
    place: Path, tmp_path: Path, arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(tmp_path, **{**CONFIG, "seeds": [9]})
    words = {"RUN": str(place / "runs" / "compare"), "CONFIG": str(config)}
    monkeypatch.chdir(tmp_path)
    assert said in refused("run", *[words.get(word, word) for word in arguments])
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
