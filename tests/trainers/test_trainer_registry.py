"""Trainers are found through entry points; one that cannot be loaded is listed with its reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.trainers.registry import (
    GROUP,
    entry_of,
    list_trainers,
    load_trainer,
    load_trainers,
    resolve_params,
)

GOOD = """
from trace_bench.trainers.base import Param
class Fine:
    name, summary, source = "Fine", "x", "y"
    params = (Param("steps", 3, int, "z", minimum=1, aliases=("n",)),)
    uses_llm = uses_graph = False
    def search(self, search): yield from ()
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "some_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-plugins\nVersion: 1.0\n")
    names = ("Fine", "Absent", "Raises", "Half", "NoClass")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n" + "".join(f"{n} = plugged_{n.lower()}:{n}\n" for n in names))
    (tmp_path / "plugged_fine.py").write_text(GOOD)
    (tmp_path / "plugged_raises.py").write_text("raise RuntimeError('no GPU here')\n")
    (tmp_path / "plugged_half.py").write_text("class Half:\n    name = 'Half'\n")
    (tmp_path / "plugged_noclass.py").write_text(GOOD + "NoClass = Fine()\n")
    for name in names:
        monkeypatch.delitem(sys.modules, f"plugged_{name.lower()}", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_the_built_in_trainers_are_available() -> None:
    rows = list_trainers()
    assert rows == sorted(rows) and ("NoOp", True, "") in rows and ("PrioritySearch", True, "") in rows
    assert {"NoOp", "PrioritySearch"} <= set(load_trainers())
    assert entry_of("NoOp") == "trace_bench.trainers.noop:NoOp"


@pytest.mark.usefixtures("plugins")
def test_plug_ins_are_listed_with_the_reason_why_they_are_not_available() -> None:
    reasons = {name: (available, reason) for name, available, reason in list_trainers()}
    assert reasons["Fine"] == (True, "")
    assert reasons["Absent"][0] is False and "ModuleNotFoundError" in reasons["Absent"][1]
    assert "RuntimeError: no GPU here" in reasons["Raises"][1]
    assert "has no summary, source, params" in reasons["Half"][1]
    assert "is not a class" in reasons["NoClass"][1]
    assert set(load_trainers()) >= {"Fine", "NoOp"} and not {"Absent", "Half"} & set(load_trainers())
    with pytest.raises(ConfigError, match="no GPU here"):
        load_trainer("Raises")


def test_an_unknown_trainer_is_answered_with_the_nearest() -> None:
    for use in (load_trainer, entry_of):
        with pytest.raises(ConfigError, match="unknown trainer 'prioritysearch'; did you mean 'PrioritySearch'"):
            use("prioritysearch")


@pytest.mark.usefixtures("plugins")
def test_parameters_are_resolved_checked_and_filled_in() -> None:
    fine = load_trainer("Fine")
    assert resolve_params(fine, {}, str) == {"steps": 3} == resolve_params(fine, {"n": 3}, str)
    with pytest.raises(ConfigError, match=r"^n must be at least 1, not the number 0$"):
        resolve_params(fine, {"n": 0}, str)
    with pytest.raises(ConfigError, match="trainer 'Fine' takes no 'step'; did you mean 'steps'"):
        resolve_params(fine, {"step": 0}, str)
    with pytest.raises(ConfigError, match="two names of one argument"):
        resolve_params(fine, {"n": 4, "steps": 4}, str)


def test_without_an_installed_package_the_sentence_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(EnvironmentUnavailable, match=r"pip install -e \."):
        list_trainers()
