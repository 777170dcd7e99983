"""Whether the speed-ups of kernels can be believed: a reference as its own candidate, and candidates of known ratios.

Each is measured as the template of a task by jobs without training, in containers, one at a time. Every job measures
its template twice. Run it where nothing else runs.

    python benchmarks/perf/kernels.py [--jobs 10] [--task level3/causal_attention …]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OURS = Path(__file__).parents[1] / "kernelbench"
TASKS = ("level1/layer_norm", "level1/pairwise_distance", "level2/group_norm_swish", "level3/causal_attention")
FACTORS = (1, 2, 3)
"""How often a candidate computes what the reference computes once."""
_CANDIDATE = """

class ModelNew(Model):
    def forward(self, *inputs):
        for _ in range({factor} - 1):
            super().forward(*inputs)
        return super().forward(*inputs)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10, help="for each candidate; each measures it twice")
    parser.add_argument("--task", nargs="+", default=TASKS, help="problems of the suite kernelbench")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for task in arguments.task:
            for factor in FACTORS:
                write_task(OURS / task, root / "tasks" / name_of(task, factor), factor)
        run(root, arguments.jobs)
        print(
            f"{'task':28} {'due':>6} {'median':>7} {'lowest':>7} {'highest':>7}  {'due in interval':15}  s/evaluation"
        )
        for task in arguments.task:
            for factor in FACTORS:
                print(line(task, factor, list(measured(root / "runs", name_of(task, factor)))))
    return 0


def name_of(task: str, factor: int) -> str:
    return f"{task.replace('/', '_')}_{factor}"


def write_task(ours: Path, folder: Path, factor: int) -> None:
    """The task at `ours`, with a template that takes `factor` times as long as the reference."""
    folder.mkdir(parents=True)
    spec = (ours / "task.toml").read_text(encoding="utf-8").partition("[candidates]")[0]
    (folder / "task.toml").write_text(f'suite = "kernelbench"\n{spec}[candidates]\ntemplate = "template.py"\n')
    problem = (ours / "problem.py").read_text(encoding="utf-8")
    (folder / "problem.py").write_text(problem)
    (folder / "template.py").write_text(problem.partition("def get_inputs")[0] + _CANDIDATE.format(factor=factor))


def run(root: Path, jobs: int) -> None:
    """All of it, as one run of one job at a time."""
    config: dict[str, Any] = {
        "name": "kernels",
        "tasks": [f"kernelbench:{path.name}" for path in sorted((root / "tasks").iterdir())],
        "trainers": ["NoOp"],
        "seeds": list(range(1, jobs + 1)),
        "max_workers": 1,
        "runs_dir": str(root / "runs"),
    }
    (root / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "trace_bench", "run", str(root / "config.json"), "--root", str(root / "tasks")]
    subprocess.run(command, check=True, stdout=sys.stderr)


def measured(runs: Path, task: str) -> Iterator[tuple[float, float, float]]:
    """Speed-up and ends of its interval, of each measurement."""
    for path in runs.glob("*/jobs/*/attempts/*/out/result.json"):
        job = json.loads((path.parents[3] / "job_meta.json").read_text())
        if job["task_id"] == f"kernelbench:{task}":
            for example in json.loads(path.read_text())["scores"]["initial"]["examples"]:
                metrics = example["metrics"]
                yield example["score"], metrics["speedup_low"], metrics["speedup_high"]


def line(task: str, factor: int, found: list[tuple[float, float, float]]) -> str:
    due = 1 / factor
    scores = [score for score, _, _ in found]
    held = sum(low <= due <= high for _, low, high in found)
    return (
        f"{task:28} {due:6.3f} {statistics.median(scores):7.3f} {min(scores):7.3f} {max(scores):7.3f}  "
        f"{held} of {len(found)}"
    )


if __name__ == "__main__":
    sys.exit(main())
