"""``check-task`` in real sandboxes: what the programs of a task score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cli import cli
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
    assert spoilt["remarks"] == ["the statement does not say that the score is to be minimized"]
