"""`new task` and `check-task`: from nothing to a task that is as those that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import refused
from tests.integration.cli import cli
from trace_bench.artifacts.contract import BuildReport, ParameterReport, ProgramReport
from trace_bench.cli.check_task import misfits
from trace_bench.errors import ConfigError
from trace_bench.suites.lint import lint
from trace_bench.suites.new_task import INTERACTIONS, new_task
from trace_bench.suites.spec import load_task_spec


@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_a_new_folder_lacks_nothing(interaction: str, tmp_path: Path) -> None:
    done = cli("new", "task", "group/even_load", "--root", str(tmp_path), "--interaction", interaction)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 6
    assert f"trace-bench check-task --root {tmp_path} llm4ad:group/even_load" in done.stderr
    folder = tmp_path / "group" / "even_load"
    spec = load_task_spec(folder)
    assert (spec.entry, spec.title, spec.interaction) == ("even_load", "Even load", interaction)
    assert lint(folder, spec) == []
    assert "task_entry" not in "".join(path.read_text() for path in folder.rglob("*.*") if path.is_file())


@pytest.mark.parametrize("name", ["", "a b", "../out", "/abs", "class", "a//b", "1st"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no name for a task: give letters"):
        new_task(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    new_task("mine", tmp_path)
    (tmp_path / "mine" / "task.toml").write_text("precious")
    assert "is there already and not empty" in refused("new", "task", "mine", "--root", str(tmp_path))
    assert (tmp_path / "mine" / "task.toml").read_text() == "precious"


def test_an_interaction_without_a_scaffold_is_refused(tmp_path: Path) -> None:
    said = refused("new", "task", "mine", "--root", str(tmp_path), "--interaction", "agent")
    assert "--interaction agent: there is no scaffold for it; give solve or policy" in said


def report(direction: str, **scores: float | None) -> BuildReport:
    """Programs by role; None is one that fails everywhere."""
    programs = tuple(
        ProgramReport(role=role, name=f"{role}.py", score=score or 0.0, failed=4 if score is None else 0, examples=4,
                      seconds=0.1, feedback="why")
        for role, score in scores.items()
    )  # fmt: skip
    parameter = ParameterReport(name="code", kind="code", trainable=True)
    return BuildReport.model_validate(
        {"direction": direction, "parameters": (parameter,), "examples": {"train": 4}, "programs": programs}
    )


def test_programs_must_do_what_their_roles_say() -> None:
    assert misfits(report("minimize", template=2.0, reference=1.0, worse=3.0, broken=None)) == []
    assert misfits(report("maximize", template=2.0, reference=3.0, worse=1.0, alternatives=None)) == []
    wrong = misfits(report("maximize", template=2.0, reference=2.0, worse=2.0, broken=5.0))
    assert [sentence.split(" (")[0] for sentence in wrong] == [
        "reference.py", "worse.py", "broken.py is to fail, and fails on 0 of 4 instances",
    ]  # fmt: skip
    assert misfits(report("minimize", template=None)) == ["template.py fails on 4 of 4 instances: why"]
