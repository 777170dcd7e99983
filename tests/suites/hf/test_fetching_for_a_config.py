"""`data fetch --config` and `run --fetch` get all published data that a config needs, from a server that answers as the
publishers do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.integration.cli import cli
from tests.suites.hf.made_rows import gsm8k
from tests.suites.publisher import Publisher, commit
from trace_bench.config import load_config
from trace_bench.planning.data_sets import needed

pytest.importorskip("huggingface_hub")
GSM8K = "openai/gsm8k"


@pytest.fixture
def published(hub: Publisher) -> Publisher:
    names = {"main/train-00000-of-00001.parquet": gsm8k(*range(9)), "main/test-00000-of-00001.parquet": gsm8k(20, 21)}
    card = "---\nconfigs:\n- config_name: main\n  data_files:\n" + "".join(
        f"  - split: {split}\n    path: main/{split}-*\n" for split in ("train", "test")
    )
    hub.publish(GSM8K, {"README.md": f"{card}---\n".encode(), **names}, commit(1))
    return hub


def written(folder: Path, **config: object) -> Path:
    path = folder / "c.yaml"
    sizes = {"num_train": 2, "num_validate": 2, "num_test": 2}
    tasks = config.pop("tasks", [{"id": "hf:gsm8k", "eval_kwargs": sizes}, "internal:numeric_param"])
    path.write_text(yaml.safe_dump({"tasks": tasks, "trainers": ["NoOp"], **config}))
    return path


def test_what_a_config_needs_is_fetched_once(published: Publisher, home: Path, tmp_path: Path) -> None:
    config = written(tmp_path)
    done = cli("data", "fetch", "--config", str(config), "--mirror", published.url)
    assert done.returncode == 0 and done.stdout.startswith("openai/gsm8k main: train 9 rows, test 2 rows"), done.stderr
    asked = len(published.asked)
    again = cli("data", "fetch", "-c", str(config), "--mirror", published.url)
    assert again.returncode == 0 and again.stdout == "" and len(published.asked) == asked
    assert again.stderr == "all published data that the config reads are here\n"


def test_what_is_damaged_is_fetched_again(published: Publisher, home: Path, tmp_path: Path) -> None:
    config = str(written(tmp_path))
    assert cli("data", "fetch", "--config", config, "--mirror", published.url).returncode == 0
    for path in (home / "data" / "hf" / "objects").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    done = cli("data", "fetch", "--config", config, "--mirror", published.url)
    assert done.returncode == 0 and done.stdout.startswith("openai/gsm8k main: train 9 rows, test 2 rows"), done.stderr
    assert needed(load_config(config)) == []


def test_a_run_fetches_first(published: Publisher, home: Path, tmp_path: Path) -> None:
    config = str(written(tmp_path))
    arguments = ("run", config, "--fetch", "--json", "--backend", "local", "--runs-dir", str(tmp_path / "runs"))
    done = cli(*arguments, HF_ENDPOINT=published.url)
    assert done.returncode == 0, done.stderr
    assert all(json.loads(line) for line in done.stdout.splitlines()), "what is fetched is said on stderr"
    assert "openai/gsm8k main: train 9 rows" in done.stderr and "fixture" not in done.stderr
    refused = cli("run", config, "--fetch", "--dry-run", "--backend", "local")
    assert refused.returncode == 2 and "--fetch gets data, and --dry-run leaves nothing behind" in refused.stderr


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({}, ["hf:gsm8k"]),
        ({"eval_kwargs": {"fixture": True}}, []),
        ({"tasks": ["internal:multiobjective_gsm8k"]}, []),
        ({"tasks": [{"id": "internal:multiobjective_gsm8k", "eval_kwargs": {"fixture": False}}]},
         ["internal:multiobjective_gsm8k"]),
        ({"tasks": ["hf:bbeh/web_of_lies", "hf:gsm8k"], "data_root": "or-library"},
         ["or-library", "hf:bbeh/web_of_lies", "hf:gsm8k"]),
        ({"tasks": ["internal:numeric_param"], "data_root": "somewhere"}, []),
    ],
)  # fmt: skip
def test_the_needs_of_a_config(config: dict[str, object], names: list[str], home: Path, tmp_path: Path) -> None:
    assert needed(load_config(written(tmp_path, **config))) == names


def test_a_task_of_another_suite_that_reads_a_data_set_is_fetched(
    published: Publisher, home: Path, tmp_path: Path
) -> None:
    task = {"id": "internal:multiobjective_gsm8k", "eval_kwargs": {"fixture": False}}
    done = cli("data", "fetch", "--config", str(written(tmp_path, tasks=[task])), "--mirror", published.url)
    assert done.returncode == 0 and "openai/gsm8k main: train 9 rows" in done.stdout, done.stderr


def test_nothing_named_is_refused(home: Path) -> None:
    done = cli("data", "fetch")
    assert done.returncode == 2 and "nothing is named to fetch; name data" in done.stderr
