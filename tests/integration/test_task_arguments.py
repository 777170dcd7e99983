"""Every documented argument of the tasks that ship, tried with another value than its own in the image of its task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import run
from trace_bench.suites.registry import discover
from trace_bench.suites.spec import EvalKwargSpec, load_task_spec, resolve_eval_kwargs

pytestmark = pytest.mark.docker

ELSEWHERE = {
    "device": "needs a GPU: tests/integration/test_gpus.py",
    "size": "is tried by the shipped config, and as file in the official layout below",
    "fixture": "is true in all of these runs",
    **dict.fromkeys(
        ("harbor_dataset", "harbor_task_path", "harbor_registry_path", "harbor_env", "harbor_agent", "harbor_model",
         "harbor_agent_kwargs", "harbor_extra_env", "harbor_attempts", "harbor_network", "harbor_timeout_seconds"),
        "are read on the host: tests/suites/terminal_bench",
    ),
}  # fmt: skip
"""Arguments that are left out here, and why."""
GIVEN: Mapping[str, Any] = {"num_train": 2, "num_validate": 1, "num_test": 1, "n_instance": 2, "dimension": 12}


def other_value(name: str, argument: EvalKwargSpec) -> Any:
    """A value of an argument that is not its default, if it can have one: another choice, the opposite, or slightly
    less."""
    if name in GIVEN:
        return GIVEN[name]
    default: Any = argument.default
    if argument.type == "list":
        return [0.5 * part for part in default]
    if argument.choices:
        return next((choice for choice in argument.choices if choice != default), default)
    if argument.type == "bool":
        return not default
    step = 1 if argument.type == "int" else 0.01 * abs(default) or 0.01
    below = argument.minimum is None or default - step >= argument.minimum
    return default - step if below else default + step


def entries(suite: str) -> list[dict[str, Any]]:
    """Entries of a config that give each argument of the suite at least once: of few tasks, with all that they take."""
    tasks = {entry.id: load_task_spec(entry.folder) for entry in discover([suite])}
    left = {name for spec in tasks.values() for name in spec.eval_kwargs} - ELSEWHERE.keys()
    found = []
    while left:
        task, spec = max(tasks.items(), key=lambda item: len(left & item[1].eval_kwargs.keys()))
        names = [name for name in spec.eval_kwargs if name not in ELSEWHERE]
        given = {name: other_value(name, spec.eval_kwargs[name]) for name in names}
        found.append({"id": task, "eval_kwargs": given | ({"fixture": True} if "fixture" in spec.eval_kwargs else {})})
        left -= spec.eval_kwargs.keys()
    return found


@pytest.mark.parametrize(
    ("suite", "image"),
    [
        ("internal", "images"), ("hf", "images"),
        pytest.param("trace_examples", "images", marks=pytest.mark.slow),
        pytest.param("llm4ad", "images", marks=pytest.mark.slow),
        pytest.param("veribench", "lean", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_each_argument_works_in_the_image_of_its_task(
    suite: str, image: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    tasks = entries(suite)
    done = run(tmp_path, request.getfixturevalue(image), tasks=tasks, trainers=["NoOp"], seeds=[1], max_workers=2,
               timeout=900)  # fmt: skip
    failed = {
        row["task_id"]: f"{row['failure_boundary']}: {row['feedback']}" for row in done["jobs"] if row["status"] != "ok"
    }
    assert failed == {} and done["code"] == 0
    for row, task in zip(done["jobs"], tasks, strict=True):
        assert {name: row["eval_kwargs"][name] for name in task["eval_kwargs"]} == task["eval_kwargs"]


def test_arguments_that_are_left_out_exist_and_the_others_have_another_value() -> None:
    specs = [load_task_spec(entry.folder) for entry in discover()]
    assert {name for spec in specs for name in spec.eval_kwargs} >= ELSEWHERE.keys() | GIVEN.keys()
    for suite in ("internal", "trace_examples", "hf", "llm4ad", "veribench"):
        specs_of = {entry.id: load_task_spec(entry.folder) for entry in discover([suite])}
        for entry in entries(suite):
            defaults = resolve_eval_kwargs(specs_of[entry["id"]], {}, str)
            given = resolve_eval_kwargs(specs_of[entry["id"]], entry["eval_kwargs"], str)
            equal = {name for name in entry["eval_kwargs"] if given[name] == defaults[name]}
            only = {name for name in equal if len(specs_of[entry["id"]].eval_kwargs[name].choices or ()) == 1}
            assert equal - {"fixture"} == only - {"fixture"}, entry


PROBLEM = """
import torch


class Model(torch.nn.Module):
    def __init__(self, in_features, out_features, factor):
        super().__init__()
        self.product = torch.nn.Linear(in_features, out_features)
        self.factor = factor

    def forward(self, x):
        return torch.nn.functional.leaky_relu(self.product(x) * self.factor)


batch_size = 1024
in_features = 8192
out_features = 8192
factor = 2.0


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, factor]
"""


@pytest.mark.slow
def test_a_file_in_the_official_layout_takes_every_argument(kernels: Path, tmp_path: Path) -> None:
    level = tmp_path / "checkout" / "KernelBench" / "level2"
    level.mkdir(parents=True)
    (level / "12_Product_Scale_LeakyReLU.py").write_text(PROBLEM)
    arguments = {
        "constants": "batch_size=64, in_features=128, out_features=128", "peak_tflops": 1e-9, "peak_gb_per_s": 1e6,
        "trials": 9, "threads": 2, "build_seconds": 60.0, "size": "file", "device": "cpu",
    }  # fmt: skip
    task = {"id": "kernelbench:level2/12_Product_Scale_LeakyReLU", "eval_kwargs": arguments}
    done = run(tmp_path, kernels, "--root", str(tmp_path / "checkout"), tasks=[task], trainers=["NoOp"], seeds=[1],
               timeout=600)  # fmt: skip
    (row,) = done["jobs"]
    assert row["status"] == "ok", row["feedback"]
    # Two million operations take half an hour at a thousand a second: whatever is faster is impossible.
    assert row["metrics_best"]["impossible"] == 1.0 and row["metrics_best"]["correct"] == 1.0
    assert set(arguments) == set(row["eval_kwargs"]), json.dumps(row["eval_kwargs"])
