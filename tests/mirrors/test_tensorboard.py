"""A run as TensorBoard's files, read back by TensorBoard's own readers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import cli, environment
from trace_bench.artifacts.layout import RunLayout
from trace_bench.execution.tensorboard import write_events
from trace_bench.mirrors.tensorboard import folder_name, write_run
from trace_bench.records.reading import read_rows

pytest.importorskip("tensorboard")
pytest.importorskip("tensorboardX")

READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import parse_session_start_info_plugin_data as start
from tensorboard.plugins.hparams.metadata import parse_session_end_info_plugin_data as end
from tensorboard.plugins.hparams.metadata import parse_experiment_plugin_data as experiment
found = {}
for folder in sys.argv[1:]:
    e = EventAccumulator(folder, size_guidance={"scalars": 0}); e.Reload()
    data = e.PluginTagToContent("hparams")
    params = start(data["_hparams_/session_start_info"]).hparams
    found[folder] = {
        "hparams": {k: getattr(v, v.WhichOneof("kind")) for k, v in params.items()},
        "metrics": [m.name.tag for m in experiment(data["_hparams_/experiment"]).metric_infos],
        "infos": [i.name for i in experiment(data["_hparams_/experiment"]).hparam_infos],
        "status": end(data["_hparams_/session_end_info"]).status,
        "scalars": {t: [s.value for s in e.Scalars(t)] for t in e.Tags()["scalars"]},
    }
print(json.dumps(found))
"""


def read(*folders: Path) -> list[dict[str, Any]]:
    """What TensorBoard's readers find in each folder; in a process of its own, as it is large."""
    done = subprocess.run(
        [sys.executable, "-c", READ, *map(str, folders)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout).values())


def test_every_job_has_its_curves_and_a_line_in_the_table_of_hyperparameters(
    recorded: RunLayout, tmp_path: Path
) -> None:
    found = write_run(recorded, tmp_path / "tb")
    assert (found.jobs, found.changed) == (18, 18)
    chosen = [row for row in read_rows(recorded) if row.seed == 2 and row.trainer_id == "PrioritySearch"]
    assert chosen
    for row, seen in zip(chosen, read(*(tmp_path / "tb" / folder_name(row) for row in chosen)), strict=True):
        assert seen["hparams"]["seed"] == 2 and seen["hparams"]["trainer_id"] == "PrioritySearch"
        assert seen["hparams"]["task_id"] == row.task_id
        for name, value in row.resolved_trainer_kwargs.items():
            plain = isinstance(value, str | int | float)
            assert seen["hparams"].get(f"trainer.{name}") == (value if plain or value is None else json.dumps(value))
        assert set(seen["infos"]) == set(seen["hparams"])
        assert set(seen["metrics"]) <= set(seen["scalars"]) and "result/score_best" in seen["metrics"]
        assert seen["scalars"]["result/score_best"] == [pytest.approx(row.score_best, rel=1e-6)]
        assert ("result/normalised" in seen["scalars"]) == ("normalised" in row.metrics_best)
        if row.score_test is not None:
            assert seen["scalars"]["result/score_test"] == [pytest.approx(row.score_test, rel=1e-6)]
        assert seen["status"] == 1  # STATUS_SUCCESS
        lines = [json.loads(line) for line in recorded.job(row.job_id).state_history.read_text().splitlines()]
        assert seen["scalars"]["score/best"] == [pytest.approx(line["best_score"], rel=1e-6) for line in lines]


def test_the_command_writes_equal_bytes_in_every_process_and_nothing_into_the_run(
    recorded: RunLayout, tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in recorded.root.rglob("*")}
    trees = []
    for seed, folder in (("1", "one"), ("2", "two")):
        (tmp_path / folder).mkdir()
        done = cli("mirror", "tensorboard", str(recorded.root), cwd=tmp_path / folder, PYTHONHASHSEED=seed)
        assert done.stdout == f"{recorded.run_id}: 18 jobs at {recorded.run_id}.tb, 18 of them changed\n", done.stderr
        made = tmp_path / folder / f"{recorded.run_id}.tb"
        trees.append({str(p.relative_to(made)): p.read_bytes() for p in made.rglob("*") if p.is_file()})
    assert trees[0] == trees[1] and len(trees[0]) == 18
    assert {path: path.stat().st_mtime_ns for path in recorded.root.rglob("*")} == before
    assert write_run(recorded, tmp_path / "two" / f"{recorded.run_id}.tb").changed == 0


def test_the_files_of_a_job_with_the_logger_have_the_hyperparameters_too(copied: RunLayout) -> None:
    row = next(row for row in read_rows(copied) if row.trainer_id == "PrioritySearch")
    job = copied.job(row.job_id)
    write_events(job, row.model_copy(update={"status": "failed", "score_test": 0.5}))
    (seen,) = read(job.tb)
    assert seen["hparams"]["seed"] == row.seed and seen["scalars"]["result/score_test"] == [0.5]
    assert seen["status"] == 2  # STATUS_FAILURE


def test_jobs_without_a_history_or_a_result_are_left_out_and_mistakes_are_sentences(
    copied: RunLayout, tmp_path: Path
) -> None:
    one, two, *_ = [job.root for job in copied.job_dirs()]
    shutil.rmtree(one)
    shutil.rmtree(two)
    assert write_run(copied, tmp_path / "tb").jobs == 16
    for words, said in (
        (["tensorboard", str(copied.root), "-o", str(copied.root / "tb")], "lies inside of the run"),
        (["tensorboard", str(copied.root), "--no-files"], "option --no-files is of mirror mlflow"),
        (["wandb", str(copied.root)], "there is no mirror 'wandb'"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "trace_bench", "mirror", *words], capture_output=True, text=True, check=False,
            env=environment(), timeout=60,
        )  # fmt: skip
        assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
