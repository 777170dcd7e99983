"""``check-task`` in real sandboxes: what the programs of a task score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cli import REPOSITORY, cli
from trace_bench.cli.new import new_task

pytestmark = pytest.mark.docker


@pytest.mark.slow
def test_new_tasks_pass_the_check_and_a_spoilt_one_is_told_why(images: Path, tmp_path: Path) -> None:
    for name, interaction in (("good", "solve"), ("steps", "policy"), ("spoilt", "solve")):
        new_task(name, tmp_path, interaction)
    programs = tmp_path / "spoilt" / "programs"
    (programs / "broken.py").write_text((programs / "worse.py").read_text())
    (programs / "reference.py").write_text((programs / "template.py").read_text())
    spec = tmp_path / "spoilt" / "task.toml"
    spec.write_text(spec.read_text().replace("to be minimized; the", "the less the better; the"))
    done = cli(
        "check-task", "llm4ad:good", "llm4ad:steps", "llm4ad:spoilt", "--root", str(tmp_path), "--json", home=images
    )
    assert done.returncode == 1, done.stderr
    good, steps, spoilt = json.loads(done.stdout)["tasks"]
    for row in (good, steps):
        assert row["problems"] == row["remarks"] == []
        score = {program["role"]: program["score"] for program in row["programs"]}
        assert row["bound"] <= score["reference"] < score["template"] < score["worse"]
    assert [problem.split(" (")[0] for problem in spoilt["problems"]] == [
        "programs/reference.py", "programs/broken.py is to fail, and fails on 0 of 5 instances",
    ]  # fmt: skip
    assert spoilt["remarks"] == ["the statement does not say that the score must be minimized"]


def test_foreign_code_runs_its_own_template_and_programs_of_the_user(images: Path, tmp_path: Path) -> None:
    mine = tmp_path / "sorts.py"
    mine.write_text("def arrange(numbers):\n    return sorted(numbers.tolist())\n")
    broken = tmp_path / "broken.py"
    broken.write_text("def arrange(numbers):\n    return numbers[len(numbers)]\n")
    foreign = str(REPOSITORY / "tests" / "foreign")
    done = cli("check-task", "proxied", "--root", foreign, "--program", str(mine), home=images)
    assert done.returncode == 0, done.stderr
    said = [line.split()[:2] for line in done.stdout.splitlines()]
    assert said[0] == ["OK", "task"] and said[2] == ["sorts.py", "1"]
    assert said[1][0] == "template" and 0 < float(said[1][1]) < 1
    done = cli("check-task", "proxied", "objects", "--root", foreign, "--program", str(broken), home=images)
    assert done.returncode == 1
    assert "problem: broken.py fails on 1 of 1 instances: call failed at line 2: IndexError" in done.stdout
    assert "problem: task: build_error: the evaluator calls measure" in done.stdout, "the template itself cannot run"


def test_arguments_shape_the_instances_that_programs_run_on(images: Path, tmp_path: Path) -> None:
    task = "llm4ad:optimization/online_bin_packing"
    mine = tmp_path / "first_fit.py"
    mine.write_text("def priority(item, bins):\n    return [-float(n) for n in range(len(bins))]\n")
    set_ = ("--set", "n_items=60", "--set", "num_train=2")
    done = cli("check-task", task, "internal:code_param", *set_, "--program", str(mine), "--json", home=images)
    row, other = json.loads(done.stdout)["tasks"]
    score = {program["role"]: program for program in row["programs"]}
    assert score["broken"]["score"] == 60 and score["broken"]["examples"] == 2, "one bin for each item, at worst"
    assert score["given"]["name"] == "first_fit.py" and score["given"]["failed"] == 0
    assert row["bound"] <= score["given"]["score"] < 60
    assert [problem for problem in other["problems"] if "first_fit.py" not in problem] == [], "it has no n_items"
