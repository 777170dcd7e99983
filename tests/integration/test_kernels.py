"""Kernels in containers: the shipped config, and a kernel in Triton."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.cli import REPOSITORY, cli, write_config
from tests.suites.kernelbench.test_inline import ENDLESS

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x) + y


def get_inputs():
    return [torch.randn(4, 500), torch.randn(4, 500)]


def get_init_inputs():
    return []
"""
TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, out, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    value = tl.maximum(tl.load(x + places, mask=inside), 0.0) + tl.load(y + places, mask=inside)
    tl.store(out + places, value, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 512),)](x, y, out, x.numel(), BLOCK=512)
        return out
"""


def rows_of(runs: Path) -> dict[str, dict[str, str]]:
    (path,) = runs.glob("*/results.csv")
    return {row["task_id"]: row for row in csv.DictReader(path.read_text().splitlines())}


def test_the_shipped_config_finds_faster_kernels_and_finds_the_same_correct_again(
    kernels: Path, tmp_path: Path
) -> None:
    found: list[dict[str, dict[str, str]]] = []
    shipped = yaml.safe_load((REPOSITORY / "configs" / "kernelbench_cpu.yaml").read_text())
    for again, tasks in (("first", shipped["tasks"][::2]), ("second", shipped["tasks"][:1])):  # one of each level
        runs = tmp_path / again
        config = write_config(tmp_path, **shipped | {"tasks": tasks})
        done = cli("run", str(config), "--runs-dir", str(runs), home=kernels, timeout=900)
        assert done.returncode == 0, done.stderr
        found.append(rows_of(runs))
    assert [len(rows) for rows in found] == [3, 1]
    for rows in found:
        assert {(row["status"], row["integrity"]) for row in rows.values()} == {("ok", "protected")}
        assert all("torch 2.13.0+cpu" in row["hardware"] for row in rows.values())
    faster = [t for t, row in found[0].items() if float(row["score_best"]) > 1.1 * float(row["score_initial"])]
    assert faster, found[0]  # one at least: a busy machine hides small differences
    scores = ("score_initial", "score_best", "score_test")
    first, second = ({task: [float(row[key]) > 0 for key in scores] for task, row in rows.items()} for rows in found)
    assert second == {task: first[task] for task in second}


CPP = """
import torch
from torch.utils.cpp_extension import load_inline

made = load_inline(name="made", functions=["add"], extra_cflags=["-O3"], cpp_sources='''
torch::Tensor add(torch::Tensor x, torch::Tensor y) { return x.relu() + y; }
''')


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        return made.add(x, y)
"""


def measured(
    kernels: Path, tmp_path: Path, program: str, more: str = ""
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The examples of `program` as a start, and the row of its job."""
    folder = tmp_path / "tasks" / "own"
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(
        'suite = "kernelbench"\ntitle = "Own"\n[kernel]\n[candidates]\ntemplate = "template.py"\n' + more
    )
    (folder / "problem.py").write_text(PROBLEM)
    (folder / "template.py").write_text(program)
    done = cli("run", "-t", "kernelbench:own", "-T", "NoOp", "--root", str(tmp_path / "tasks"), "--runs-dir",
               str(tmp_path / "runs"), home=kernels, timeout=600)  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "runs").glob("*/jobs/*/attempts/*/out/result.json")
    (row,) = (tmp_path / "runs").glob("*/jobs/*/results.json")
    return json.loads(path.read_text())["scores"]["best"]["examples"], json.loads(row.read_text())


@pytest.mark.parametrize(("program", "flags"), [(TRITON, []), (CPP, ["needs_files"])])
def test_a_kernel_of_another_language_is_built_and_measured_in_its_container(
    kernels: Path, tmp_path: Path, program: str, flags: list[str]
) -> None:
    examples, row = measured(kernels, tmp_path, program)
    assert [example["failed"] for example in examples] == [False, False], examples[0]["feedback"]
    assert all(example["metrics"]["correct"] == 1.0 for example in examples)
    assert row["integrity"] == "protected" and row["integrity_flags"].split() == flags


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('asm(".fill 4000000000, 1, 0");', "File size limit exceeded"),
        (ENDLESS, "is not built within 10 s"),
        ('#include "/proc/1/environ"', "Permission denied"),
    ],
    ids=["four-gigabytes", "endless", "what-others-hold"],
)  # fmt: skip
def test_a_build_that_is_an_attack_costs_its_kernel(kernels: Path, tmp_path: Path, text: str, said: str) -> None:
    program = f"load_inline('m', {text!r}, no_implicit_headers=True)\n"
    examples, row = measured(kernels, tmp_path, program, "[eval_kwargs.build_seconds]\ndefault = 10\n")
    assert [example["failed"] for example in examples] == [True, True] and row["score_best"] == 0
    assert all(said in example["feedback"] for example in examples), examples[0]["feedback"]
