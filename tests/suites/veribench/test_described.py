"""What ``task.toml`` of a Lean task says, and what is filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_bench.errors import ConfigError
from trace_bench.suites.spec import load_task_spec

SPEC = """
title = "Add"
statement = "It adds."
[lean]
defines = ["add"]
theorems = ["add_comm"]
[candidates]
template = "template.lean"
"""


def folder(tmp_path: Path, text: str = SPEC) -> Path:
    (tmp_path / "task.toml").write_text(text)
    for name in ("template.lean", "program.py", "cases.toml"):
        (tmp_path / name).write_text("")
    return tmp_path


def test_a_short_spec_is_filled_in(tmp_path: Path) -> None:
    spec = load_task_spec(folder(tmp_path))
    assert spec.interaction == "lean" and spec.entry == "add" and spec.score.direction == "maximize"
    assert spec.lean is not None and spec.lean.weights == {"compiles": 0.1, "tests": 0.5, "theorems": 0.4}
    assert set(spec.metrics) == {"compiles", "tests", "theorems", "axioms_ok"}


def test_equivalence_has_a_metric_and_weights_are_the_tasks(tmp_path: Path) -> None:
    own = SPEC.replace("[candidates]", 'equivalence = ["add_comm"]\n[lean.weights]\ntests = 2\n[candidates]')
    spec = load_task_spec(folder(tmp_path, own))
    assert "imperative_equivalence" in spec.metrics
    assert spec.lean is not None and spec.lean.weights["tests"] == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            'theorems = ["add_comm"]',
            'theorems = ["add_comm"]\nunproved = ["other"]',
            "'other' is none of lean.theorems",
        ),
        ('defines = ["add"]', 'define = ["add"]', "unknown key 'lean.define'"),
        ("[candidates]", "[lean.weights]\ncompiles = 0\ntests = 0\ntheorems = 0\n[candidates]", "all are 0"),
        ("[candidates]", "[lean.weights]\nluck = 1\n[candidates]", "luck"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task\.toml") as found:
        load_task_spec(folder(tmp_path, SPEC.replace(old, new)))
    assert said in str(found.value)


@pytest.mark.parametrize("missing", ["template.lean", "program.py", "cases.toml"])
def test_files_have_to_be_there(missing: str, tmp_path: Path) -> None:
    (folder(tmp_path) / missing).unlink()
    with pytest.raises(ConfigError, match=missing.replace(".", r"\.")):
        load_task_spec(tmp_path)
